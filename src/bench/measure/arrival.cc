// SPDX-License-Identifier: BSD-3-Clause
#include "bench/measure/arrival.h"

#include <atomic>

#include "bench/measure/clock.h"

namespace bench {
namespace {

constexpr uint32_t kPage = 4096;
constexpr uint32_t kWord = sizeof(uint64_t);

std::atomic_ref<uint64_t> word_at(char* memory) {
    return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(memory));
}

void wait_for(char* word, uint64_t value, Link& link) {
    Patience patience("a word in memory");
    while (word_at(word).load(std::memory_order_acquire) != value) {
        link.reap();
        patience.spend();
    }
}

}  // namespace

Samples arrival_times(Peer& peer, Link& link, const Arrival& arrival) {
    Samples samples;
    peer.meet();
    for (uint64_t i = 0; i < arrival.writes; ++i) {
        ++link.sequence;
        if (peer.measures()) {
            // Asks for a write; the first word of it says when it was posted.
            word_at(link.out()).store(link.sequence, std::memory_order_relaxed);
            link.post(IBV_WR_RDMA_WRITE, 0, kWord);
            for (uint32_t end = kPage; end <= arrival.size; end += kPage) {
                wait_for(link.in() + end - kWord, link.sequence, link);
                if (end != arrival.bytes) continue;
                const uint64_t posted = word_at(link.in()).load(std::memory_order_relaxed);
                samples.push_back(static_cast<double>(now_ns() - posted) / 1000);
            }
        } else {
            wait_for(link.in(), link.sequence, link);
            for (uint32_t end = kPage; end <= arrival.size; end += kPage) {
                word_at(link.out() + end - kWord).store(link.sequence, std::memory_order_relaxed);
            }
            word_at(link.out()).store(now_ns(), std::memory_order_relaxed);
            link.post(IBV_WR_RDMA_WRITE, 0, arrival.size);
        }
        link.reap_until(0);
    }
    peer.meet();
    return samples;
}

}  // namespace bench
