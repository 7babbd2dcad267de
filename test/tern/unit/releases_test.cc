// SPDX-License-Identifier: BSD-3-Clause
// Which releases of UCX an installation serves.
#include "tern/loader/releases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> releases_in(const std::string& folder) {
    tern_releases found;
    tern_releases_in(&found, folder.c_str());
    std::vector<std::string> names(found.names, found.names + found.count);
    char text[1024];
    for (const std::string& name : names)
        EXPECT_FALSE(tern_releases_misfit(&found, name.c_str(), text, sizeof text));
    EXPECT_TRUE(tern_releases_misfit(&found, "1.2.3", text, sizeof text));
    return names;
}

std::string misfit(const std::vector<std::string>& names, const char* loaded) {
    tern_releases releases{};
    for (const std::string& name : names)
        std::snprintf(releases.names[releases.count++], kReleaseBytes, "%s", name.c_str());
    char text[1024];
    EXPECT_TRUE(tern_releases_misfit(&releases, loaded, text, sizeof text));
    return text;
}

class Releases : public testing::Test {
  protected:
    Releases() : folder_(testing::TempDir() + "releases-XXXXXX") {
        if (::mkdtemp(folder_.data()) == nullptr) ADD_FAILURE() << folder_;
    }
    ~Releases() override { std::filesystem::remove_all(folder_); }

    void add(const std::string& name) const {
        std::filesystem::create_directories(folder_ + "/" + name);
        char path[1024];
        tern_transport_path(path, sizeof path, folder_.c_str(), name.c_str());
        std::ofstream(path) << "a library";
    }

    std::string folder_;
};

TEST_F(Releases, AreFoldersWithATransportByAge) {
    for (const char* name : {"1.20.0", "1.9.12", "1.13.1"}) add(name);
    EXPECT_THAT(releases_in(folder_), ElementsAre("1.9.12", "1.13.1", "1.20.0"));
}

TEST_F(Releases, AreNothingElse) {
    for (const char* name : {"1.20", "1.20.0.1", "1.20.0-rc1", "release", "1.20.x",
                             "1.20.000000000000000000000000000001"})
        add(name);
    std::filesystem::create_directories(folder_ + "/1.22.0");
    EXPECT_THAT(releases_in(folder_), IsEmpty());
    EXPECT_THAT(releases_in(folder_ + "/none"), IsEmpty());
}

TEST_F(Releases, AreAsManyAsThereIsRoomFor) {
    std::vector<std::string> names;
    for (int i = 0; i < kReleasesMost; ++i) add(names.emplace_back("1.13." + std::to_string(i)));
    EXPECT_EQ(releases_in(folder_), names);
    add("1.14.0");
    EXPECT_EQ(releases_in(folder_).size(), static_cast<size_t>(kReleasesMost));
}

TEST_F(Releases, AreNamedWhereNoneFits) {
    EXPECT_EQ(misfit({"1.13.1", "1.18.1", "1.22.0"}, "1.16.0"),
              "transport tern is not available: it is installed for UCX 1.13.1, 1.18.1 and 1.22.0, "
              "and this is UCX 1.16.0; build it for this one too (configure "
              "--with-ucx=PREFIX:PREFIX) or run with UCX 1.22.0");
    EXPECT_THAT(misfit({"1.13.1"}, "1.16.0"),
                testing::HasSubstr("for UCX 1.13.1, and this is UCX 1.16.0; "));
    EXPECT_THAT(misfit({}, "1.16.0"), testing::HasSubstr("for no release of UCX; "));
}

}  // namespace
