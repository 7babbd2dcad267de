// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/core/nic_model.h"
#include "common/seed.h"
#include "softhca/core/nic_profiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace softhca {
namespace {

// 2 bytes per ns, 1000 ns of latency and 50 ns of gap make sums easy.
constexpr NicParameters kNic = {1000, 2.0, 50, 0, 30, {5000, 4.0}};

Booking book(const NicParameters& nic, const Request& request, QpClock& qp, LinkPair& mine,
             LinkPair& peer, uint64_t now) {
    Booking booking = depart(nic, request, qp, request.reads() ? peer : mine, now);
    arrive(nic, request, qp, request.reads() ? mine : peer, now, booking);
    return booking;
}

// Messages of a queue pair of its own, between two links of one direction.
Booking book_write(const NicParameters& nic, LinkPair& mine, LinkPair& peer, uint64_t now,
                   uint64_t bytes) {
    QpClock qp;
    return book(nic, {RequestKind::kWrite, bytes, true}, qp, mine, peer, now);
}

uint64_t lone_message_ns(const NicParameters& nic, uint64_t bytes) {
    LinkPair egress{}, ingress{};
    return book_write(nic, egress, ingress, 0, bytes).arrival_end;
}

TEST(NicModel, IdealTakesNoTime) {
    const NicParameters* ideal = find_profile("ideal");
    ASSERT_NE(ideal, nullptr);
    EXPECT_FALSE(ideal->models_time());
    LinkPair egress{}, ingress{};
    for (int i = 0; i < 3; ++i) {
        const Booking booking = book_write(*ideal, egress, ingress, 77, 1 << 30);
        EXPECT_EQ(booking.start, 77u);
        EXPECT_EQ(booking.arrival_end, 77u);
        EXPECT_EQ(arrival_at(booking, *ideal, 1 << 30, 5), 77u);
    }
    EXPECT_EQ(ideal->registration.time_ns(1 << 30), 0u);
}

TEST(NicModel, LoneMessageTakesLatencyAndTransmission) {
    EXPECT_EQ(lone_message_ns(kNic, 0), 1000u);
    EXPECT_EQ(lone_message_ns(kNic, 8), 1004u);
    EXPECT_EQ(lone_message_ns(kNic, 9), 1005u) << "a part of a ns counts as one";
    EXPECT_EQ(lone_message_ns(kNic, 1 << 20), 1000u + (1 << 19));
}

TEST(NicModel, MessagesBehindOneAnotherAreSpacedByGapAndTransmission) {
    LinkPair egress{}, ingress{};
    for (uint64_t i = 0; i < 5; ++i) {
        const Booking booking = book_write(kNic, egress, ingress, 0, 200);
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
        LinkPair egress{}, ingress{};
        for (uint64_t i = 0; i < 5; ++i)
            EXPECT_EQ(book_write(*muse, egress, ingress, 0, bytes).start, i * spacing) << bytes;
    }
    EXPECT_GE(4096.0 / static_cast<double>(spacing_ns(*muse, {RequestKind::kWrite, 4096})),
              6300.0 / 8 / 1000);
    NicParameters nic = {};
    EXPECT_EQ(apply_model_overrides("interval=2us", nic), std::nullopt);
    EXPECT_TRUE(nic.models_time());
    LinkPair egress{}, ingress{};
    EXPECT_EQ(book_write(nic, egress, ingress, 0, 1 << 20).start, 0u);
    EXPECT_EQ(book_write(nic, egress, ingress, 0, 1 << 20).start, 2000u);
}

TEST(NicModel, IdleLinkStartsAtOnce) {
    LinkPair egress{}, ingress{};
    book_write(kNic, egress, ingress, 0, 200);
    EXPECT_EQ(book_write(kNic, egress, ingress, 10'000, 200).start, 10'000u);
}

TEST(NicModel, SendersToOnePortShareItsBandwidth) {
    LinkPair egress[4] = {}, ingress{};
    uint64_t last = 0;
    for (auto& sender : egress)
        last = std::max(last, book_write(kNic, sender, ingress, 0, 1000).arrival_end);
    EXPECT_EQ(last, 1000u + 4 * 500u + 3 * 50u) << "no more messages than one sender has";
}

TEST(NicModel, APartWaitsForTheOneBeforeAtABusyPort) {
    const NicParameters& nic = *find_profile("cx5-edr");
    const Request request{RequestKind::kWrite, 4104, false};
    constexpr size_t kSenders = 7;
    LinkPair to{};
    QpClock clocks[kSenders];
    Booking bookings[kSenders]{};
    for (size_t i = 0; i < kSenders; ++i)
        arrive(nic, request, {0, 4096, 0}, clocks[i], to, 0, bookings[i]);
    for (size_t i = 0; i < kSenders; ++i) {
        const uint64_t before = arrival_at(bookings[i], nic, 4104, 4096);
        arrive(nic, request, {4096, 4104, 351}, clocks[i], to, 351, bookings[i]);
        EXPECT_GE(bookings[i].arrival_end, before) << i;
    }
}

TEST(NicModel, MessagesToDifferentPortsShareTheSendersLinkOnly) {
    LinkPair egress{}, near{}, far{};
    EXPECT_EQ(book_write(kNic, egress, near, 0, 1000).arrival_end, 1500u);
    EXPECT_EQ(book_write(kNic, egress, far, 0, 1000).arrival_end, 2050u);
}

TEST(NicModel, MessageWaitingForItsSenderDoesNotBlockTheReceiver) {
    LinkPair busy{}, idle{}, elsewhere{}, target{};
    book_write(kNic, busy, elsewhere, 0, 1 << 20);
    EXPECT_GT(book_write(kNic, busy, target, 0, 8).arrival_end, 1u << 19);
    EXPECT_LE(book_write(kNic, idle, target, 0, 8).arrival_end, 1060u) << "one message's time";
}

// The sender's port is busy for a second with data for another port. The receiver has a port of
// 1 byte per ns, and cannot take 2 MB in less than 2 ms.
TEST(NicModel, DataThatLeftLateArrivesWithinTheReceiversBandwidth) {
    constexpr NicParameters kByteAndNs = {1000, 1.0};
    constexpr uint64_t kBytes = 1'000'000;
    LinkPair a{}, b{}, c{}, d{};
    book_write(kByteAndNs, a, c, 0, kBytes);
    const Booking late = book_write(kByteAndNs, a, b, 0, kBytes);
    const Booking other = book_write(kByteAndNs, d, b, kBytes, kBytes);
    EXPECT_EQ(late.arrival_end, 1000 + 2 * kBytes);
    EXPECT_EQ(other.arrival_end, 1000 + 3 * kBytes);
}

TEST(NicModel, AnAnswerThatLeavesLateLeavesTheResponderToOthers) {
    LinkPair reader{}, responder{}, other{};
    QpClock qp;
    for (int i = 0; i < 3; ++i) book(kNic, {RequestKind::kRead, 100'000}, qp, reader, responder, 0);
    EXPECT_EQ(book_write(kNic, responder, other, 0, 8).start, 0u) << "the request is on its way";
}

TEST(NicModel, MessagesThatTakeAReceiveOccupyTheReceiversPortForLonger) {
    NicParameters nic = kNic;
    nic.receive_interval_ns = 7;
    for (const RequestKind kind : {RequestKind::kSend, RequestKind::kWriteImm}) {
        LinkPair senders[3] = {}, receiver{};
        uint64_t end = 0;
        for (LinkPair& sender : senders) {
            QpClock qp;
            end = book(nic, {kind, 200, true}, qp, sender, receiver, 0).arrival_end;
        }
        EXPECT_EQ(end, 1000u + 2 * 157 + 100);
    }
}

TEST(NicModel, ReadTakesTheRequestsLatencyMore) {
    LinkPair egress{}, ingress{};
    QpClock qp;
    const Request read{RequestKind::kRead, 200};
    const Booking first = book(kNic, read, qp, egress, ingress, 100);
    EXPECT_EQ(first.start, 100u + 1000) << "the responder acts";
    EXPECT_EQ(first.arrival_end, 100u + 1000 + 1000 + 100);
    EXPECT_EQ(book(kNic, read, qp, egress, ingress, 100).arrival_end, 100u + 1000 + 1000 + 250);
}

TEST(NicModel, ArrivalWithinAMessageAscendsToItsEnd) {
    LinkPair egress{}, ingress{};
    const Booking booking = book_write(kNic, egress, ingress, 0, 1001);
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
    const uint32_t seed = tern::test::any_seed();
    std::mt19937_64 random(seed);
    for (int round = 0; round < 50; ++round) {
        LinkPair egress[3] = {}, ingress{};
        uint64_t now = 0, bytes = 0, first = 0, latest = 0;
        uint64_t previous_end[3] = {}, previous_free[3] = {};
        for (int i = 0; i < 300; ++i) {
            const size_t from = random() % 3;
            const uint64_t size = random() % 5000;
            now += random() % 3 == 0 ? random() % 4000 : 0;
            const Booking booking = book_write(kNic, egress[from], ingress, now, size);
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

TEST(NicModel, HugeTimesDoNotOverflow) {
    NicParameters slow = {};
    slow.bandwidth = 1e-12;
    LinkPair egress{}, ingress{};
    uint64_t previous = 0;
    for (int i = 0; i < 1000; ++i) {
        const uint64_t end = book_write(slow, egress, ingress, 1u << 30, UINT64_MAX).arrival_end;
        ASSERT_GT(end, previous);
        previous = end;
    }
}

TEST(NicModel, Registration) {
    EXPECT_EQ(kNic.registration.time_ns(0), 5000u);
    EXPECT_EQ(kNic.registration.time_ns(4000), 6000u);
    const NicParameters* graphene = find_profile("graphene");
    ASSERT_NE(graphene, nullptr);
    EXPECT_EQ(graphene->registration.time_ns(1'000'000), 68'000u + 50'000u);
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
    EXPECT_EQ(nic.registration.fixed_ns, 2'000'000u);
    EXPECT_EQ(apply_model_overrides("bandwidth=12.25,reg-bandwidth=0", nic), std::nullopt);
    EXPECT_DOUBLE_EQ(nic.bandwidth, 12.25);
    EXPECT_DOUBLE_EQ(nic.registration.bandwidth, 0);
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
                               "reg-latency", "reg-bandwidth", "qp-gap"})
        EXPECT_NE(error->find(choice), std::string::npos) << choice;
}

TEST(NicModel, DescriptionReadsBack) {
    for (const char* name : {"ideal", "graphene", "infini", "hdr200", "muse", "cx6-hdr"}) {
        NicParameters nic = kNic;  // sets all that a description always names
        ASSERT_EQ(apply_model_overrides(describe(*find_profile(name)), nic), std::nullopt)
            << describe(*find_profile(name));
        EXPECT_EQ(describe(nic), describe(*find_profile(name)));
        EXPECT_EQ(nic.registration.fixed_ns, find_profile(name)->registration.fixed_ns);
    }
}

TEST(Lateness, CountsLateOnes) {
    Lateness lateness{};
    record(lateness, 0, 1000, 900);
    record(lateness, 0, 1000, 1100);
    record(lateness, 0, 1000, 1101);
    record(lateness, 0, 100'000, 105'000);
    record(lateness, 0, 100'000, 105'001);
    record(lateness, 5, 5, 15'005);
    record(lateness, 0, 0, 20'000'000'000);
    EXPECT_EQ(lateness.count, 7u);
    EXPECT_EQ(lateness.late, 4u) << "a twentieth of the time, or 100 ns, is not late";
    EXPECT_EQ(lateness.total_ns, 101u + 5'001u + 15'000u + 20'000'000'000u);
}

TEST(Arrival, BytesByTimeAndTimeByBytesAgree) {
    NicParameters nic{};
    nic.latency_ns = 2000;
    nic.bandwidth = 3.2;
    LinkPair egress{};
    LinkPair ingress{};
    constexpr uint64_t kBytes = 100'000;
    const Booking booking = book_write(nic, egress, ingress, 50, kBytes);
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

constexpr Request kWord{RequestKind::kWrite, 8, true};

TEST(QpClock, RequestsOfOneQueuePairAreSpacedAndThePortIsFreeForOthers) {
    NicParameters nic = kNic;
    nic.gap_ns = 0;
    nic.queue_pair.write_ns = 400;
    nic.queue_pair.gap_ns = 100;
    LinkPair mine{}, peer{};
    QpClock slow, other;
    for (uint64_t i = 0; i < 10; ++i)
        EXPECT_EQ(book(nic, kWord, slow, mine, peer, 0).start, i * 400);
    EXPECT_EQ(book(nic, kWord, other, mine, peer, 0).start, 4u) << "behind the first word";
    QpClock large;
    LinkPair a{}, b{};
    const Request message{RequestKind::kWrite, 2000};
    for (uint64_t i = 0; i < 5; ++i) EXPECT_EQ(book(nic, message, large, a, b, 0).start, i * 1100);
}

TEST(QpClock, EachOperationHasItsOwnSpacing) {
    const NicParameters& nic = *find_profile("cx3-fdr");
    EXPECT_EQ(spacing_ns(nic, {RequestKind::kWrite, 8}), 130u);
    EXPECT_EQ(spacing_ns(nic, {RequestKind::kSend, 8}), 188u);
    EXPECT_EQ(spacing_ns(nic, {RequestKind::kRead, 8}), 161u);
    EXPECT_EQ(spacing_ns(nic, {RequestKind::kAtomic, 8}), 370u);
    EXPECT_EQ(port_spacing_ns(nic, {RequestKind::kWrite, 8}), 38u);
    EXPECT_EQ(port_spacing_ns(nic, {RequestKind::kRead, 8}), 90u);
}

TEST(QpClock, AWriteWithImmediateIsAWriteThatTakesAReceive) {
    for (const char* name : {"cx3-fdr", "cx5-edr", "cx6-hdr", "graphene", "muse"}) {
        const NicParameters& nic = *find_profile(name);
        for (const uint64_t bytes : {0, 8, 512, 4096, 1 << 20}) {
            for (const bool is_inline : {false, true}) {
                const Request write{RequestKind::kWrite, bytes, is_inline};
                const Request notified{RequestKind::kWriteImm, bytes, is_inline};
                EXPECT_GE(spacing_ns(nic, notified), spacing_ns(nic, write)) << name;
                EXPECT_EQ(arrival_ns(nic, notified), arrival_ns(nic, write)) << name;
            }
        }
        EXPECT_EQ(receive_ns(nic, RequestKind::kWriteImm), receive_ns(nic, RequestKind::kSend));
    }
}

TEST(QpClock, InlineRequestsHaveASpacingOfTheirOwn) {
    NicParameters nic = kNic;
    nic.queue_pair.write_ns = 400;
    nic.queue_pair.send_ns = 500;
    for (const RequestKind kind : {RequestKind::kWrite, RequestKind::kSend, RequestKind::kWriteImm})
        EXPECT_EQ(spacing_ns(nic, {kind, 8, true}), spacing_ns(nic, {kind, 8, false}));
    nic.queue_pair.inline_ns = 150;
    EXPECT_EQ(spacing_ns(nic, {RequestKind::kWrite, 8, true}), 150u);
    EXPECT_EQ(spacing_ns(nic, {RequestKind::kSend, 8, true}), 150u);
    EXPECT_EQ(spacing_ns(nic, {RequestKind::kWrite, 8, false}), 400u);
    EXPECT_EQ(spacing_ns(nic, {RequestKind::kRead, 8, true}), 54u) << "4 ns of bytes and a gap";
}

// Data that is fetched takes longer than inline data: what follows must not arrive before it.
TEST(QpClock, RequestsOfOneQueuePairArriveInOrder) {
    const uint32_t seed = tern::test::any_seed();
    std::mt19937_64 random(seed);
    for (const char* name : {"cx3-fdr", "cx5-edr", "cx6-hdr", "graphene"}) {
        const NicParameters& nic = *find_profile(name);
        LinkPair mine{}, peer{};
        QpClock qp;
        qp.set_read_depth(4);
        uint64_t arrived = 0, responded = 0, now = 0;
        for (int i = 0; i < 2000; ++i) {
            now += random() % 3000;
            Request request{static_cast<RequestKind>(random() % 5), random() % 10'000,
                            random() % 2 == 0};
            const Booking booking = book(nic, request, qp, mine, peer, now);
            ASSERT_GE(booking.arrival_end, now + arrival_ns(nic, request)) << "nothing is early";
            if (request.reads()) {
                ASSERT_GE(booking.start, arrived) << "a read sees the writes before it";
                ASSERT_GE(booking.arrival_begin, responded);
                responded = booking.arrival_end;
                arrived = booking.start;
            } else {
                ASSERT_GE(booking.arrival_begin, arrived);
                arrived = booking.arrival_end;
            }
        }
    }
}

TEST(QpClock, ReadsUnderWayAreLimited) {
    NicParameters nic = {1000};
    LinkPair mine{}, peer{};
    QpClock qp;
    qp.set_read_depth(2);
    const Request read{RequestKind::kRead, 8};
    for (const uint64_t end : {2000, 2000, 4000, 4000, 6000})
        EXPECT_EQ(book(nic, read, qp, mine, peer, 0).arrival_end, end);
    const Request atomic{RequestKind::kAtomic, 8};
    EXPECT_EQ(book(nic, atomic, qp, mine, peer, 0).arrival_end, 6000u) << "counts as a read";
    EXPECT_EQ(book(nic, kWord, qp, mine, peer, 0).arrival_end, 5000u)
        << "a write behind a read that waits for its turn waits with it";
    EXPECT_EQ(book(nic, read, qp, mine, peer, 50'000).arrival_end, 52'000u);
    QpClock unlimited;
    for (int i = 0; i < 300; ++i)
        EXPECT_EQ(book(nic, read, unlimited, mine, peer, 0).arrival_end, 2000u);
}

TEST(QpClock, APartArrivesWhenTheWholeHasItThere) {
    for (const char* name : {"graphene", "cx3-fdr", "cx5-edr", "cx6-hdr", "muse"}) {
        const NicParameters& nic = *find_profile(name);
        for (const RequestKind kind :
             {RequestKind::kWrite, RequestKind::kSend, RequestKind::kRead}) {
            const Request request{kind, 1'000'001};
            LinkPair a{}, b{}, c{}, d{};
            QpClock whole, parts;
            const Booking expected = book(nic, request, whole, a, b, 50);
            EXPECT_EQ(parts.begin(nic, request, 50), expected.start);
            Booking booking{expected.start, 0, 0};
            for (uint64_t begin = 0; begin < request.bytes; begin += kPacketBytes) {
                const Part part{begin, std::min(begin + kPacketBytes, request.bytes),
                                expected.start + transmit_ns(nic, begin)};
                arrive(nic, request, part, parts, request.reads() ? c : d, part.start, booking);
                ASSERT_EQ(booking.arrival_begin, expected.arrival_begin) << name;
                ASSERT_EQ(booking.arrival_end, expected.arrival_end) << name;
            }
            EXPECT_EQ(parts.begin(nic, request, 0), whole.begin(nic, request, 0));
        }
    }
}

TEST(QpClock, RequestsBeginWhenWhatTheyWaitForHasLeft) {
    LinkPair to{};
    QpClock qp;
    qp.set_read_depth(2);
    const Request read{RequestKind::kRead, 8};
    const Request fenced{RequestKind::kWrite, 8, false, true};
    Booking booking{};
    const auto leaves = [&](const Request& request) {
        arrive(kNic, request, {0, 8, 100}, qp, to, 100, booking);
    };
    qp.begin(kNic, kWord, 0);
    EXPECT_TRUE(qp.may_begin(kWord));
    EXPECT_FALSE(qp.may_begin(read)) << "it acts behind the write";
    leaves(kWord);
    for (int i = 0; i < 2; ++i) {
        EXPECT_TRUE(qp.may_begin(read));
        qp.begin(kNic, read, 0);
    }
    EXPECT_FALSE(qp.may_begin(read)) << "two are under way";
    EXPECT_TRUE(qp.may_begin(kWord));
    EXPECT_FALSE(qp.may_begin(fenced));
    leaves(read);
    EXPECT_TRUE(qp.may_begin(read));
    EXPECT_FALSE(qp.may_begin(fenced));
    leaves(read);
    EXPECT_TRUE(qp.may_begin(fenced));
    qp.begin(kNic, read, 0);
    qp.forget();
    EXPECT_TRUE(qp.may_begin(fenced));
}

TEST(NicModel, AnythingSentAgainTakesTheTimeAgain) {
    const Booking booking = later({1, 2, 3}, 10);
    EXPECT_EQ(booking.start, 11u);
    EXPECT_EQ(booking.arrival_begin, 12u);
    EXPECT_EQ(booking.arrival_end, 13u);
}

TEST(NicModel, SlowedNicHasTheSameProportions) {
    for (const char* name : {"cx3-fdr", "cx5-edr", "cx6-hdr", "muse"}) {
        const NicParameters& nic = *find_profile(name);
        const NicParameters slow = slowed(nic, 20);
        for (const RequestKind operation :
             {RequestKind::kWrite, RequestKind::kSend, RequestKind::kRead, RequestKind::kAtomic}) {
            for (const uint64_t bytes : {8, 200, 5000, 1 << 20}) {
                for (const bool is_inline : {false, true}) {
                    const Request request{operation, bytes, is_inline};
                    // Each term is rounded up to a ns before it is multiplied.
                    EXPECT_NEAR(arrival_ns(slow, request), 20 * arrival_ns(nic, request), 80);
                    EXPECT_NEAR(spacing_ns(slow, request), 20 * spacing_ns(nic, request), 20);
                }
            }
        }
        EXPECT_NEAR(slow.registration.time_ns(1 << 20), 20 * nic.registration.time_ns(1 << 20), 20);
    }
    EXPECT_FALSE(slowed({}, 20).models_time());
}

}  // namespace
}  // namespace softhca
