// SPDX-License-Identifier: BSD-3-Clause
// What a process has of the device's queues, now and at most so far, and the device's limit of
// queue pairs.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace softhca {

class Host;

// In a process's slot.
struct QueueUsage {
    enum Kind : uint32_t { kQueuePairs, kCompletionEntries, kReceiveQueues, kBytes, kKinds };
    struct Level {
        std::atomic<uint64_t> live{0};
        std::atomic<uint64_t> peak{0};
    };
    Level levels[kKinds];
};

// What one object takes, by QueueUsage::Kind.
using QueueAmounts = std::array<uint64_t, QueueUsage::kKinds>;

void add_queues(Host& host, const QueueAmounts& amounts);
void remove_queues(Host& host, const QueueAmounts& amounts);

// Counts one more queue pair of the device. False, and not counted: the device has as many as rule
// `max-qp` says, of all processes that share its address.
bool take_queue_pair(Host& host, uint32_t device);
void return_queue_pair(Host& host, uint32_t device);
bool has_all_queue_pairs(Host& host, uint32_t device);

}  // namespace softhca
