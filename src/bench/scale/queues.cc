// SPDX-License-Identifier: BSD-3-Clause
#include "bench/scale/queues.h"

#include <algorithm>
#include <bit>

#include "softhca/core/queue_memory.h"
#include "tern/base/tunables.h"
#include "tern/connection/datagrams.h"
#include "tern/engine/send_pool.h"

namespace bench::scale {

namespace {

constexpr uint64_t kMostCompletions = (1 << 22) - 1;  // max_cqe of mlx5
constexpr size_t kPage = 4096;

size_t pages(size_t bytes) {
    return (bytes + kPage - 1) & ~(kPage - 1);
}

// The datagrams' queue pair and completion queue, and the shared receive queue.
uint64_t without_peers(const tern::EngineSettings& settings) {
    using tern::Datagrams;
    const softhca::SendQueueShape sends{.entries = tern::kDatagramSends, .elements = 1};
    const softhca::ReceiveQueueShape receives{.entries = tern::kMostDatagramReceives,
                                              .elements = 1};
    return softhca::queue_pair_memory(softhca::QpType::kUd, sends, receives) +
           softhca::completion_queue_memory(tern::kMostDatagramReceives + tern::kDatagramSends) +
           softhca::shared_queue_memory({.entries = settings.receive_most, .elements = 1});
}

}  // namespace

Queues::Queues(const tern::EngineSettings& settings)
    : settings_(settings),
      lengths_{.long_places = settings.send_queue,
               .later_places = settings.later_queue(),
               .long_queues = settings.long_queues},
      bytes_(without_peers(settings)) {
    set_completions(settings_.completions(tern::kFirstConnections, 0));
}

uint32_t Queues::make() {
    const uint32_t places = lengths_.places_of_next(places_);
    const uint64_t needed = uint64_t{settings_.receive_most} + places_ + places;
    if (needed > completions_)
        set_completions(tern::engine_limits::resized_completions(needed, kMostCompletions));
    places_ += places;
    bytes_ += queue_pair(places);
    most_ = std::max(most_, bytes_);
    return places;
}

void Queues::destroy(uint32_t places) {
    places_ -= places;
    bytes_ -= queue_pair(places);
}

// The driver gives a power of two, less one.
void Queues::set_completions(uint64_t asked) {
    const auto memory = [](uint64_t entries) {
        return softhca::completion_queue_memory(static_cast<uint32_t>(entries));
    };
    if (completions_ != 0) bytes_ -= memory(completions_);
    completions_ = std::bit_ceil(asked + 1) - 1;
    bytes_ += memory(completions_);
    most_ = std::max(most_, bytes_);
}

uint64_t Queues::queue_pair(uint32_t places) const {
    return softhca::queue_pair_memory(softhca::QpType::kRc,
                                      {.entries = places,
                                       .elements = tern::engine_limits::kPieces,
                                       .inline_bytes = settings_.inline_bytes,
                                       .binds = false},
                                      {});
}

size_t Queues::registered(const tern::EngineSettings& settings) {
    using tern::Datagrams;
    using tern::engine_limits::buffer_stride;
    const size_t receives = settings.receive_queue * buffer_stride(settings.receive_buffer());
    const size_t sends =
        std::min(tern::kSendChunk, settings.send_buffers) * buffer_stride(settings.send_buffer());
    return pages(receives) + pages(sends) +
           pages(size_t{tern::kDatagramSends} * tern::Packet::kMaxSize) +
           pages(size_t{tern::kDatagramReceives} * Datagrams::kReceiveSize);
}

}  // namespace bench::scale
