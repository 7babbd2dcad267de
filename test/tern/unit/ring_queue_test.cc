// SPDX-License-Identifier: BSD-3-Clause
// The queue for rings, in all orders of events.
#include "tern/rendezvous/superpipeline.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tern/engine/channel.h"

namespace tern {
namespace {

constexpr uint32_t kPeers = 3;

std::unique_ptr<Channel> make_channel(uint32_t number) {
    const Handshake handshake(1, {}, {}, {}, {});
    return std::make_unique<Channel>(number, PeerAddress{}, handshake);
}

// Checks a queue by what was asked of it: each peer's transfers come in order, and a peer that may
// have a ring waits for no more than one transfer of each other peer.
struct QueueRun {
    RingQueue queue;
    std::array<std::unique_ptr<Channel>, kPeers> channels;
    std::vector<std::unique_ptr<Incoming>> transfers;
    std::array<std::vector<Incoming*>, kPeers> waiting;
    // Rows: peers that wait. How often each other peer has been served meanwhile.
    uint32_t served[kPeers][kPeers] = {};

    QueueRun() {
        for (uint32_t i = 0; i < kPeers; ++i) channels[i] = make_channel(i);
    }
    void push(uint32_t peer) {
        transfers.push_back(std::make_unique<Incoming>());
        Incoming& transfer = *transfers.back();
        transfer.channel = channels[peer].get();
        if (waiting[peer].empty()) std::fill_n(served[peer], kPeers, 0);
        waiting[peer].push_back(&transfer);
        queue.push(transfer);
    }
    void remove(uint32_t peer) {
        if (waiting[peer].empty()) return;
        Incoming* const last = waiting[peer].back();
        waiting[peer].pop_back();
        queue.remove(*last);
        queue.remove(*last);  // no effect
        ASSERT_FALSE(last->waits_for_ring);
    }
    // `refused`: may not have a ring; kPeers: all may.
    void serve(uint32_t refused) {
        Incoming* const next =
            queue.next([&](const Channel& channel) { return channel.index != refused; });
        bool any = false;
        for (uint32_t i = 0; i < kPeers; ++i) any |= i != refused && !waiting[i].empty();
        ASSERT_EQ(next != nullptr, any);
        if (next == nullptr) return;
        const uint32_t peer = next->channel->index;
        ASSERT_NE(peer, refused);
        ASSERT_EQ(next, waiting[peer].front());
        queue.pop(*next);
        ASSERT_FALSE(next->waits_for_ring);
        waiting[peer].erase(waiting[peer].begin());
        std::fill_n(served[peer], kPeers, 0);
        for (uint32_t i = 0; i < kPeers; ++i) {
            if (i == peer || waiting[i].empty()) continue;
            if (i == refused) std::fill_n(served[i], kPeers, 0);
            if (i != refused) {
                ASSERT_LE(++served[i][peer], 1u);
            }
        }
    }
    // Erases the first transfer of each peer.
    void erase_first() {
        size_t count = 0;
        const auto is_first = [&](const Incoming& transfer) {
            return &transfer == waiting[transfer.channel->index].front();
        };
        const size_t erased = queue.erase_if(is_first);
        for (auto& each : waiting) {
            if (each.empty()) continue;
            ASSERT_FALSE(each.front()->waits_for_ring);
            each.erase(each.begin());
            ++count;
        }
        ASSERT_EQ(erased, count);
    }
    void check() const {
        bool any = false;
        for (const auto& each : waiting) {
            any |= !each.empty();
            for (const Incoming* transfer : each) ASSERT_TRUE(transfer->waits_for_ring);
        }
        ASSERT_EQ(queue.empty(), !any);
    }
};

constexpr uint32_t kEventsOfQueue = 9;

void apply_to_queue(QueueRun& run, uint32_t event) {
    if (event < kPeers) return run.push(event);
    switch (event - kPeers) {
        case 0:
        case 1:
            return run.remove(event - kPeers);
        case 2:
            return run.serve(kPeers);
        case 3:
        case 4:
            return run.serve(event - kPeers - 3);
        default:
            return run.erase_first();
    }
}

TEST(RingQueueTest, PeersAreServedInTurn) {
    constexpr unsigned kSteps = 5;
    uint32_t codes = 1;
    for (unsigned i = 0; i < kSteps; ++i) codes *= kEventsOfQueue;
    for (uint32_t code = 0; code < codes && !HasFatalFailure(); ++code) {
        QueueRun run;
        std::string events;
        // Some wait from the beginning.
        for (uint32_t peer : {0, 0, 1}) run.push(peer);
        uint32_t rest = code;
        for (unsigned i = 0; i < kSteps && !HasFatalFailure(); ++i, rest /= kEventsOfQueue) {
            events += "012rRsabe"[rest % kEventsOfQueue];
            SCOPED_TRACE(events);
            apply_to_queue(run, rest % kEventsOfQueue);
            run.check();
        }
    }
}

}  // namespace
}  // namespace tern
