// SPDX-License-Identifier: BSD-3-Clause
#include "bench/scale/messages.h"

#include <algorithm>
#include <set>

#include "bench/sim/grid.h"
#include "bench/sim/schedule.h"

namespace bench::scale {

namespace {

using sim::chance;

constexpr uint32_t kHotRanks = 64;
constexpr uint64_t kSeed = chance(1);

// Ranks of a 3-D grid without border at most `reach` steps of `stride` ranks away, in each
// direction.
std::vector<uint32_t> around(const std::vector<uint32_t>& edges, uint32_t stride, int reach) {
    std::set<uint32_t> found;
    const auto place = [&](int steps, uint32_t edge) {
        const auto size = static_cast<int64_t>(edge);
        return static_cast<uint32_t>((steps * static_cast<int64_t>(stride) % size + size) % size);
    };
    for (int z = -reach; z <= reach; ++z)
        for (int y = -reach; y <= reach; ++y)
            for (int x = -reach; x <= reach; ++x)
                found.insert((place(z, edges[2]) * edges[1] + place(y, edges[1])) * edges[0] +
                             place(x, edges[0]));
    found.erase(0);
    return {found.begin(), found.end()};
}

}  // namespace

Messages::Messages(const std::string& pattern, uint32_t ranks) : ranks_(ranks) {
    if (pattern == "ring") {
        round_ = {{.peer = 1, .bytes = 1024, .received = false},
                  {.peer = ranks - 1, .bytes = 1024, .received = true}};
    } else if (pattern == "halo") {
        add_halo();
    } else if (pattern == "fft") {
        add_fft();
    } else if (pattern == "all-to-all") {
        add_all();
    } else if (pattern == "amg") {
        add_cycle();
    } else if (pattern == "skewed") {
        hot_ = std::min(kHotRanks, ranks - 1);
    }
}

// The computations of a rank are its clock.
Messages::Messages(const std::vector<replay::Trace>& traces)
    : ranks_(static_cast<uint32_t>(traces.size())) {
    using Kind = replay::Event::Kind;
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
        uint64_t time = 0;
        for (const replay::Event& event : traces[rank].events) {
            if (event.kind == Kind::kCompute) time += event.bytes;
            if (event.kind != Kind::kSend || (rank == 0) == (event.peer == 0)) continue;
            round_.push_back(
                {.peer = rank == 0 ? static_cast<uint32_t>(event.peer) : rank,
                 .bytes = static_cast<uint32_t>(std::min<uint64_t>(event.bytes, UINT32_MAX)),
                 .received = rank != 0,
                 .time = time});
        }
    }
    std::ranges::stable_sort(round_, {}, &Message::time);
}

Message Messages::next() {
    const uint64_t number = next_++;
    if (round_.empty()) return chosen();
    return round_[number % round_.size()];
}

// One is received for each that is sent.
Message Messages::chosen() const {
    const uint64_t number = next_ - 1;
    const uint64_t one = chance(kSeed + 2 * number), other = chance(kSeed + 2 * number + 1);
    const bool hot = hot_ != 0 && one % 10 != 0;
    const uint32_t peer = 1 + static_cast<uint32_t>(other % (hot ? hot_ : ranks_ - 1));
    // As many in each doubling from 8 B to 8 KiB.
    const uint32_t least = 8u << (one >> 16) % 10;
    const uint32_t bytes = least + static_cast<uint32_t>((one >> 32) % least);
    return {.peer = peer, .bytes = bytes, .received = number % 2 != 0};
}

void Messages::exchange(const std::vector<uint32_t>& peers, uint32_t bytes) {
    for (const bool received : {false, true})
        for (const uint32_t peer : peers)
            round_.push_back({.peer = peer, .bytes = bytes, .received = received});
}

// Among the ranks whose numbers are multiples of `stride`.
void Messages::disseminate(uint32_t stride) {
    const uint32_t end = ranks_ / stride * stride;
    for (uint32_t distance = stride; distance < end; distance *= 2) {
        round_.push_back({.peer = distance, .bytes = 8, .received = false});
        round_.push_back({.peer = end - distance, .bytes = 8, .received = true});
    }
}

void Messages::add_halo() {
    constexpr int kTimes = 10;
    const std::vector<uint32_t> found = sim::neighbours(0, sim::edges_of(ranks_, 3));
    for (int i = 0; i < kTimes; ++i) exchange(found, 2048);
    disseminate(1);
}

void Messages::add_fft() {
    const std::vector<uint32_t> edges = sim::edges_of(ranks_, 2);
    uint32_t stride = 1;
    for (const uint32_t edge : edges) {
        for (uint32_t i = 1; i < edge; ++i) {
            round_.push_back({.peer = i * stride, .bytes = 512, .received = false});
            round_.push_back({.peer = (edge - i) * stride, .bytes = 512, .received = true});
        }
        stride *= edge;
    }
}

void Messages::add_all() {
    for (uint32_t i = 1; i < ranks_; ++i) {
        round_.push_back({.peer = i, .bytes = 64, .received = false});
        round_.push_back({.peer = ranks_ - i, .bytes = 64, .received = true});
    }
}

// Each coarser grid has the ranks of every second place in each direction, messages of a quarter of
// the length, and from the third one on a wider stencil. Rank 0 is in all of them.
void Messages::add_cycle() {
    constexpr uint32_t kFinest = 4096, kShortest = 32;
    constexpr int kSmoothings = 2;
    const std::vector<uint32_t> edges = sim::edges_of(ranks_, 3);
    std::vector<std::pair<std::vector<uint32_t>, uint32_t>> levels;
    for (uint32_t level = 0; (2u << level) <= edges.back(); ++level)
        levels.emplace_back(around(edges, 1u << level, level < 2 ? 1 : 2),
                            std::max(kFinest >> 2 * level, kShortest));
    const auto smooth = [&](const auto& level) {
        for (int i = 0; i < kSmoothings; ++i) exchange(level.first, level.second);
    };
    std::ranges::for_each(levels, smooth);
    disseminate(1u << levels.size());
    std::for_each(levels.rbegin(), levels.rend(), smooth);
}

}  // namespace bench::scale
