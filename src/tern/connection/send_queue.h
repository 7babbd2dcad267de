// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/assert.h"

namespace tern {

// Decides when frames in a send queue may wait for each other (Batches): once a number of work
// requests is certainly under way. Nobody knows whether unsignaled work requests are under way, so
// some frames are signaled, the marks: while the completion of a mark is still to come, all work
// requests from the mark on are under way. Numbers are those of SendQueue, modulo 2^32; a mark is
// the number after its frame's.
//
// If a process sends to many peers before it polls, the work requests of a due frame are mostly
// complete. It looks in vain, and each mark costs a completion. So marks are twice as far from each
// other after each such look, and half as far after a mark that was complete without one. Pure.
class BatchMarks {
  public:
    void open(uint32_t first) { seen_ = mark_ = last_ = stop_ = first; }
    // 0: frames may always wait, for tests.
    void enable(uint32_t after, uint32_t most) {
        enabled_ = true;
        after_ = least_ = after;
        most_ = std::max(after, most);
        see(seen_);
    }
    // A look at what is complete has shown that the next frame, which was due, is not, because the
    // process sends to others; or it has not.
    void looked(bool in_vain) {
        after_ = in_vain ? std::min(2 * after_, most_) : least_;
        see(seen_);
    }
    // In a burst, further frames may wait behind the last mark alone, until a poll has seen it
    // complete.
    void hurry() {
        after_ = std::min(after_, 1U);
        see(seen_);
    }
    bool enabled() const { return enabled_; }

    // Whether the next frame, of this number, may wait; and whether it is to be a mark, so that
    // later ones may.
    bool due(uint32_t next) const {
        return enabled_ && (after_ == 0 || (awaits() && next - mark_ + 1 >= after_));
    }
    bool mark_due(uint32_t next) const { return enabled_ && !awaits() && next - seen_ >= after_; }
    // The last frame is one.
    void mark(uint32_t next) {
        last_ = next;
        if (!awaits()) mark_ = next;
        see(seen_);
    }
    // All before this number are complete, as far as somebody has seen.
    void see(uint32_t completed) {
        if (static_cast<int32_t>(completed - seen_) > 0) seen_ = completed;
        if (static_cast<int32_t>(seen_ - mark_) >= 0) mark_ = last_;
        stop_ = (awaits() ? mark_ - 1 : seen_) + after_;
    }
    // A poll of the process has seen that all before this number are complete.
    void polled(uint32_t completed) {
        const bool awaited = awaits();
        see(completed);
        if (!awaited || awaits()) return;
        after_ = std::max(after_ / 2, least_);
        see(seen_);
    }
    // Frames before this number need ask nothing of the above. `stop`: another such number.
    uint32_t first_stop(uint32_t stop) const {
        return enabled_ && static_cast<int32_t>(stop_ - stop) < 0 ? stop_ : stop;
    }

  private:
    bool awaits() const { return static_cast<int32_t>(mark_ - seen_) > 0; }

    bool enabled_ = false;
    uint32_t after_ = 0;
    uint32_t least_ = 0, most_ = 0;  // of after_
    uint32_t seen_ = 0;
    uint32_t mark_ = 0;  // the first one that has not been seen, or a later one
    uint32_t last_ = 0;
    uint32_t stop_ = 0;
};

// The send queues of connections. One has many places while all together have few; then the others
// have fewer, as most peers of a large job are silent. Pure.
struct SendQueues {
    uint32_t long_places;
    uint32_t later_places;
    uint32_t long_queues;  // so many

    // Long queues that may still be made, if all queues have `places` places.
    uint32_t long_queues_left(uint32_t places) const {
        return long_queues - std::min(places / long_places, long_queues);
    }
    // Places of the next connection's queue.
    uint32_t places_of_next(uint32_t places) const {
        return long_queues_left(places) != 0 ? long_places : later_places;
    }
};

// Waits for operations to end, for example all work requests posted so far.
struct Waiter {
    void* cookie = nullptr;      // to be reported; null: no report is wanted
    const void* user = nullptr;  // user of the connection, who may leave earlier; null: none
};

// Accounts for the send queue of one reliable connection. Work requests are numbered modulo 2^32;
// the completion of number n completes all up to n. Data path, except the waiters.
class SendQueue {
  public:
    // What is to be done when work request `number` completes.
    struct Record {
        uint32_t number = 0;
        void* buffer = nullptr;  // send pool buffer to give back
        void* cookie = nullptr;  // to be reported; see CookieKind
    };

    static constexpr uint32_t kAllPlaces = UINT32_MAX;
    // The part of this object that an unsignaled send needs: the first counts.
    static constexpr size_t kHotBytes = 4 * sizeof(uint32_t);

    // `first`: the number of the first work request.
    void open(uint32_t depth, uint32_t first = 0) {
        depth_ = depth;
        unsignaled_ = depth / 4;
        posted_ = completed_ = signaled_ = users_ = first_record_ = last_record_ = first;
        marks_.open(first);
        // The place of a record is its index modulo `places`, which must divide 2^32.
        const uint32_t places = std::bit_ceil(depth);
        mask_ = places - 1;
        records_ = std::make_unique<Record[]>(places);
        set_stop();
    }
    // Keeps places for control frames: data is refused while no more are free. kAllPlaces, as at
    // first: all data is refused.
    void reserve(uint32_t places) {
        reserved_ = places;
        set_stop();
    }
    uint32_t reserved() const { return reserved_; }
    // Whether `count` data may be posted.
    bool takes_data(uint32_t count = 1) const {
        return room() > reserved_ && room() - reserved_ >= count;
    }
    // Whether `count` data may be posted unsignaled. By one compare, for most sends.
    bool takes_unsignaled(int32_t count = 1) const {
        return static_cast<int32_t>(stop_ - posted_) >= count;
    }

    // Whether a frame may be posted unsignaled: false also if it may have to wait, or to be a mark.
    bool takes_frames() const { return static_cast<int32_t>(frame_stop_ - posted_) >= 1; }
    const BatchMarks& marks() const { return marks_; }
    template <class Change>
    void change_marks(Change&& change) {
        change(marks_);
        set_stop();
    }
    // Whether the last work request counts as posted, but is held back. Until it has been posted,
    // takes_unsignaled() and takes_frames() are false.
    bool held() const { return held_; }
    void hold(bool held) {
        held_ = held;
        unsignaled_ = held ? 0 : depth_ / 4;
        set_stop();
    }

    uint32_t depth() const { return depth_; }
    // Whether the queue has places at all.
    bool open() const { return depth_ != 0; }
    uint32_t room() const { return depth_ - (posted_ - completed_); }
    bool idle() const { return posted_ == completed_; }
    // No work request of a user is outstanding; control frames may be.
    bool users_idle() const { return idle() || static_cast<int32_t>(completed_ - users_) >= 0; }
    uint32_t outstanding() const { return posted_ - completed_; }
    // The number that the next work request gets.
    uint32_t next() const { return posted_; }

    // Whether the next work request must be signaled so that room comes back in time.
    bool signal_due() const { return posted_ - signaled_ >= depth_ / 4; }
    // Whether a completion reports, or has reported, everything posted.
    bool last_is_signaled() const { return signaled_ == posted_; }
    // Whether such a completion is still to come.
    bool reports() const { return !idle() && last_is_signaled(); }

    // The next work request has been posted. `users`: its loss is an error for a user.
    void posted(bool signaled, bool users) {
        TERN_ASSERT(room() != 0);
        ++posted_;
        if (users) users_ = posted_;
        if (!signaled) return;
        signaled_ = posted_;
        set_stop();
    }
    // The next `count` work requests have been posted, all unsignaled and of a user.
    void posted_unsignaled(uint32_t count) {
        TERN_ASSERT(room() >= count);
        users_ = posted_ += count;
    }
    // Sets what is to be done when the work request posted last completes.
    void record(void* buffer, void* cookie) {
        TERN_ASSERT(last_record_ - first_record_ <= mask_);
        records_[last_record_++ & mask_] = {posted_ - 1, buffer, cookie};
    }

    // Work request `number` and all before it are complete: take() returns their records.
    void complete(uint32_t number) {
        if (static_cast<int32_t>(number + 1 - completed_) <= 0) return;
        completed_ = number + 1;
        TERN_ASSERT(static_cast<int32_t>(posted_ - completed_) >= 0);
        set_stop();
    }
    bool take(Record& record) {
        if (first_record_ == last_record_) return false;
        record = records_[first_record_ & mask_];
        if (static_cast<int32_t>(completed_ - record.number) <= 0) return false;
        ++first_record_;
        return true;
    }

    // Work request `number` has failed, and so have all after it.
    void fail(uint32_t number) {
        if (!failed_from_) failed_from_ = number;
    }
    // A user's message was taken, and will not be posted.
    void lose() { lost_ = true; }
    // Whether it was, or a work request of a user is among the failed ones.
    bool users_lost() const {
        return lost_ || (failed_from_ && static_cast<int32_t>(users_ - *failed_from_) > 0);
    }
    bool failing() const { return failed_from_.has_value(); }

    // Whether all work requests before `number`, which is at most next(), are complete.
    bool done(uint32_t number) const { return static_cast<int32_t>(completed_ - number) >= 0; }

    // Whether work request `number` is under way: not known to be complete.
    bool under_way(uint32_t number) const { return number - completed_ < outstanding(); }

    // take_waiter() returns the waiter's cookie when all posted so far is complete.
    void wait(const Waiter& waiter) {
        if (end_waiter_ == waiters_.size()) [[unlikely]]
            grow_waiters();
        waiters_[end_waiter_++] = {posted_, waiter};
    }
    bool take_waiter(void*& cookie) {
        if (!has_waiters()) return false;
        const Until& first = waiters_[first_waiter_];
        if (static_cast<int32_t>(completed_ - first.number) < 0) return false;
        cookie = first.waiter.cookie;
        if (++first_waiter_ >= kMostTaken || !has_waiters()) forget_taken();
        return true;
    }
    // Removes one waiter of `user`. False: there is none.
    bool drop_waiter(const void* user, void*& cookie) {
        forget_taken();
        const auto end = waiters_.begin() + end_waiter_;
        const auto found = std::find_if(
            waiters_.begin(), end, [&](const Until& each) { return each.waiter.user == user; });
        if (found == end) return false;
        cookie = found->waiter.cookie;
        std::copy(found + 1, end, found);
        --end_waiter_;
        return true;
    }
    // Whether a record has a cookie for which is(cookie) is true.
    template <class Is>
    bool any_cookie(Is&& is) const {
        for (uint32_t at = first_record_; at != last_record_; ++at)
            if (void* cookie = records_[at & mask_].cookie; cookie != nullptr && is(cookie))
                return true;
        return false;
    }
    bool has_waiters() const { return first_waiter_ != end_waiter_; }

  private:
    struct Until {
        uint32_t number;
        Waiter waiter;
    };

    static constexpr uint32_t kMostTaken = 64;

    void forget_taken() {
        if (has_waiters()) [[unlikely]]
            std::copy(waiters_.begin() + first_waiter_, waiters_.begin() + end_waiter_,
                      waiters_.begin());
        end_waiter_ -= first_waiter_;
        first_waiter_ = 0;
    }
    // Out of line, so that wait() is short.
    [[gnu::noinline, gnu::cold]] void grow_waiters() {
        waiters_.resize(std::max<size_t>(8, 2 * waiters_.size()));
    }

    // An unsignaled work request changes neither how far it is to the next signaled one nor which
    // places are kept, so stop_ stays where it is.
    void set_stop() {
        const uint32_t unsignaled = posted_ - signaled_;
        const uint32_t to_signal = unsignaled_ - std::min(unsignaled, unsignaled_);
        const uint32_t to_full = room() - std::min(reserved_, room());
        stop_ = posted_ + std::min(to_signal, to_full);
        frame_stop_ = marks_.first_stop(stop_);
    }

    uint32_t posted_ = 0;
    uint32_t frame_stop_ = 0;  // the number before which takes_frames(), and takes_unsignaled()
    uint32_t stop_ = 0;
    uint32_t users_ = 0;  // one after the last number of a user
    uint32_t completed_ = 0;
    BatchMarks marks_;
    bool held_ = false;
    // Most work requests without a signaled one; 0 while one is held back.
    uint32_t unsignaled_ = 0;
    uint32_t signaled_ = 0;  // one after the last signaled number
    uint32_t depth_ = 0;
    uint32_t reserved_ = kAllPlaces;
    uint32_t mask_ = 0;
    std::optional<uint32_t> failed_from_;
    bool lost_ = false;
    uint32_t first_record_ = 0;
    uint32_t last_record_ = 0;
    std::unique_ptr<Record[]> records_;
    // In order. Those before the first are taken; those from the end on are unused.
    std::vector<Until> waiters_;
    uint32_t first_waiter_ = 0;
    uint32_t end_waiter_ = 0;
};

}  // namespace tern
