// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/core/nic_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>
#include <vector>

namespace softhca {
namespace {

// 2 bytes per ns, 1000 ns of latency and 50 ns of gap make sums easy.
constexpr NicParameters kNic = {1000, 2.0, 50, 0, 30, 5000, 4.0};

uint64_t lone_message_ns(const NicParameters& nic, uint64_t bytes) {
    LinkClock egress{}, ingress{};
    return book_transfer(nic, egress, ingress, 0, bytes).arrival_end;
}

TEST(NicModel, IdealTakesNoTime) {
    const NicParameters* ideal = find_profile("ideal");
    ASSERT_NE(ideal, nullptr);
    EXPECT_FALSE(ideal->models_time());
    LinkClock egress{}, ingress{};
    for (int i = 0; i < 3; ++i) {
        const Booking booking = book_transfer(*ideal, egress, ingress, 77, 1 << 30);
        EXPECT_EQ(booking.start, 77u);
        EXPECT_EQ(booking.arrival_end, 77u);
        EXPECT_EQ(arrival_at(booking, *ideal, 1 << 30, 5), 77u);
    }
    EXPECT_EQ(registration_time_ns(*ideal, 1 << 30), 0u);
}

TEST(NicModel, LoneMessageTakesLatencyAndTransmission) {
    EXPECT_EQ(lone_message_ns(kNic, 0), 1000u);
    EXPECT_EQ(lone_message_ns(kNic, 8), 1004u);
    EXPECT_EQ(lone_message_ns(kNic, 9), 1005u) << "a part of a ns counts as one";
    EXPECT_EQ(lone_message_ns(kNic, 1 << 20), 1000u + (1 << 19));
}

TEST(NicModel, MessagesBehindOneAnotherAreSpacedByGapAndTransmission) {
    LinkClock egress{}, ingress{};
    for (uint64_t i = 0; i < 5; ++i) {
        const Booking booking = book_transfer(kNic, egress, ingress, 0, 200);
        EXPECT_EQ(booking.start, i * 150);
        EXPECT_EQ(booking.arrival_end, 1000 + i * 150 + 100);
    }
}

// The paper on RWAPI: 1.76 us between small messages, and more than 6300 Mb/s from 4 KB on.
TEST(NicModel, TheIntervalSpacesShortMessagesAndCostsLongOnesNothing) {
    const NicParameters* muse = find_profile("muse");
    ASSERT_NE(muse, nullptr);
    for (const auto& [bytes, spacing] : {std::pair<uint64_t, uint64_t>{0, 1760},
                                         {8, 1760},
                                         {1024, 1760},
                                         {4096, 5185},
                                         {1 << 20, 1'327'312}}) {
        LinkClock egress{}, ingress{};
        for (uint64_t i = 0; i < 5; ++i)
            EXPECT_EQ(book_transfer(*muse, egress, ingress, 0, bytes).start, i * spacing) << bytes;
    }
    EXPECT_GE(4096.0 / static_cast<double>(spacing_ns(*muse, 4096)), 6300.0 / 8 / 1000);
    NicParameters nic = {};
    EXPECT_EQ(apply_model_overrides("interval=2us", nic), std::nullopt);
    EXPECT_TRUE(nic.models_time());
    LinkClock egress{}, ingress{};
    EXPECT_EQ(book_transfer(nic, egress, ingress, 0, 1 << 20).start, 0u);
    EXPECT_EQ(book_transfer(nic, egress, ingress, 0, 1 << 20).start, 2000u);
}

TEST(NicModel, IdleLinkStartsAtOnce) {
    LinkClock egress{}, ingress{};
    book_transfer(kNic, egress, ingress, 0, 200);
    EXPECT_EQ(book_transfer(kNic, egress, ingress, 10'000, 200).start, 10'000u);
}

TEST(NicModel, SendersToOnePortShareItsBandwidth) {
    LinkClock egress[4] = {}, ingress{};
    uint64_t last = 0;
    for (auto& sender : egress)
        last = std::max(last, book_transfer(kNic, sender, ingress, 0, 1000).arrival_end);
    EXPECT_EQ(last, 1000u + 4 * 500u);
}

TEST(NicModel, MessagesToDifferentPortsShareTheSendersLinkOnly) {
    LinkClock egress{}, near{}, far{};
    EXPECT_EQ(book_transfer(kNic, egress, near, 0, 1000).arrival_end, 1500u);
    EXPECT_EQ(book_transfer(kNic, egress, far, 0, 1000).arrival_end, 2050u);
}

TEST(NicModel, MessageWaitingForItsSenderDoesNotBlockTheReceiver) {
    LinkClock busy{}, idle{}, elsewhere{}, target{};
    book_transfer(kNic, busy, elsewhere, 0, 1 << 20);
    EXPECT_GT(book_transfer(kNic, busy, target, 0, 8).arrival_end, 1u << 19);
    EXPECT_LE(book_transfer(kNic, idle, target, 0, 8).arrival_end, 1010u);
}

TEST(NicModel, ReadTakesTheRequestsLatencyMore) {
    LinkClock egress{}, ingress{};
    EXPECT_EQ(book_read(kNic, egress, ingress, 100, 200).arrival_end, 100u + 1000 + 1000 + 100);
    EXPECT_EQ(book_read(kNic, egress, ingress, 100, 200).arrival_end, 100u + 1000 + 1000 + 250);
}

TEST(NicModel, ArrivalWithinAMessageAscendsToItsEnd) {
    LinkClock egress{}, ingress{};
    const Booking booking = book_transfer(kNic, egress, ingress, 0, 1001);
    uint64_t previous = booking.arrival_begin;
    for (uint64_t offset = 0; offset <= 1001; ++offset) {
        const uint64_t at = arrival_at(booking, kNic, 1001, offset);
        EXPECT_GE(at, previous);
        EXPECT_LE(at, booking.arrival_end);
        previous = at;
    }
    EXPECT_EQ(arrival_at(booking, kNic, 1001, 0), booking.arrival_begin);
    EXPECT_EQ(arrival_at(booking, kNic, 1001, 1001), booking.arrival_end);
    EXPECT_EQ(arrival_at(booking, kNic, 0, 0), booking.arrival_end);
}

TEST(NicModel, RandomBookingsOfOnePairKeepOrderAndBandwidth) {
    const auto seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    for (int round = 0; round < 50; ++round) {
        LinkClock egress[3] = {}, ingress{};
        uint64_t now = 0, bytes = 0, first = 0, latest = 0;
        uint64_t previous_end[3] = {}, previous_free[3] = {};
        for (int i = 0; i < 300; ++i) {
            const size_t from = random() % 3;
            const uint64_t size = random() % 5000;
            now += random() % 3 == 0 ? random() % 4000 : 0;
            const Booking booking = book_transfer(kNic, egress[from], ingress, now, size);
            const uint64_t transmit = transmit_ns(kNic, size);
            ASSERT_GE(booking.start, std::max(now, previous_free[from]));
            ASSERT_GE(booking.arrival_begin, booking.start + kNic.latency_ns);
            ASSERT_EQ(booking.arrival_end, booking.arrival_begin + transmit);
            ASSERT_GE(booking.arrival_begin, previous_end[from])
                << "messages of one pair must not overlap";
            previous_end[from] = booking.arrival_end;
            previous_free[from] = booking.start + transmit;
            if (i == 0) first = now;
            bytes += size;
            latest = std::max(latest, booking.arrival_end);
        }
        ASSERT_GE(latest - first, bytes / 2)
            << "the receiving port cannot take more than its bandwidth";
    }
}

TEST(NicModel, ConcurrentBookingsLoseNothing) {
    constexpr int kThreads = 4, kEach = 20'000;
    LinkClock egress{}, ingress{};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&] {
            for (int i = 0; i < kEach; ++i) book_transfer(kNic, egress, ingress, 0, 20);
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(egress.free_at.load(), uint64_t{kThreads} * kEach * 60);
    EXPECT_EQ(ingress.free_at.load(), 1000 + uint64_t{kThreads} * kEach * 10);
}

TEST(NicModel, HugeTimesDoNotOverflow) {
    NicParameters slow = {};
    slow.bandwidth = 1e-12;
    LinkClock egress{}, ingress{};
    uint64_t previous = 0;
    for (int i = 0; i < 1000; ++i) {
        const uint64_t end = book_transfer(slow, egress, ingress, 1u << 30, UINT64_MAX).arrival_end;
        ASSERT_GT(end, previous);
        previous = end;
    }
}

TEST(NicModel, Registration) {
    EXPECT_EQ(registration_time_ns(kNic, 0), 5000u);
    EXPECT_EQ(registration_time_ns(kNic, 4000), 6000u);
    const NicParameters* graphene = find_profile("graphene");
    ASSERT_NE(graphene, nullptr);
    EXPECT_EQ(registration_time_ns(*graphene, 1'000'000), 68'000u + 50'000u);
}

TEST(NicModel, ProfilesAreThoseNamed) {
    EXPECT_EQ(profile_names(), "ideal, graphene, infini, hdr200, muse");
    for (const char* name : {"graphene", "infini", "hdr200", "muse"}) {
        ASSERT_NE(find_profile(name), nullptr) << name;
        EXPECT_TRUE(find_profile(name)->models_time()) << name;
    }
    EXPECT_EQ(find_profile("Graphene"), nullptr);
    EXPECT_EQ(find_profile(""), nullptr);
    EXPECT_DOUBLE_EQ(find_profile("graphene")->bandwidth, 2.0);
}

TEST(NicModel, EachParameterCanBeSetAlone) {
    NicParameters nic = *find_profile("graphene");
    EXPECT_EQ(apply_model_overrides("", nic), std::nullopt);
    EXPECT_EQ(nic.latency_ns, 2300u);
    EXPECT_EQ(apply_model_overrides("latency=1.5", nic), std::nullopt);
    EXPECT_EQ(nic.latency_ns, 1500u);
    EXPECT_DOUBLE_EQ(nic.bandwidth, 2.0);
    EXPECT_EQ(apply_model_overrides(" gap=7ns, completion = 0.25us,reg-latency=2ms,", nic),
              std::nullopt);
    EXPECT_EQ(nic.gap_ns, 7u);
    EXPECT_EQ(nic.completion_ns, 250u);
    EXPECT_EQ(nic.registration_ns, 2'000'000u);
    EXPECT_EQ(apply_model_overrides("bandwidth=12.25,reg-bandwidth=0", nic), std::nullopt);
    EXPECT_DOUBLE_EQ(nic.bandwidth, 12.25);
    EXPECT_DOUBLE_EQ(nic.registration_bandwidth, 0);
}

TEST(NicModel, WrongOverridesNameTheChoicesAndChangeNothing) {
    for (const char* list : {"latency", "latency=", "latency=-1", "latency=nan", "latency=inf",
                             "latency=1min", "latency=1 2", "latency=2e9", "bandwidth=fast",
                             "bandwidth=2GB", "bandwidth=-0.5", "speed=3", "=3", "gap=1,foo=2"}) {
        NicParameters nic = kNic;
        const auto error = apply_model_overrides(list, nic);
        ASSERT_TRUE(error.has_value()) << list;
        EXPECT_EQ(nic.gap_ns, kNic.gap_ns) << list;
        EXPECT_EQ(nic.latency_ns, kNic.latency_ns) << list;
    }
    NicParameters nic = kNic;
    const auto error = apply_model_overrides("speed=3", nic);
    for (const char* choice : {"'speed'", "latency", "bandwidth", "gap", "interval", "completion",
                               "reg-latency", "reg-bandwidth"})
        EXPECT_NE(error->find(choice), std::string::npos) << choice;
}

TEST(NicModel, DescriptionReadsBack) {
    for (const char* name : {"ideal", "graphene", "infini", "hdr200", "muse"}) {
        NicParameters nic = kNic;
        ASSERT_EQ(apply_model_overrides(describe(*find_profile(name)), nic), std::nullopt)
            << describe(*find_profile(name));
        EXPECT_EQ(describe(nic), describe(*find_profile(name)));
        EXPECT_EQ(nic.registration_ns, find_profile(name)->registration_ns);
    }
}

TEST(Lateness, CountsLateOnesByDecade) {
    Lateness lateness{};
    EXPECT_EQ(lateness.late_share(), 0);
    record(lateness, 0, 1000, 900);
    record(lateness, 0, 1000, 1100);
    record(lateness, 0, 1000, 1101);
    record(lateness, 0, 100'000, 105'000);
    record(lateness, 0, 100'000, 105'001);
    record(lateness, 5, 5, 15'005);
    record(lateness, 0, 0, 20'000'000'000);
    EXPECT_EQ(lateness.count, 7u);
    EXPECT_EQ(lateness.late, 4u) << "a twentieth of the time, or 100 ns, is not late";
    EXPECT_EQ(lateness.max_ns, 20'000'000'000u);
    EXPECT_EQ(lateness.total_ns, 101u + 5'001u + 15'000u + 20'000'000'000u);
    EXPECT_EQ(lateness.histogram[0], 3u);
    EXPECT_EQ(lateness.histogram[1], 2u);
    EXPECT_EQ(lateness.histogram[2], 1u);
    EXPECT_EQ(lateness.histogram[7], 1u);
    EXPECT_DOUBLE_EQ(lateness.late_share(), 4.0 / 7);
}

TEST(Arrival, BytesByTimeAndTimeByBytesAgree) {
    NicParameters nic{};
    nic.latency_ns = 2000;
    nic.bandwidth = 3.2;
    LinkClock egress{};
    LinkClock ingress{};
    constexpr uint64_t kBytes = 100'000;
    const Booking booking = book_transfer(nic, egress, ingress, 50, kBytes);
    EXPECT_EQ(arrived_by(booking, nic, kBytes, booking.arrival_begin), 0u);
    EXPECT_EQ(arrived_by(booking, nic, kBytes, booking.arrival_end - 1) < kBytes, true);
    EXPECT_EQ(arrived_by(booking, nic, kBytes, booking.arrival_end), kBytes);
    for (uint64_t now = booking.arrival_begin; now < booking.arrival_end; now += 97) {
        const uint64_t bytes = arrived_by(booking, nic, kBytes, now);
        if (bytes != 0) {
            EXPECT_LE(arrival_at(booking, nic, kBytes, bytes), now + 1) << "nothing is early";
        }
    }
}

}  // namespace
}  // namespace softhca
