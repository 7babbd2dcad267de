// SPDX-License-Identifier: BSD-3-Clause
// A stream of RDMA writes that the receiver reads: the least that a transport over a ring needs.
#include <cstring>
#include <vector>

#include "bench/measure/traffic.h"

namespace bench {
namespace {

constexpr uint64_t kRing = 32 << 10;
constexpr uint64_t kPollsPerReap = 32;  // a device may need calls to make progress

// The places of the messages in the ring; each ends with its number.
class Ring {
  public:
    explicit Ring(uint32_t size)
        : stride_((size + kWord - 1) / kWord * kWord), places_(kRing / stride_) {}
    uint64_t offset(uint64_t number) const { return number % places_ * stride_; }
    char* word(char* memory, uint64_t number) const {
        return memory + offset(number) + stride_ - kWord;
    }
    uint32_t stride() const { return static_cast<uint32_t>(stride_); }
    uint64_t half() const { return places_ / 2; }

  private:
    const uint64_t stride_;
    const uint64_t places_;
};

// Waits until the receiver has taken the messages before the last half of the ring, as far as
// *taken does not tell yet.
void wait_for_room(Link& link, const Ring& ring, uint64_t number, uint64_t* taken) {
    Patience patience("room in the ring");
    while (number - *taken > 2 * ring.half()) {
        const uint64_t told = word_at(link.in()).load(std::memory_order_acquire);
        if (told > *taken && told < number) {
            *taken = told;
        } else {
            link.reap();
            patience.spend();
        }
    }
}

Samples send_all(Link& link, const Ring& ring, const Order& order) {
    uint64_t number = link.sequence;
    uint64_t taken = number;
    const std::vector<char> message(order.copied ? order.size : 0);
    return burst_times(link, order, [&](uint64_t, bool last) {
        wait_for_room(link, ring, ++number, &taken);
        memcpy(link.out() + ring.offset(number), message.data(), message.size());
        word_at(ring.word(link.out(), number)).store(number, std::memory_order_relaxed);
        link.post(IBV_WR_RDMA_WRITE, ring.offset(number), ring.stride(), last);
    });
}

void take_all(Link& link, const Ring& ring, uint64_t end) {
    uint64_t polls = 0;
    for (uint64_t number = link.sequence + 1; number <= end; ++number) {
        wait_for_word(ring.word(link.in(), number), number, [&] {
            if (++polls % kPollsPerReap == 0) link.reap();
        });
        if (number % ring.half() == 0 || number == end) {
            word_at(link.out()).store(number, std::memory_order_relaxed);
            link.post(IBV_WR_RDMA_WRITE, 0, kWord);
        }
    }
    link.reap_until(0);
}

}  // namespace

Samples ring_times(Peer& peer, Link& link, const Order& order) {
    const Ring ring(order.size);
    const uint64_t end = link.sequence + order.trips();
    peer.meet();
    Samples samples;
    if (peer.measures()) {
        samples = send_all(link, ring, order);
    } else {
        take_all(link, ring, end);
    }
    link.sequence = end;
    peer.meet();
    return samples;
}

}  // namespace bench
