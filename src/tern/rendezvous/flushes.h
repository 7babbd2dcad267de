// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tern/rendezvous/transfer.h"

namespace tern {

// Flushes that wait for transfers to end before the engine's flush may begin. A flush fails if an
// operation of its channel fails meanwhile, whether or not the operation reports that itself.
// `owner` has completed(cookie, status).
class Flushes {
  public:
    bool empty() const { return flushes_.empty(); }
    // `until`: the last transfer to wait for, as `begin` counts them.
    // `by_force`: see Rendezvous::flush_by_force().
    void add(Channel& channel, uint64_t until, const Waiter& waiter, bool by_force = false) {
        const auto serves = [&](const Flush& each) {
            return each.by_force && each.is_of(channel, waiter.user);
        };
        // A user without a cookie asks again and again.
        if (waiter.cookie == nullptr && std::ranges::any_of(flushes_, serves)) return;
        flushes_.push_back({&channel, until, waiter, transfers_on(channel).failures, by_force});
    }
    // Whether the user has flushes on this channel.
    bool any(const Channel& channel, const void* user) const {
        return std::ranges::any_of(flushes_,
                                   [&](const Flush& each) { return each.is_of(channel, user); });
    }
    // Ends the other flushes of each user that flushes by force, and calls `drop(channel, user)`,
    // which returns how many operations it has ended. Returns how many of both have ended. The
    // user's completions may begin and end flushes, so the search starts again after them.
    template <class Drop, class Owner>
    unsigned drop_by_force(Drop&& drop, Owner& owner) {
        unsigned count = 0;
        for (size_t i = 0; i < flushes_.size();) {
            const Flush flush = flushes_[i];
            unsigned ended = 0;
            if (flush.by_force) {
                const auto is_other = [&](const Flush& each) {
                    return !each.by_force && each.is_of(*flush.channel, flush.waiter.user);
                };
                ended = end(is_other, Status::kCanceled, owner) +
                        drop(*flush.channel, flush.waiter.user);
            }
            count += ended;
            i = ended != 0 ? 0 : i + 1;
        }
        return count;
    }
    // `begin(channel, until, waiter, by_force)` returns kNoResource if the flush has to wait
    // longer, else the status of the engine's flush; `waiter` may have no cookie. Returns how many
    // flushes have begun or ended.
    template <class Begin, class Owner>
    unsigned progress(Begin&& begin, Owner& owner) {
        unsigned count = 0;
        for (size_t i = 0; i < flushes_.size();) {
            const Flush flush = flushes_[i];
            const bool lost =
                !flush.by_force && flush.failures != transfers_on(*flush.channel).failures;
            const Status failure = transfers_on(*flush.channel).failure;
            const Status status =
                begin(*flush.channel, flush.until, lost ? Waiter{} : flush.waiter, flush.by_force);
            // The engine does not see what transfers have lost. It gets no waiter in that case, and
            // is asked again until all has arrived.
            if (status == Status::kNoResource || (lost && status == Status::kInProgress)) {
                ++i;
                continue;
            }
            remove(i);
            ++count;
            if (status != Status::kInProgress && flush.waiter.cookie != nullptr)
                owner.completed(flush.waiter.cookie,
                                lost && status == Status::kOk ? failure : status);
        }
        return count;
    }
    // Ends the flushes of a channel that is over.
    template <class Owner>
    void ended(const Channel& channel, Status status, Owner& owner) {
        end([&](const Flush& flush) { return flush.channel == &channel; }, status, owner);
    }
    // Ends the flushes of a user that leaves the channel.
    template <class Owner>
    void cancel(const Channel& channel, const void* user, Owner& owner) {
        end([&](const Flush& flush) { return flush.is_of(channel, user); }, Status::kCanceled,
            owner);
    }

  private:
    struct Flush {
        Channel* channel;
        uint64_t until;
        Waiter waiter;
        uint32_t failures;  // Channel::failures when the flush was added
        bool by_force;

        bool is_of(const Channel& its, const void* user) const {
            return channel == &its && waiter.user == user;
        }
    };

    template <class Is, class Owner>
    unsigned end(Is&& is, Status status, Owner& owner) {
        unsigned count = 0;
        for (size_t i = 0; i < flushes_.size();) {
            const Flush flush = flushes_[i];
            if (!is(flush)) {
                ++i;
                continue;
            }
            remove(i);
            ++count;
            if (flush.waiter.cookie != nullptr) owner.completed(flush.waiter.cookie, status);
        }
        return count;
    }

    void remove(size_t index) {
        flushes_.erase(flushes_.begin() + static_cast<std::ptrdiff_t>(index));
    }

    std::vector<Flush> flushes_;
};

}  // namespace tern
