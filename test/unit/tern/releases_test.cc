// SPDX-License-Identifier: BSD-3-Clause
// Which releases of UCX an installation serves.
#include "loader/releases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class Releases : public testing::Test {
  protected:
    Releases() : folder_(testing::TempDir() + "releases-XXXXXX") {
        if (::mkdtemp(folder_.data()) == nullptr) ADD_FAILURE() << folder_;
    }
    ~Releases() override { std::filesystem::remove_all(folder_); }

    void add(const std::string& name) const {
        std::filesystem::create_directories(folder_ + "/" + name);
        std::ofstream(tern::loader::transport_path(folder_, name)) << "a library";
    }

    std::string folder_;
};

TEST_F(Releases, AreFoldersWithATransportByAge) {
    for (const char* name : {"1.20.0", "1.9.12", "1.13.1"}) add(name);
    EXPECT_THAT(tern::loader::releases_in(folder_), ElementsAre("1.9.12", "1.13.1", "1.20.0"));
}

TEST_F(Releases, AreNothingElse) {
    for (const char* name : {"1.20", "1.20.0.1", "1.20.0-rc1", "release", "1.20.x"}) add(name);
    std::filesystem::create_directories(folder_ + "/1.22.0");
    EXPECT_THAT(tern::loader::releases_in(folder_), IsEmpty());
    EXPECT_THAT(tern::loader::releases_in(folder_ + "/none"), IsEmpty());
}

TEST_F(Releases, AreNamedWhereNoneFits) {
    EXPECT_EQ(tern::loader::misfit({"1.13.1", "1.18.1", "1.22.0"}, "1.16.0"),
              "transport tern is not available: it is installed for UCX 1.13.1, 1.18.1 and 1.22.0, "
              "and this is UCX 1.16.0; build it for this one too (configure "
              "--with-ucx=PREFIX:PREFIX) or run with UCX 1.22.0");
    EXPECT_THAT(tern::loader::misfit({"1.13.1"}, "1.16.0"),
                testing::HasSubstr("for UCX 1.13.1, and this is UCX 1.16.0; "));
    EXPECT_THAT(tern::loader::misfit({}, "1.16.0"), testing::HasSubstr("for no release of UCX; "));
}

}  // namespace
