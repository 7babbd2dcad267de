// SPDX-License-Identifier: BSD-3-Clause
#include "bench/measure/chain.h"

#include "bench/measure/traffic.h"

namespace bench {
namespace {

void send(Link& link, Flag& flag, const Order& order, uint64_t number) {
    link.post_chain(place_of(number, order.size, order.places(), link.half()), order.size,
                    flag.write(number));
}

// In exchanges the word may have the next number already.
template <typename Idle>
void wait_for(Flag& flag, uint64_t number, Idle&& idle) {
    Patience patience("a word in memory");
    while (word_at(flag.word()).load(std::memory_order_acquire) < number) {
        idle();
        patience.spend();
    }
}

}  // namespace

Flag::Flag(Device& device, Peer& peer)
    : memory_(Memory::Kind::kShared, kSize),
      mr_(device.register_memory(memory_.data(), kSize)),
      theirs_(peer.exchange(Address{reinterpret_cast<uint64_t>(word()), mr_->rkey})) {}

Link::Write Flag::write(uint64_t number) {
    char* const from = memory_.data() + kSize / 2;
    word_at(from).store(number, std::memory_order_relaxed);
    return {from, mr_->lkey, theirs_.word, theirs_.key, kWord};
}

Samples chain_trips(Peer& peer, Link& link, Flag& flag, const Order& order) {
    uint64_t sent = link.sequence;
    peer.meet();
    Samples samples = with_idle(link, order, [&](auto idle) {
        return round_trips(
            peer, order, [&] { send(link, flag, order, ++sent); },
            [&] { wait_for(flag, ++link.sequence, idle); });
    });
    link.reap_until(0);
    return samples;
}

Samples chain_exchanges(Peer& peer, Link& link, Flag& flag, const Order& order) {
    peer.meet();
    Samples samples = with_idle(link, order, [&](auto idle) {
        return exchanges(peer, order, [&] {
            send(link, flag, order, ++link.sequence);
            wait_for(flag, link.sequence, idle);
        });
    });
    link.reap_until(0);
    return samples;
}

Samples chain_bursts(Link& link, Flag& flag, const Order& order) {
    return burst_times(link, order, [&](uint64_t i, bool last) {
        // Less than the number of any message that is waited for.
        link.post_chain(place_of(i, order.size, order.places(), link.half()), order.size,
                        flag.write(0), last);
    });
}

}  // namespace bench
