// SPDX-License-Identifier: BSD-3-Clause
// A process of a job that only starts: every process must see the same job and the right addresses,
// of several contexts. Prints one line. Arguments: the number of processes that there must be, and
// "leave" (the last process ends at once, without leaving the job) or "stay" (nothing special).
#include <sched.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "rwapi/bootstrap/bootstrap.h"

namespace {

constexpr uint32_t kContexts = 3;

[[noreturn]] void fail(const char* what) {
    std::printf("start: %s\n", what);
    std::exit(1);
}

// Of lengths that differ.
std::vector<std::byte> address_of(uint32_t context, uint32_t rank) {
    std::vector<std::byte> address(1 + context + 90 * rank);
    for (size_t i = 0; i < address.size(); ++i) {
        address[i] = static_cast<std::byte>(i * 7 + rank * 31 + context);
    }
    return address;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    const auto expected = static_cast<uint32_t>(std::atoi(argv[1]));
    std::unique_ptr<rwapi::Bootstrap> bootstraps[kContexts];
    uint32_t rank = 0;
    for (uint32_t context = 0; context < kContexts; ++context) {
        int error = 0;
        auto& bootstrap = bootstraps[context];
        bootstrap = rwapi::make_bootstrap(nullptr, error);
        if (bootstrap == nullptr) fail("no start");
        if (bootstrap->size() != expected) fail("wrong number of processes");
        rank = bootstrap->rank();
        if (bootstrap->publish(address_of(context, rank)) != 0) fail("publish");
    }
    if (std::strcmp(argv[2], "leave") == 0 && rank == expected - 1) std::_Exit(0);
    for (uint32_t context = 0; context < kContexts; ++context) {
        for (uint32_t node = 0; node < expected; ++node) {
            std::vector<std::byte> address;
            if (bootstraps[context]->lookup(node, address) != 0) fail("lookup");
            if (address != address_of(context, node)) fail("another address");
        }
    }
    // One after the other, also after contexts have gone.
    for (auto& bootstrap : bootstraps) {
        if (bootstrap->begin_barrier() != 0) fail("barrier");
        int over;
        while ((over = bootstrap->test_barrier()) == 0) sched_yield();
        if (over != 1) fail("barrier");
        bootstrap.reset();
    }
    std::printf("start: %u of %u is right\n", rank, expected);
    return 0;
}
