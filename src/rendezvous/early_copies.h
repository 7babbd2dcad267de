// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "rendezvous/messages.h"
#include "rendezvous/ring_pool.h"
#include "rendezvous/sender.h"

namespace tern {

struct Channel;

// The beginning of a message that a peer was told of, in a ring of staging memory. What names it
// is what the peer asks for: a message does not change before it is over, so that of several that
// are the same any will do, and a peer that makes something up gets what it may get anyway.
struct EarlyCopy {
    uint64_t number = 0;
    const Channel* channel = nullptr;
    uint64_t address = 0;
    uint64_t length = 0;
    WireKey key;
    EarlyChunk staged;
    RingPool::Ring staging;
    uint64_t since = 0;  // transfers that had begun by then

    bool is_of(const Channel* other, const Fetch& fetch) const {
        return channel == other && address == fetch.address && length == fetch.length &&
               key.index == fetch.key.index && key.generation == fetch.key.generation;
    }
};

// Those that nobody has asked for yet, from the oldest on: few, so that no more than a few rings
// wait for peers that may never come. Rings are lent and given back by the owner. No allocation.
class EarlyCopies {
  public:
    static constexpr size_t kMost = 8;
    // So many transfers must have begun since a head was staged before it gives way to that of a
    // newer message. Messages that wait in line are fetched in order: the oldest head is wanted
    // next, unless nobody wants it at all.
    static constexpr uint64_t kOvertaken = 16;

    bool empty() const { return count_ == 0; }
    bool full() const { return count_ == kMost; }
    // There must be one, as for all below that return a reference.
    const EarlyCopy& oldest() const { return copies_[0]; }
    // The oldest, if it gives way to a newer one after `transfers` in all.
    const EarlyCopy* overtaken(uint64_t transfers) const {
        return !empty() && transfers - copies_[0].since >= kOvertaken ? &copies_[0] : nullptr;
    }
    // The oldest of this channel, or what it is asked for; null if there is none.
    const EarlyCopy* of(const Channel* channel) const {
        return find([&](const EarlyCopy& copy) { return copy.channel == channel; });
    }
    const EarlyCopy* of(const Channel* channel, const Fetch& fetch) const {
        return find([&](const EarlyCopy& copy) { return copy.is_of(channel, fetch); });
    }
    const EarlyCopy* numbered(uint64_t number) const {
        return find([&](const EarlyCopy& copy) { return copy.number == number; });
    }

    // There must be room. Returns its number, which is never 0 and comes once.
    uint64_t add(EarlyCopy copy) {
        copy.number = ++numbers_;
        copies_[count_++] = copy;
        return copy.number;
    }
    // `head`: one of these.
    void remove(const EarlyCopy& copy) {
        const auto at = copies_.begin() + (&copy - copies_.data());
        std::move(at + 1, copies_.begin() + static_cast<std::ptrdiff_t>(count_), at);
        --count_;
    }

  private:
    template <class Which>
    const EarlyCopy* find(Which&& which) const {
        const EarlyCopy* const end = copies_.data() + count_;
        const EarlyCopy* const found = std::find_if(copies_.data(), end, which);
        return found == end ? nullptr : found;
    }

    std::array<EarlyCopy, kMost> copies_{};
    size_t count_ = 0;
    uint64_t numbers_ = 0;
};

}  // namespace tern
