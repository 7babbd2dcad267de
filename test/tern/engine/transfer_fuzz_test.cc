// SPDX-License-Identifier: BSD-3-Clause

// Frames of transfers that are nearly valid, in any order, between transfers of both sides.

#include <random>

#include "common/seed.h"
#include "transfer_rogue.h"

namespace tern::test {
namespace {

class TransferFuzzTest : public TransferRogueTest {};

TEST_P(TransferFuzzTest, RandomFrames) {
    const uint32_t seed = tern::test::any_seed();
    std::mt19937_64 random(seed);
    const auto any = [&](std::initializer_list<uint64_t> choices) {
        return *(choices.begin() + random() % choices.size());
    };
    const auto any_length = [&] {
        return any({0, 1, 4096, 4097, 100000, RendezvousNode::kSize, UINT64_MAX, random()});
    };
    const auto any_part = [&] {
        return WirePart{
            .upto = any_length(),
            .address = any({ring().address, 0, random()}),
            .rkey = static_cast<uint32_t>(any({ring().rkey, 0, random()})),
            .flags = static_cast<uint32_t>(random() % 8 == 0 ? random() : random() % 4)};
    };
    const auto any_ring = [&] {
        WireRing it = ring(static_cast<uint16_t>(any({1, 2, 15, 60, 0, 4096, 4097})));
        it.flags = static_cast<uint16_t>(any({0, 0, 0, 1, 2}));
        if (random() % 8 == 0) it.rkey ^= 1;
        it.generation = any({1, 2, random() & WireRing::kGeneration});
        return it;
    };
    for (int round = 0; round < 400; ++round) {
        meet();
        victim.completions.clear();
        const size_t closures = victim.closures;
        std::vector<uint32_t> numbers{0, 1, 2, 0x10000};
        if (round % 2 != 0) let_ask(round % 4 == 1);
        for (int i = 0; i < 40 && !rogue->over(); ++i) {
            for (; !rogue->controls.empty(); rogue->controls.pop_front())
                // Each frame begins with the number of a transfer.
                numbers.push_back(rogue->controls.front().as<uint32_t>());
            const auto number = [&] {
                return random() % 8 != 0 ? numbers[random() % numbers.size()]
                                         : static_cast<uint32_t>(random());
            };
            const WireKey key =
                random() % 8 != 0 ? victim.key(victim.open) : WireKey{number(), number()};
            const uint64_t address = any({victim.address(), victim.address() + 1, 0, random()});
            switch (random() % 11) {
                case 0:
                    rogue->send_control(TransferId::kFetch, Fetch{.receiver = number(),
                                                                  .address = address,
                                                                  .length = any_length(),
                                                                  .key = key,
                                                                  .ring = any_ring(),
                                                                  .part = any_part()});
                    break;
                case 1:
                    rogue->send_control(TransferId::kDeliver, Deliver{.sender = number(),
                                                                      .address = address,
                                                                      .length = any_length(),
                                                                      .key = key});
                    break;
                case 2:
                    rogue->send_control(TransferId::kAccept, Accept{.sender = number(),
                                                                    .receiver = number(),
                                                                    .ring = any_ring(),
                                                                    .part = any_part()});
                    break;
                case 3:
                    rogue->send_control(TransferId::kPart,
                                        MorePart{.receiver = number(), .part = any_part()});
                    break;
                case 4:
                    rogue->send_control(
                        TransferId::kAck,
                        Ack{.receiver = number(),
                            .count = static_cast<uint32_t>(any({0, 1, 3, 8, random()})),
                            .flags = static_cast<uint32_t>(any({0, 0, 1, 3, random()}))});
                    break;
                case 10:
                    send_reply({.receiver = number(),
                                .count = static_cast<uint32_t>(any({0, 1, 3, 8, random()})),
                                .flags = static_cast<uint32_t>(any({5, 5, 4, 7, 1, random()})),
                                .reply = static_cast<uint32_t>(any({0, 9, 31, 32, random()}))},
                               any({0, 1, 17, 32, 33, 64}));
                    break;
                case 5:
                    rogue->send_control(TransferId::kFinish, Finish{.receiver = number()});
                    break;
                case 6:
                    rogue->send_control(
                        TransferId::kRefuse,
                        Refuse{.what = static_cast<uint32_t>(random() % 4), .number = number()});
                    break;
                case 7:
                    rogue->write_to("", 0, 0, 0,
                                    number() << 16 | static_cast<uint32_t>(random() % 20));
                    break;
                case 8:
                    (void)undeclare();
                    break;
                default:
                    rogue->send_frame(FrameKind::kActiveMessage, 1, "hello");
            }
            victim.poll();
            rogue->poll();
        }
        expect_whole();
        rogue.reset();
        // The victim gives up operations with a peer that is silent.
        ASSERT_TRUE(until([this] { victim.poll(); },
                          [this] { return victim.completions.size() == (channel != nullptr); }))
            << round;
        if (channel != nullptr && victim.closures == closures)
            victim.engine->leave(channel, &victim);
        channel = nullptr;
    }
    expect_alive();
}

INSTANTIATE_TEST_SUITE_P(Polls, TransferFuzzTest, testing::Values(PollMode::kMemory, PollMode::kCq),
                         [](const auto& test) {
                             return test.param == PollMode::kCq ? "cq" : "memory";
                         });

}  // namespace
}  // namespace tern::test
