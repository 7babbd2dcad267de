// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "rendezvous/messages.h"
#include "rendezvous/sender.h"
#include "rendezvous/window_pool.h"

namespace tern {

struct Channel;

// The beginning of a message that a peer was told of, in a window of staging memory. What names it
// is what the peer asks for: a message does not change before it is over, so that of several that
// are the same any will do, and a peer that makes something up gets what it may get anyway.
struct Head {
    uint64_t number = 0;
    const Channel* channel = nullptr;
    uint64_t address = 0;
    uint64_t length = 0;
    WireKey key;
    StagedHead staged;
    WindowPool::Window window;
    uint64_t since = 0;  // transfers that had begun by then

    bool is_of(const Channel* other, const Fetch& fetch) const {
        return channel == other && address == fetch.address && length == fetch.length &&
               key.index == fetch.key.index && key.generation == fetch.key.generation;
    }
};

// Those that nobody has asked for yet, from the oldest on: few, so that no more than a few windows
// wait for peers that may never come. Windows are lent and given back by the owner. No allocation.
class Heads {
  public:
    static constexpr size_t kMost = 8;
    // So many transfers must have begun since a head was staged before it gives way to that of a
    // newer message. Messages that wait in line are fetched in order: the oldest head is wanted
    // next, unless nobody wants it at all.
    static constexpr uint64_t kOvertaken = 16;

    bool empty() const { return count_ == 0; }
    bool full() const { return count_ == kMost; }
    // There must be one, as for all below that return a reference.
    const Head& oldest() const { return heads_[0]; }
    // The oldest, if it gives way to a newer one after `transfers` in all.
    const Head* overtaken(uint64_t transfers) const {
        return !empty() && transfers - heads_[0].since >= kOvertaken ? &heads_[0] : nullptr;
    }
    // The oldest of this channel, or what it is asked for; null if there is none.
    const Head* of(const Channel* channel) const {
        return find([&](const Head& head) { return head.channel == channel; });
    }
    const Head* of(const Channel* channel, const Fetch& fetch) const {
        return find([&](const Head& head) { return head.is_of(channel, fetch); });
    }
    const Head* numbered(uint64_t number) const {
        return find([&](const Head& head) { return head.number == number; });
    }

    // There must be room. Returns its number, which is never 0 and comes once.
    uint64_t add(Head head) {
        head.number = ++numbers_;
        heads_[count_++] = head;
        return head.number;
    }
    // `head`: one of these.
    void remove(const Head& head) {
        const auto at = heads_.begin() + (&head - heads_.data());
        std::move(at + 1, heads_.begin() + static_cast<std::ptrdiff_t>(count_), at);
        --count_;
    }

  private:
    template <class Which>
    const Head* find(Which&& which) const {
        const Head* const end = heads_.data() + count_;
        const Head* const found = std::find_if(heads_.data(), end, which);
        return found == end ? nullptr : found;
    }

    std::array<Head, kMost> heads_{};
    size_t count_ = 0;
    uint64_t numbers_ = 0;
};

}  // namespace tern
