// SPDX-License-Identifier: BSD-3-Clause
#include "tern/uct/rma.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "tern/base/tunables.h"
#include "tern/rendezvous/progress_budget.h"
#include "tern/uct/rma_post.h"

namespace tern {

namespace {

// Unpacks the bytes of a get.
void to_one_piece(void* to, const void* data, size_t length) {
    memcpy(to, data, length);
}

}  // namespace

Rma::Rma(Engine& engine, PinCache& pins, const Decider& decider)
    : engine_(engine),
      cache_(pins),
      pins_(pins),
      decider_(decider),
      segment_(engine.settings().segment_size),
      longest_pin_(std::min(longest_pin(pins),
                            ProgressBudget::longest_registration(decider.model().costs()))) {
    // The least length that is read in place, as if the pin cost nothing.
    constexpr size_t kLeast = 64;
    const BufferState pinned{.pinned = true};
    least_in_place_ = kLeast;
    while (least_in_place_ <= segment_ && !decider.reads_in_place(least_in_place_, 0, pinned))
        least_in_place_ *= 2;
    least_in_place_ = std::min(least_in_place_, segment_ + 1);
}

Status Rma::put_copy(Channel& channel, const Memory& from, const Remote& to) {
    uint32_t length = 0;
    return engine_.one_sided()->put_bcopy(
        channel,
        [&](void* at) {
            Buffers(from.pieces).read(static_cast<std::byte*>(at), from.length);
            return static_cast<uint32_t>(from.length);
        },
        length, to.address, to.rkey);
}

// Whether an operation can be posted now on a piece of open memory, which needs no pin.
bool Rma::is_open(const Channel& channel, const Memory& memory, unsigned access) {
    return memory.pieces.size() == 1 && memory.length <= kLongestInPlace &&
           covers(*memory.region, address_of(memory.pieces.front().at), memory.length, access) &&
           OneSided::has_room_in_place(channel) && channel.transfers == 0;
}

// From open memory in place. Otherwise, bytes of at most a segment are copied: to ask whether they
// are pinned would be in vain for most.
std::optional<Status> Rma::put_longer(Channel& channel, const Memory& from, const Remote& to,
                                      const ibv_mr* open, void* cookie) {
    if (open != nullptr && is_open(channel, from, 0)) {
        const Status posted = engine_.one_sided()->put_in_place(channel, piece_of(from, open->lkey),
                                                                to.address, to.rkey, cookie);
        return posted == Status::kOk ? Status::kInProgress : posted;
    }
    if (from.length > segment_) return in_place<false>(channel, from, to, cookie);
    return put_copy(channel, from, to);
}

// Into open memory.
Status Rma::get_open(Channel& channel, const ibv_sge& to, const Remote& from, void* cookie) {
    Operation* const operation = take(channel, cookie);
    if (operation == nullptr) return Status::kNoResource;
    operation->reads = true;
    operation->buffer = nullptr;
    const Status posted = engine_.one_sided()->get_in_place(
        channel, to, from.address, from.rkey, make_cookie(CookieKind::kRma, operation));
    if (posted == Status::kOk) {
        ++under_way_;
        return Status::kInProgress;
    }
    give(*operation);
    return posted;
}

// Whether `count` work requests can be posted now, and need not go by transfers.
bool Rma::takes_pieces(const Channel& channel, size_t count) {
    return channel.sends.room() > channel.transfer_reserve + (count - 1) &&
           (count != 1 || channel.transfers == 0);
}

// `post(piece, address, cookie)` returns kOk or kInProgress if it has posted.
template <class Post>
std::optional<Status> Rma::post_pieces(Channel& channel, std::span<const ibv_sge> pieces,
                                       uint64_t address, void* cookie, Post&& post) {
    if (!takes_pieces(channel, pieces.size()))
        return pieces.size() == 1 ? std::nullopt
                                  : std::optional(engine_.one_sided()->no_places(
                                        channel, static_cast<uint32_t>(pieces.size())));
    for (const ibv_sge& piece : pieces) {
        void* const own = &piece == &pieces.back() ? cookie : nullptr;
        const Status posted = post(piece, address, own);
        if (posted != Status::kOk && posted != Status::kInProgress) return posted;
        address += piece.length;
    }
    return Status::kInProgress;
}

std::optional<Status> Rma::put_pieces(Channel& channel, std::span<const ibv_sge> pieces,
                                      const Remote& to, void* cookie) {
    return post_pieces(channel, pieces, to.address, cookie,
                       [&](const ibv_sge& piece, uint64_t address, void* own) {
                           return engine_.one_sided()->put_in_place(channel, piece, address,
                                                                    to.rkey, own);
                       });
}

std::optional<Status> Rma::get_pieces(Channel& channel, std::span<const ibv_sge> pieces,
                                      const Remote& from, void* cookie) {
    return post_pieces(channel, pieces, from.address, cookie,
                       [&](const ibv_sge& piece, uint64_t address, void* own) {
                           return get_open(channel, piece, {address, from.rkey}, own);
                       });
}

// A short one to memory that is not pinned.
Status Rma::get_short(Channel& channel, const Memory& to, const Remote& from, void* cookie) {
    if (to.length >= least_in_place_ && pin(to, kLocalWrite))
        if (const auto posted = in_place<true>(channel, to, from, cookie)) return *posted;
    if (to.pieces.size() == 1)
        return copy(channel, to.length, from, to_one_piece, to.pieces.front().at, cookie);
    Scattered* const scattered = scatter(to);
    if (scattered == nullptr) return Status::kNoResource;
    const Status posted = copy(channel, to.length, from, to_pieces, scattered, cookie);
    if (posted != Status::kInProgress) scattered->owner->give(*scattered);
    return posted;
}

// Null: no memory.
Rma::Operation* Rma::grow() {
    try {
        return &operations_.emplace_back();
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

// Null: no memory.
Rma::Scattered* Rma::scatter(const Memory& to) {
    if (free_scattered_ == nullptr) {
        try {
            free_scattered_ = &scattered_.emplace_back();
        } catch (const std::bad_alloc&) {
            return nullptr;
        }
        free_scattered_->owner = this;
    }
    Scattered* const scattered = free_scattered_;
    free_scattered_ = scattered->next;
    scattered->to = Buffers(to.pieces);
    return scattered;
}

// Unpacks the bytes of a get into several pieces.
void Rma::to_pieces(void* to, const void* data, size_t length) {
    auto& scattered = *static_cast<Scattered*>(to);
    scattered.to.write(static_cast<const std::byte*>(data), length);
    scattered.owner->give(scattered);
}

// Pins the memory of a short get or of a frame if it has been used so often that this pays: all of
// its region, unless that would take too long. False: it is not pinned.
bool Rma::pin(const Memory& memory, unsigned access) {
    if (memory.pieces.size() != 1) return false;
    void* at = memory.pieces.front().at;
    size_t length = memory.length;
    const Region* const region = memory.region;
    if (region != nullptr && region->length() <= longest_pin_ &&
        covers(*region, address_of(at), length, 0)) {
        at = reinterpret_cast<void*>(region->address());
        length = region->length();
    }
    const BufferState own{.can_pin = length <= longest_pin_,
                          .uses = cache_.note(at, length),
                          .keeps = cache_.keeps(at, length)};
    if (!decider_.reads_in_place(memory.length, length, own)) return false;
    Pin* const pin = cache_.pin(at, length, access);
    if (pin == nullptr) return false;
    cache_.release(pin);
    return true;
}

}  // namespace tern
