// SPDX-License-Identifier: BSD-3-Clause
// Usage: tern-instructions PART
//
// Runs the operations whose instructions tern/tern_instructions.sh counts.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "common/patience.h"
#include "counted.h"

namespace instructions {

void fail(const std::string& what) {
    std::fprintf(stderr, "tern-instructions: %s\n", what.c_str());
    std::_Exit(1);
}

void require(bool condition, const char* what) {
    if (!condition) fail(std::string(what) + " failed");
}

void until(const std::function<bool()>& condition, const Step& step, const char* what) {
    const auto end = std::chrono::steady_clock::now() + tern::test::patience();
    while (!condition()) {
        step();
        if (std::chrono::steady_clock::now() > end) fail(std::string(what) + ": time-out");
    }
}

}  // namespace instructions

int main(int argc, char** argv) {
    const struct {
        const char* name;
        void (*run)();
    } parts[] = {{"messages", instructions::messages}, {"batches", instructions::batches},
                 {"polls", instructions::polls},       {"one-sided", instructions::one_sided},
                 {"notified", instructions::notified}, {"repeated", instructions::repeated}};
    for (const auto& part : parts) {
        if (argc == 2 && std::strcmp(argv[1], part.name) == 0) {
            part.run();
            return 0;
        }
    }
    std::fprintf(stderr,
                 "usage: tern-instructions messages|batches|polls|one-sided|notified|repeated\n");
    return 2;
}
