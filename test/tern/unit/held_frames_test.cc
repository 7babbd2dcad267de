// SPDX-License-Identifier: BSD-3-Clause
#include "tern/tupleq/core/held_frames.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <map>

#include "schedules.h"

namespace tern {
namespace held_frames_test {

constexpr HeldFrames::Limits kLimits{.pause = 1000, .most = 4000};

Channel& channel_of(uint32_t number) {
    return *reinterpret_cast<Channel*>(uintptr_t{number} << 6);
}

const std::byte kBytes[2000]{};

TEST(HeldFrames, EmptyMessagesCountToo) {
    HeldFrames held(kLimits);
    unsigned count = 0;
    while (held.hold(1, channel_of(1), 0, kBytes, 0)) ++count;
    EXPECT_EQ(count, kLimits.most / HeldFrames::kOverhead);
    EXPECT_TRUE(held.hold(2, channel_of(2), 0, kBytes, 0)) << "another peer's count by themselves";
}

// A model of some peers that pause when they are told. Their frames, and what they are told, are
// under way for some time; connections end.
std::string run(Random random) {
    HeldFrames held(kLimits);
    struct Peer {
        std::deque<uint32_t> frames;  // held, by id
        uint32_t sent = 0;
        uint32_t under_way = 0;
        std::deque<bool> news;  // under way to the peer
        bool paused = false;
        bool told = false;
        bool gone = false;
    };
    constexpr uint32_t kPeers = 3;
    std::map<uint32_t, Peer> peers;
    const auto receive = [&](uint32_t number) {
        Peer& peer = peers[number];
        const auto length = static_cast<uint32_t>(random.below(200));
        --peer.under_way;
        const uint32_t id = peer.sent - peer.under_way;
        if (!held.hold(number, channel_of(number), id, kBytes, length)) return false;
        peer.frames.push_back(id);
        return true;
    };
    for (int step = 0; step < 400; ++step) {
        const auto number = static_cast<uint32_t>(random.between(1, kPeers));
        Peer& peer = peers[number];
        switch (random.below(6)) {
            case 0:
            case 1:
                // What a peer sends before it learns that it is to pause is limited.
                if (peer.gone || peer.paused || peer.frames.size() + peer.under_way == 15) break;
                ++peer.sent;
                ++peer.under_way;
                break;
            case 2:
                if (peer.under_way != 0 && !receive(number)) return "a peer that pauses is blamed";
                break;
            case 3:
                if (!peer.news.empty()) {
                    peer.paused = peer.news.front();
                    peer.news.pop_front();
                }
                break;
            case 4:
                if (random.chance(70)) {
                    held.tell([&](Channel& channel, bool pause) {
                        const auto who =
                            static_cast<uint32_t>(reinterpret_cast<uintptr_t>(&channel) >> 6);
                        if (peers[who].gone || peers[who].told == pause) std::abort();
                        if (random.chance(30)) return false;
                        peers[who].told = pause;
                        peers[who].news.push_back(pause);
                        return true;
                    });
                } else if (random.chance(3)) {
                    peer.gone = true;
                    peer.under_way = 0;
                    held.gone(number);
                }
                break;
            case 5:
                for (auto left = random.below(8); left != 0 && !peer.frames.empty(); --left) {
                    if (held.first(number) == nullptr) return "a frame is lost";
                    const HeldFrames::Frame frame = held.take(number);
                    if (frame.id != peer.frames.front()) return "frames are out of order";
                    if ((frame.channel == nullptr) != peer.gone) return "a wrong channel";
                    peer.frames.pop_front();
                }
                break;
        }
    }
    // In the end all are matched, and no peer remains paused.
    for (auto& [number, peer] : peers) {
        while (peer.under_way != 0)
            if (!receive(number)) return "a peer that pauses is blamed";
        while (held.first(number) != nullptr) (void)held.take(number);
    }
    held.tell([&](Channel& channel, bool pause) {
        peers[static_cast<uint32_t>(reinterpret_cast<uintptr_t>(&channel) >> 6)].told = pause;
        return true;
    });
    if (held.any_untold()) return "something remains to be told";
    for (const auto& [number, peer] : peers)
        if (peer.told && !peer.gone) return "a peer pauses for ever";
    return {};
}

TEST(HeldFrames, PeersPauseAndGoOn) {
    each_schedule(20'000, [](Random random) { return run(random); });
}

}  // namespace held_frames_test
}  // namespace tern
