// SPDX-License-Identifier: BSD-3-Clause
#include "bench/measure/latency.h"

#include <sys/uio.h>

#include <atomic>

#include "bench/measure/receives.h"
#include "bench/measure/trips.h"

namespace bench {
namespace {

constexpr uint32_t kWord = sizeof(uint64_t);

std::atomic_ref<uint64_t> word_at(char* memory) {
    return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(memory));
}

template <typename Idle>
void wait_for_word(char* memory, uint64_t value, Idle&& idle) {
    Patience patience("a word in memory");
    while (word_at(memory).load(std::memory_order_acquire) != value) {
        idle();
        patience.spend();
    }
}

void idle() {}

/// A word that counts goes back and forth behind what else a message holds: send(value) brings it
/// to the end of the message in the peer's in().
template <typename Send, typename Idle>
Samples ping_pong(Peer& peer, Link& link, const Trips& trips, Send&& send, Idle&& idle) {
    char* const last = link.in() + trips.size - kWord;
    peer.meet();
    if (peer.measures()) {
        return time_trips(trips, [&] {
            send(++link.sequence);
            wait_for_word(last, link.sequence, idle);
        });
    }
    for (uint64_t i = 0; i < trips.count; ++i) {
        wait_for_word(last, ++link.sequence, idle);
        send(link.sequence);
    }
    return {};
}

void copy_word(Peer& peer, Link& link, uint64_t value) {
    iovec mine{&value, kWord};
    iovec theirs{reinterpret_cast<void*>(link.remote_in()), kWord};
    if (::process_vm_writev(peer.pid(), &mine, 1, &theirs, 1, 0) != kWord) {
        throw call_failed("process_vm_writev");
    }
}

}  // namespace

Samples write_latency(Peer& peer, Link& link, const Trips& trips, Waiting waiting) {
    const auto send = [&](uint64_t value) {
        word_at(link.out() + trips.size - kWord).store(value, std::memory_order_relaxed);
        link.post(IBV_WR_RDMA_WRITE, 0, trips.size);
    };
    const auto reap = [&] {
        if (link.outstanding() != 0) link.reap();
    };
    Samples samples;
    if (waiting == Waiting::polls_memory) {
        samples = ping_pong(peer, link, trips, send, idle);
    } else {
        samples = ping_pong(peer, link, trips, send, reap);
    }
    link.reap_until(0);
    return samples;
}

Samples send_latency(Peer& peer, Link& link, const Trips& trips) {
    Receives receives(link, trips.size, trips.count);
    peer.meet();
    const auto send = [&] {
        link.post(IBV_WR_SEND, 0, trips.size);
        receives.refill();
        link.reap();
    };
    Samples samples;
    if (peer.measures()) {
        uint64_t taken = 0;
        samples = time_trips(trips, [&] {
            send();
            receives.wait_for(++taken);
        });
    } else {
        for (uint64_t i = 0; i < trips.count; ++i) {
            receives.wait_for(i + 1);
            send();
        }
    }
    link.reap_until(0);
    return samples;
}

Samples copy_latency(Peer& peer, Link& link, uint64_t round_trips) {
    return ping_pong(
        peer, link, round_trips, [&](uint64_t value) { copy_word(peer, link, value); }, idle);
}

Samples store_latency(Peer& peer, Link& link, uint64_t round_trips) {
    const auto send = [&](uint64_t value) {
        word_at(reinterpret_cast<char*>(link.remote_in())).store(value, std::memory_order_release);
    };
    return ping_pong(peer, link, round_trips, send, idle);
}

Samples copy_calls(Peer& peer, Link& link, uint64_t calls) {
    peer.meet();
    const uint64_t last = link.sequence + calls;
    if (!peer.measures()) {
        link.sequence = last;
        wait_for_word(link.in(), last, idle);
        return {};
    }
    Samples samples;
    samples.reserve(calls);
    uint64_t begin = now_ns();
    while (link.sequence != last) {
        copy_word(peer, link, ++link.sequence);
        const uint64_t end = now_ns();
        samples.push_back(static_cast<double>(end - begin) / 1000);
        begin = end;
    }
    return samples;
}

}  // namespace bench
