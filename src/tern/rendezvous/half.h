// SPDX-License-Identifier: BSD-3-Clause
// What both halves of an interface's transfers do alike.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/assert.h"
#include "common/make_room.h"
#include "tern/connection/little_endian.h"
#include "tern/rendezvous/accounts.h"
#include "tern/rendezvous/turns.h"

namespace tern {

// The transfers of one half, by number: an index in the low 16 bits, and above them how often that
// index was used before. Places are used again.
template <class T>
class TransferTable {
  public:
    static constexpr uint32_t kMost = 1 << 16;

    bool has_room() const { return all_.size() < kMost || !free_.empty(); }
    // Whether a peer may have one more transfer that it has asked for, if it has `held`: twice as
    // many as it leaves to this side and to other peers. So a peer that makes no progress, or
    // several, do not take all places.
    bool serves(uint32_t held) const {
        const auto left = static_cast<uint32_t>(kMost - all_.size() + free_.size());
        return left != 0 && held < 2 * left;
    }
    // Null: all places are taken.
    T* take() {
        if (free_.empty()) {
            if (all_.size() >= kMost) return nullptr;
            base::make_room(free_, all_.size() + 1);  // for put_back()
            all_.push_back(std::make_unique<T>());
            free_.push_back(static_cast<uint32_t>(all_.size() - 1));
            all_.back()->number = free_.back();
        }
        T* transfer = all_[free_.back()].get();
        free_.pop_back();
        transfer->sends = T::kSends;
        return transfer;
    }
    void put_back(T& transfer) {
        const uint32_t number = transfer.number;
        TERN_ASSERT(all_[number % kMost].get() == &transfer && transfer.channel != nullptr);
        transfer = {};
        transfer.number = number + kMost;
        free_.push_back(number % kMost);
    }
    // A transfer under way on this channel, by number or by index alone; null if there is none.
    T* find(const Channel& channel, uint32_t number) const {
        T* transfer = find_index(channel, number % kMost);
        return transfer != nullptr && transfer->number == number ? transfer : nullptr;
    }
    T* find_index(const Channel& channel, uint32_t index) const {
        if (index >= all_.size() || all_[index]->channel != &channel) return nullptr;
        return all_[index].get();
    }

    // Calls `call(transfer)` for each transfer that is under way. The call may end the transfer,
    // and the user, who gets a completion then, may begin others.
    template <class Call>
    void for_each(Call&& call) const {
        // By index, because the table may grow.
        for (size_t i = 0; i < all_.size(); ++i)
            if (all_[i]->channel != nullptr) call(*all_[i]);
    }

  private:
    std::vector<std::unique_ptr<T>> all_;
    std::vector<uint32_t> free_;
};

// The transfers of one half. `Frame`: the request of a peer, Fetch or Deliver; requests that find
// no place in the table wait, in turn by peer.
template <class T, class Frame>
class TransferHalf : protected RendezvousPart {
  public:
    bool has_room() const { return table_.has_room(); }
    // How often transfers have been looked at, to move them on.
    uint64_t steps() const { return running_.steps(); }
    // Whether a request of a peer has waited for a place, and there is one now.
    bool may_serve() const {
        return requests_.next([this](const Channel& each) { return may_serve(each); }) != nullptr;
    }
    // Regions have been undeclared that transfers use.
    void wake_revoked() {
        table_.for_each([this](T& transfer) {
            if (transfer.use != nullptr && transfer.use->revoked()) running_.wake(transfer);
        });
    }
    // Has the deaths of peers reported that transfers wait for.
    void request_reports() const {
        table_.for_each(
            [this](const T& transfer) { engine_.flushing()->request_report(*transfer.channel); });
    }
    // Begins a transfer of this side's user. There must be room.
    T& take(Channel& channel, const Waiter& waiter) {
        T* const transfer = table_.take();
        TERN_ASSERT(transfer != nullptr);
        accounts_.begin(*transfer, channel, waiter);
        return *transfer;
    }

  protected:
    explicit TransferHalf(const RendezvousPart& part) : RendezvousPart(part) {}
    ~TransferHalf() {
        table_.for_each([this](T& transfer) { memory_.release(transfer); });
    }

    // Calls `serve(channel, frame)` for a peer's request, now or when there is a place. False: it
    // is invalid, or more wait than a peer that keeps to the protocol can have under way.
    template <class Serve>
    bool serve_or_wait(Channel& channel, const Frame& frame, Serve&& serve) {
        if (requests_.empty() && may_serve(channel)) [[likely]]
            return serve(channel, frame);
        if (requests_.count(channel) == kMostRequests) return false;
        requests_.push(channel, frame);
        accounts_.request_waits();
        return true;
    }
    // Calls `serve(channel, frame)` for requests that have waited and find a place now.
    template <class Serve>
    unsigned serve_waiting(Serve&& serve) {
        unsigned count = 0;
        for (; !requests_.empty() && !budget_.over(); ++count) {
            const auto* const peer =
                requests_.next([this](const Channel& each) { return may_serve(each); });
            if (peer == nullptr) break;
            Channel& channel = *peer->channel;
            accounts_.requests_taken(1);
            const Frame frame = requests_.pop(channel);
            if (!channel.failed && !serve(channel, frame))
                engine_.fail(channel, Status::kProtocol, "a long put or get is invalid");
        }
        return count;
    }
    // A transfer that a peer asks for: of memory whose key has been checked.
    T& begin_service(Channel& channel, RegionUse* use, const Frame& frame) {
        T& transfer = take(channel, {});
        accounts_.begin_service(transfer, use, frame.address, frame.length);
        ++served(channel);
        return transfer;
    }
    // Calls `begin(transfer)` for the transfers of users whose channels have come up.
    template <class Begin>
    unsigned begin_connected(Begin&& begin) {
        return unconnected_.move_firsts([&](T* transfer) {
            if (!transfer->channel->up()) return false;
            unconnected_.remove(*transfer->channel, transfer);
            begin(*transfer);
            return true;
        });
    }
    // Gives back all that the transfer has, and then calls `last(status)`, before the user is told.
    template <class Last>
    void end_with(T& transfer, Status status, Last&& last) {
        accounts_.stopped(running_.remove(transfer));
        const bool awaited = transfer.awaited();
        void* const cookie = transfer.waiter.cookie;
        Channel& channel = *transfer.channel;
        served(channel) -= !transfer.asked_here;
        accounts_.end(transfer);
        table_.put_back(transfer);
        last();
        accounts_.complete(awaited, cookie, channel, status);
    }
    // Calls `end(transfer)` for the transfers of a channel that is over; null: all channels are.
    template <class End>
    void end_all(Channel* channel, End&& end) {
        if (channel != nullptr) accounts_.requests_taken(requests_.forget(*channel));
        table_.for_each([&](T& transfer) {
            if (channel == nullptr || transfer.channel == channel) end(transfer);
        });
    }

    TransferTable<T> table_;
    PeerTurns<Frame> requests_;
    PeerTurns<T*> unconnected_;  // of users whose channels are not up yet
    Turns<T> running_{budget_};

  private:
    static constexpr uint32_t kMostRequests = 1 << 16;  // of one peer: it has as many numbers

    static uint32_t& served(Channel& channel) { return transfers_on(channel).served[T::kSends]; }
    bool may_serve(const Channel& channel) const {
        return table_.serves(transfers_on(channel).served[T::kSends]);
    }
};

}  // namespace tern
