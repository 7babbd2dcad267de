// SPDX-License-Identifier: BSD-3-Clause
// Which UCP the plug-in accepts.
#include "tern/ucp/release.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

namespace {

constexpr std::array<const char*, 3> kNames = {"egr/short", "rndv/get/zcopy", "tag/rndv"};
constexpr ucp_release kBuilt = {1, 18, 1, kNames.size(), kNames.data()};

std::string misfit(const ucp_release& loaded) {
    char text[128];
    const char* reason = release_misfit(&loaded, &kBuilt, text, sizeof text);
    return reason != nullptr ? reason : "";
}

TEST(Release, TheSameFits) {
    EXPECT_EQ(misfit(kBuilt), "");
}

TEST(Release, AnotherNumberDoesNot) {
    for (ucp_release other : {ucp_release{2, 18, 1}, {1, 17, 1}, {1, 18, 2}}) {
        other.count = kBuilt.count;
        other.names = kBuilt.names;
        EXPECT_THAT(misfit(other), testing::EndsWith("the plug-in was built for 1.18.1"));
    }
}

TEST(Release, AnotherNumberOfProtocolsDoesNot) {
    ucp_release more = kBuilt;
    more.count = 4;
    EXPECT_EQ(misfit(more), "UCP has 4 protocols and not 3");
}

TEST(Release, AnotherNameDoesNot) {
    std::array<const char*, 3> names = kNames;
    ucp_release other = kBuilt;
    other.names = names.data();
    names[1] = "rndv/get/acopy";
    EXPECT_EQ(misfit(other), "protocol 1 of UCP is rndv/get/acopy and not rndv/get/zcopy");
    names[1] = nullptr;
    EXPECT_EQ(misfit(other), "protocol 1 of UCP is missing and not rndv/get/zcopy");
}

}  // namespace
