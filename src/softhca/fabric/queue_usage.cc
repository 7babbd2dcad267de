// SPDX-License-Identifier: BSD-3-Clause
#include "queue_usage.h"

#include "host.h"

namespace softhca {
namespace {

constexpr auto kCount = std::memory_order_relaxed;

void raise(std::atomic<uint64_t>& peak, uint64_t value) {
    uint64_t seen = peak.load(kCount);
    while (seen < value && !peak.compare_exchange_weak(seen, value, kCount)) {
    }
}

// The sum of what count(slot) gives for the processes that live.
template <typename Count>
uint64_t sum_of_living(Host& host, const Count& count) {
    uint64_t sum = 0;
    host.for_each_member([&](uint32_t slot) {
        if (host.alive(slot)) sum += count(host.process(slot));
    });
    return sum;
}

uint64_t queue_pairs_of(Host& host, uint32_t device) {
    const auto of_device = [device](const ProcessSlot& process) {
        return uint64_t{process.device_queue_pairs[device].load()};
    };
    if (host.header().config.own_addresses != 0) return of_device(host.self());
    return sum_of_living(host, of_device);
}

}  // namespace

void add_queues(Host& host, const QueueAmounts& amounts) {
    for (uint32_t kind = 0; kind < QueueUsage::kKinds; ++kind) {
        if (amounts[kind] == 0) continue;
        QueueUsage::Level& level = host.self().queues.levels[kind];
        raise(level.peak, level.live.fetch_add(amounts[kind], kCount) + amounts[kind]);
        raise(host.header().queue_peaks[kind],
              sum_of_living(host, [kind](const ProcessSlot& process) {
                  return process.queues.levels[kind].live.load(kCount);
              }));
    }
}

void remove_queues(Host& host, const QueueAmounts& amounts) {
    for (uint32_t kind = 0; kind < QueueUsage::kKinds; ++kind)
        host.self().queues.levels[kind].live.fetch_sub(amounts[kind], kCount);
}

// Counts first, so that two processes never get the last one both; perhaps neither does.
bool take_queue_pair(Host& host, uint32_t device) {
    host.self().device_queue_pairs[device].fetch_add(1);
    if (queue_pairs_of(host, device) <= static_cast<uint64_t>(host.personality().limits.qps))
        return true;
    return_queue_pair(host, device);
    return false;
}

void return_queue_pair(Host& host, uint32_t device) {
    host.self().device_queue_pairs[device].fetch_sub(1);
}

bool has_all_queue_pairs(Host& host, uint32_t device) {
    return queue_pairs_of(host, device) >= static_cast<uint64_t>(host.personality().limits.qps);
}

}  // namespace softhca
