// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tern/pinning/regions/regions.h"
#include "tern/rendezvous/accounts.h"

namespace tern {

// A message whose request to send has been sent.
struct Announced {
    const Region* region = nullptr;
    uint64_t packing = 0;  // of the region's key, for the request
    uint64_t address = 0;
    uint64_t length = 0;
    bool reused = false;    // the memory is pinned or soon will be
    bool readable = false;  // the request carries an rkey of the memory

    WireKey key() const { return region->key(); }
};

// The beginning of a message that has been announced to a peer, copied into staging memory. The
// address, length and key in a fetch identify the copy. The end of the message may not be known
// here, and the region may live on. But whoever fetches another message of this region needs
// another packing of its key, so the copy is right as long as no other packing matters: see
// outdated_by(). A peer that forges a fetch gets only bytes that its key gives access to anyway.
struct EarlyCopy {
    uint64_t number = 0;
    Channel* channel = nullptr;
    uint64_t address = 0;
    uint64_t length = 0;
    WireKey key;
    const Region* region = nullptr;
    uint64_t packing = 0;  // the last that is known not to matter
    EarlyChunk staged;
    RingPool::Ring staging;
    uint64_t since = 0;  // transfers begun when it was made

    // Whether the copy may be of an earlier message, now that this one was announced to `other`.
    // Not so if nobody else has packed the key in between, and the peer or the memory is another.
    bool outdated_by(const Channel* other, const Announced& message) const {
        return packing + 1 != message.packing ||
               (channel == other && address < message.address + message.length &&
                message.address < address + length);
    }
    // Nobody can use the copy any more: the memory is not declared, or its key was packed for
    // somebody who is not known here. For any number of threads that declare and pack.
    bool dead() const { return !region->is(key) || region->packings() != packing; }
};

// The early copies that no peer has fetched yet, oldest first. Their number is small, so that few
// rings are bound to peers that may never fetch. The owner lends the rings. No allocation.
class EarlyCopies {
  public:
    bool empty() const { return count_ == 0; }
    bool full() const { return count_ == kEarlyCopies; }
    // There must be one.
    const EarlyCopy& oldest() const { return copies_[0]; }
    // The oldest copy if it gives way to a newer one, or null. `transfers`: begun so far.
    const EarlyCopy* overtaken(uint64_t transfers) const {
        return !empty() && transfers - copies_[0].since >= kOvertaken ? &copies_[0] : nullptr;
    }
    // The oldest copy of this channel, or of the fetched message; null if there is none.
    const EarlyCopy* of(const Channel* channel) const {
        return find([&](const EarlyCopy& copy) { return copy.channel == channel; });
    }
    const EarlyCopy* of(const Channel* channel, const Fetch& fetch) const {
        return find([&](const EarlyCopy& copy) {
            return copy.channel == channel && copy.address == fetch.address &&
                   copy.length == fetch.length && copy.key == fetch.key;
        });
    }
    // A copy that nobody can use, or null.
    const EarlyCopy* dead() const {
        return find([](const EarlyCopy& copy) { return copy.dead(); });
    }
    // A copy that the announcement of this message has made out of date, or null.
    const EarlyCopy* outdated(const Channel* channel, const Announced& message) const {
        return find([&](const EarlyCopy& copy) {
            return copy.key == message.key() && copy.outdated_by(channel, message);
        });
    }
    // The other copies of the message's region are still right. To be called when outdated()
    // returns null.
    void renew(const Announced& message) {
        for (EarlyCopy& copy : std::span(copies_.data(), count_))
            if (copy.key == message.key()) copy.packing = message.packing;
    }
    const EarlyCopy* numbered(uint64_t number) const {
        return find([&](const EarlyCopy& copy) { return copy.number == number; });
    }

    // There must be room. Returns the number of the copy, which is never 0 and never used again.
    uint64_t add(EarlyCopy copy) {
        copy.number = ++numbers_;
        copies_[count_++] = copy;
        return copy.number;
    }
    // `copy`: a reference to an element.
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

    std::array<EarlyCopy, kEarlyCopies> copies_{};
    size_t count_ = 0;
    uint64_t numbers_ = 0;
};

// Makes early copies in rings that no transfer uses, and gives them to the transfers that fetch the
// messages.
class EarlyCopier : RendezvousPart {
  public:
    EarlyCopier(const RendezvousPart& part, RingPool& rings)
        : RendezvousPart(part), rings_(rings) {}

    // See Rendezvous::make_early_copy(). `wanted`: transfers wait for rings, so there is no copy.
    uint64_t make(Channel& channel, const Announced& message, bool wanted);
    // See Rendezvous::drop_early_copy().
    void drop(uint64_t number);
    // The channel is over.
    void drop_all(const Channel& channel);
    // Frees the ring of the oldest copy, if there is one: no transfer waits for a copy that may
    // never be fetched.
    bool give_way();
    // Gives the transfer the early copy of the memory fetched. False: there is none.
    bool take(Outgoing& transfer, const Fetch& frame);

  private:
    void drop(const EarlyCopy& copy);

    RingPool& rings_;
    EarlyCopies copies_;
};

}  // namespace tern
