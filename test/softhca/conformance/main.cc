// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "departures.h"
#include "device.h"
#include "process.h"

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    const bool needs_device = !testing::GTEST_FLAG(list_tests) && !conformance::is_team_process();
    if (needs_device && !conformance::open_device()) {
        const char* wanted = std::getenv("CONFORMANCE_DEVICE");
        std::fprintf(stderr, "verbs_conformance: %s%s\n",
                     wanted ? "cannot open the RDMA device " : "no RDMA device can be opened",
                     wanted ? wanted : "");
        return 2;
    }
    if (argc > 1 && std::strcmp(argv[1], "--departures") == 0)
        return conformance::check_known_departures();
    if (needs_device) conformance::skip_known_departures();
    return RUN_ALL_TESTS();
}
