// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tern {

// Changes of memory that hooks have announced, and that may be under way. Nothing reports when such
// a change has happened. So each is kept until no pin depends on it, or for a second.
//
// add() may be called from anywhere, even from within another call here: it takes no lock, does not
// wait and allocates nothing. Times are in nanoseconds, of any clock that does not run backwards.
//
// Each place is a small state machine:
//
//   kFree        add() takes it                                        kTaken
//   kTaken       add() has written it                                  kUnexamined
//   kUnexamined  examine(): a pin depends on it                        kExamined
//   kUnexamined, kExamined   no pin does, its time is over, clear()    kFree
class AnnouncedChanges {
  public:
    static constexpr size_t kPlaces = 32;
    // ns. Longer than a thread can be kept from making the change that it has announced.
    static constexpr int64_t kChange = 1'000'000'000;

    enum class Kept : uint8_t { kNone, kExamined, kUnexamined };

    // A thread that acts after an announced change sees the change here, unless it is not kept any
    // more. A thread that sees that it is not kept also sees what the caller of examine() had done
    // before.
    Kept kept() const {
        const uint64_t counts = counts_.load(std::memory_order_acquire);
        if (counts >= kOneUnexamined) return Kept::kUnexamined;
        return counts == 0 && rest_until_.load(std::memory_order_acquire) == 0 ? Kept::kNone
                                                                               : Kept::kExamined;
    }

    // For any thread. If there is no place, only the time of the latest such change is kept.
    void add(uint64_t start, uint64_t end, int64_t now) {
        for (const bool used : {false, true})
            for (Place& place : places_)
                if (add_at(place, used, start, end, now)) return;
        int64_t until = rest_until_.load(std::memory_order_relaxed);
        while (until < now + kChange && !rest_until_.compare_exchange_weak(
                                            until, now + kChange, std::memory_order_acq_rel)) {
        }
    }

    // Forgets the changes of ranges on which nothing depends: not `matters(start, end)`. One thread
    // at a time; add() may be called meanwhile, even by `matters`, and so may expire() and clear().
    template <class Matters>
    void examine(int64_t now, Matters&& matters) {
        for (Place& place : places_) {
            uint64_t state = place.state.load(std::memory_order_acquire);
            if (!is_kept(state)) continue;
            const uint64_t start = place.start.load(std::memory_order_relaxed);
            const uint64_t end = place.end.load(std::memory_order_relaxed);
            if (place.until.load(std::memory_order_relaxed) < now || !matters(start, end)) {
                forget(place, state);
            } else if (kind(state) == kUnexamined &&
                       place.state.compare_exchange_strong(state, with(state, kExamined),
                                                           std::memory_order_acq_rel)) {
                counts_.fetch_sub(kOneUnexamined, std::memory_order_acq_rel);
            }
        }
    }

    // Forgets the changes whose time is over. For any thread.
    void expire(int64_t now) {
        for (Place& place : places_) {
            const uint64_t state = place.state.load(std::memory_order_acquire);
            if (is_kept(state) && place.until.load(std::memory_order_relaxed) < now)
                forget(place, state);
        }
        if (int64_t until = rest_until_.load(std::memory_order_relaxed); until != 0 && until < now)
            rest_until_.compare_exchange_strong(until, 0, std::memory_order_relaxed);
    }

    // Forgets all changes. For any thread.
    void clear() {
        if (kept() == Kept::kNone) return;
        for (Place& place : places_) {
            const uint64_t state = place.state.load(std::memory_order_acquire);
            if (is_kept(state)) forget(place, state);
        }
        rest_until_.store(0, std::memory_order_relaxed);
    }

  private:
    // The state of a place is in the low bits. The other bits are a number that is never used again
    // for this place: a thread that has read one change cannot forget the next one by mistake.
    enum Kind : uint64_t { kFree, kTaken, kUnexamined, kExamined };
    static constexpr uint64_t kKinds = 4;
    static constexpr uint64_t kOne = 1;
    static constexpr uint64_t kOneUnexamined = uint64_t{1} << 32;

    struct Place {
        std::atomic<uint64_t> state{kFree};
        std::atomic<uint64_t> start{0};
        std::atomic<uint64_t> end{0};
        std::atomic<int64_t> until{0};
    };

    static uint64_t kind(uint64_t state) { return state % kKinds; }
    static uint64_t with(uint64_t state, Kind kind) { return state - state % kKinds + kind; }
    static bool is_kept(uint64_t state) { return kind(state) >= kUnexamined; }
    static uint64_t counted(uint64_t state) {
        return kind(state) == kUnexamined ? kOne + kOneUnexamined : kOne;
    }

    // `used`: also takes a place whose change has been kept for long enough.
    bool add_at(Place& place, bool used, uint64_t start, uint64_t end, int64_t now) {
        uint64_t state = place.state.load(std::memory_order_acquire);
        if (used && is_kept(state) && place.until.load(std::memory_order_relaxed) < now &&
            forget(place, state))
            state = with(state, kFree);
        const uint64_t taken = with(state + kKinds, kTaken);
        if (kind(state) != kFree ||
            !place.state.compare_exchange_strong(state, taken, std::memory_order_acq_rel))
            return false;
        place.start.store(start, std::memory_order_relaxed);
        place.end.store(end, std::memory_order_relaxed);
        place.until.store(now + kChange, std::memory_order_relaxed);
        // Counted first, so that the counts are never below zero.
        counts_.fetch_add(kOne + kOneUnexamined, std::memory_order_acq_rel);
        place.state.store(with(taken, kUnexamined), std::memory_order_release);
        return true;
    }

    // False: another thread has forgotten or examined it.
    bool forget(Place& place, uint64_t state) {
        const uint64_t count = counted(state);
        if (!place.state.compare_exchange_strong(state, with(state, kFree),
                                                 std::memory_order_acq_rel))
            return false;
        counts_.fetch_sub(count, std::memory_order_acq_rel);
        return true;
    }

    // Of the changes in places: all in the low half, the unexamined in the high half.
    std::atomic<uint64_t> counts_{0};
    std::atomic<int64_t> rest_until_{0};  // 0: every change has had a place
    std::array<Place, kPlaces> places_{};
};

}  // namespace tern
