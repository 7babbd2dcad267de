// SPDX-License-Identifier: BSD-3-Clause
// Memory that the cache reports as pinned is what is mapped, whatever threads do to it.
// TERN_PINNING_STORM=N: each storm takes N seconds, not one and a half.
#include <gtest/gtest.h>
#include <unistd.h>

#include "common/patience.h"
#include "common/seed.h"
#include "storm.h"

namespace tern::test {
namespace {

struct Weather {
    MonitorKind monitor;
    bool physical;
    uint64_t most_bytes;
};

class PinningStorm : public testing::TestWithParam<Weather> {
  protected:
    void SetUp() override {
        if (const char* seconds = getenv("TERN_PINNING_STORM"); seconds != nullptr)
            duration_ = std::chrono::seconds(atoi(seconds));
        alarm(alarm_seconds() + static_cast<unsigned>(duration_.count() / 1000));
    }
    void TearDown() override { alarm(0); }

    std::chrono::milliseconds duration_{1500};
};

TEST_P(PinningStorm, NeverMovesStaleBytes) {
    const std::unique_ptr<StormDevice> device =
        GetParam().physical ? open_physical_pages() : open_loopback();
    if (!device) GTEST_SKIP() << "io_uring is not allowed here";
    Stamps stamps;
    const MonitorKind wanted = GetParam().monitor;
    // The kernel tells of private memory, the storm of shared memory.
    const bool both = wanted == MonitorKind::kAuto;
    const bool storm_tells = wanted == MonitorKind::kUcm;
    PinCache cache(std::make_unique<StampedRegistrar>(device->registrar(), stamps),
                   {.monitor = wanted,
                    .has_hooks = both || storm_tells,
                    .most_bytes = GetParam().most_bytes,
                    .refusal = std::chrono::milliseconds(1),
                    .quarantine = std::chrono::milliseconds(storm_tells ? 1 : 20)});
    if (cache.monitor() != (both ? MonitorKind::kUserfaultfd : wanted))
        GTEST_SKIP() << "userfaultfd is not allowed here";
    const uint32_t seed = tern::test::any_seed();
    Storm storm(*device, cache, stamps,
                {.seed = seed, .duration = duration_, .tells = storm_tells, .shares = both});
    // If others want the processors, one run may be too short for what is counted below.
    const auto enough = [&] {
        return storm.transfers() > 100 &&
               (wanted == MonitorKind::kNone ||
                (storm.found() > 50 && cache.counters().invalidations > 50));
    };
    const auto end = std::chrono::steady_clock::now() + patience();
    do {
        storm.run();
    } while (!enough() && storm.errors().empty() && std::chrono::steady_clock::now() < end);
    for (const std::string& error : storm.errors()) ADD_FAILURE() << error;
    const PinCounters counters = cache.counters();
    std::cout << storm.transfers() << " transfers, " << storm.found() << " found, " << counters.hits
              << " hits, " << storm.changes() << " changes, " << counters.invalidations
              << " invalidations, " << counters.evictions << " evictions, " << counters.failures
              << " failures" << std::endl;
    EXPECT_GT(storm.transfers(), 100u);
    EXPECT_LE(counters.pinned_bytes_most, GetParam().most_bytes);
    if (wanted == MonitorKind::kNone) {
        EXPECT_EQ(counters.hits, 0u);
        EXPECT_EQ(counters.pins, 0u);
        EXPECT_EQ(stamps.count(), 0u);
    } else {
        EXPECT_GT(storm.found(), 50u);
        EXPECT_GT(counters.invalidations, 50u);
    }
}

std::string name(const testing::TestParamInfo<Weather>& test) {
    return std::string(monitor_name(test.param.monitor)) +
           (test.param.physical ? "_physical" : "_device") +
           (test.param.most_bytes < (1 << 20) ? "_little" : "");
}

// kAuto without the software HCA: where that maps shared memory, out of the thread sanitizer's
// sight, another thread may have used the addresses before.
INSTANTIATE_TEST_SUITE_P(Monitors, PinningStorm,
                         testing::Values(Weather{MonitorKind::kUserfaultfd, true, 64 << 20},
                                         Weather{MonitorKind::kUserfaultfd, true, 256 << 10},
                                         Weather{MonitorKind::kUserfaultfd, false, 64 << 20},
                                         Weather{MonitorKind::kAuto, true, 64 << 20},
                                         Weather{MonitorKind::kUcm, true, 64 << 20},
                                         Weather{MonitorKind::kUcm, false, 64 << 20},
                                         Weather{MonitorKind::kNone, true, 64 << 20},
                                         Weather{MonitorKind::kNone, false, 64 << 20}),
                         name);

}  // namespace
}  // namespace tern::test
