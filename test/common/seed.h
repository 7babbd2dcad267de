// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace tern::test {

// The seed of a random test: TERN_TEST_SEED, or another one in each run. It is printed before the
// test begins, so that it is known even if the test hangs or dies.
inline uint32_t any_seed() {
    const char* text = std::getenv("TERN_TEST_SEED");
    const auto seed = text != nullptr ? static_cast<uint32_t>(std::strtoul(text, nullptr, 0))
                                      : std::random_device{}();
    std::printf("TERN_TEST_SEED=%u\n", seed);
    std::fflush(stdout);
    return seed;
}

}  // namespace tern::test
