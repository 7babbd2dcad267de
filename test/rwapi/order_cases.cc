// SPDX-License-Identifier: BSD-3-Clause

// The table of order of rwapi.h: every process issues two things to the next one, which sees the
// second, and must then have the first.

#include <cstddef>

#include "job.h"

namespace job {
namespace {

enum Kind { kPut, kList, kSignal, kSlot, kPolled, kSmall, kGet, kAtomic, kKinds };
enum Link { kNothing, kInOrder, kFence, kFlush, kWait };

constexpr Link kTable[6][5] = {
    // put, list   signal, slot  polled word  small message  get, atomic
    {kFence, kInOrder, kFence, kInOrder, kFlush},        // put, list
    {kNothing, kInOrder, kNothing, kInOrder, kNothing},  // signal, slot
    {kFence, kInOrder, kFence, kInOrder, kFlush},        // polled word
    {kNothing, kInOrder, kNothing, kInOrder, kNothing},  // small message
    {kWait, kWait, kWait, kWait, kNothing},              // get
    {kFlush, kFlush, kFlush, kFlush, kNothing},          // atomic operation
};

Link link_of(Kind first, Kind second) {
    constexpr int kRows[kKinds] = {0, 0, 1, 1, 2, 3, 4, 5},
                  kColumns[kKinds] = {0, 0, 1, 1, 2, 3, 4, 4};
    return kTable[kRows[first]][kColumns[second]];
}

constexpr size_t kLongest = 100'000;

// What each of the two things changes.
struct Side {
    uint64_t signal, polled, sum, put;
    alignas(8) std::byte data[kLongest];
};
struct Both {
    Side first, second;
    uint64_t read;  // by gets
};

class Order {
  public:
    void run() {
        Both* const mine = reinterpret_cast<Both*>(memory_.data());
        rwapi_net own;
        plain_ = share(mine, sizeof *mine, RWAPI_ALL, &own)[at(next_)];
        polled_ = share(mine, sizeof *mine, RWAPI_ALL | RWAPI_POLLED, &own)[at(next_)];
        uint64_t none = 0;
        rwapi_id id = 0;
        const int error = rwapi_fetch_add(nullptr, plain_, offsetof(Both, read), 0, &none, &id);
        if (error == 0) wait(id);
        for (const size_t length : {8, 6000, int{kLongest}}) {
            length_ = length;
            for (int first = 0; first < kKinds; ++first) {
                for (int second = 0; second < kKinds; ++second) {
                    if (error != 0 && (first == kAtomic || second == kAtomic)) continue;
                    if (link_of(Kind(first), Kind(second)) != kNothing)
                        round(Kind(first), Kind(second), *mine);
                }
            }
        }
    }

  private:
    void round(Kind first, Kind second, Both& mine) {
        ++round_;
        if (first == kAtomic) ++sums_;
        mine.read = round_;
        CHECK_OK(rwapi_barrier(nullptr));  // sends no small messages
        rwapi_id id = 0;
        fill(source_.data(), length_, round_);
        begin(first, offsetof(Both, first), 0, &id);
        const Link link = link_of(first, second);
        if (link == kFence) CHECK_OK(rwapi_fence(nullptr, next_));
        if (link == kFlush) flush(next_);
        if (link == kWait) wait(id);
        if (second == kGet || second == kAtomic) {
            check_read(first, second);
        } else {
            rwapi_id later = 0;
            begin(second, offsetof(Both, second), 1, &later);
            see(second, mine.second);
            check(first, mine.first);
        }
        mine.read = 0;
        wait(id);
        flush(next_);
        if (first == kGet) CHECK_EQ(read_, round_);
    }

    // `which`: 0 is the first thing, 1 the second.
    void begin(Kind kind, size_t side, uint32_t which, rwapi_id* id) {
        const std::byte* const from = source_.data();
        const size_t data = side + offsetof(Side, data);
        const rwapi_element parts[] = {
            {plain_, data, from, length_ / 2},
            {plain_, data + length_ / 2, from + length_ / 2, length_ - length_ / 2},
            {plain_, side + offsetof(Side, put), &round_, 8}};
        switch (kind) {
            case kPut:
                if (which == 0)
                    return CHECK_OK(rwapi_put(nullptr, plain_, data, from, length_, id));
                return CHECK_OK(
                    rwapi_put(nullptr, plain_, side + offsetof(Side, put), &round_, 8, id));
            case kList:
                return CHECK_OK(which == 0 ? rwapi_put_list(nullptr, parts, 2, id)
                                           : rwapi_put_list(nullptr, &parts[2], 1, id));
            case kSignal:
                return CHECK_OK(rwapi_put_signal(nullptr, plain_, data, nullptr, 0,
                                                 side + offsetof(Side, signal), round_,
                                                 RWAPI_SIGNAL_SET, id));
            case kSlot:
                return CHECK_OK(
                    rwapi_put_notify(nullptr, plain_, data, nullptr, 0, which, round_, id));
            case kPolled:
                return CHECK_OK(rwapi_put_signal(nullptr, polled_, data, nullptr, 0,
                                                 side + offsetof(Side, polled), round_,
                                                 RWAPI_SIGNAL_SET, id));
            case kSmall:
                return send(next_, {kType + which, static_cast<uint32_t>(round_), 0});
            case kGet:
                return CHECK_OK(rwapi_get(nullptr, plain_, offsetof(Both, read), &read_, 8, id));
            default:
                return CHECK_OK(
                    rwapi_fetch_add(nullptr, plain_, side + offsetof(Side, sum), 1, nullptr, id));
        }
    }

    // Waits for the second thing of the process before this one.
    void see(Kind kind, const Side& side) {
        uint64_t value = 0;
        switch (kind) {
            case kSignal:
                return CHECK_OK(rwapi_signal_wait(nullptr, &side.signal, round_, kLimit));
            case kPolled:
                return CHECK_OK(rwapi_signal_wait(nullptr, &side.polled, round_, kLimit));
            case kSlot:
                CHECK_OK(rwapi_notify_wait(nullptr, 1, &value, kLimit));
                CHECK_EQ(value, round_);
                return CHECK_EQ(rwapi_notify_reset(nullptr, 1, nullptr), 1);
            case kSmall:
                return CHECK_EQ(receive(before_, kType + 1).number, round_);
            default:
                return CHECK_OK(rwapi_signal_wait(nullptr, &side.put, round_, kLimit));
        }
    }

    // The first thing is there, without a call that makes progress.
    void check(Kind kind, const Side& side) {
        uint64_t value = 0;
        int node = before_;
        Small message;
        switch (kind) {
            case kPut:
            case kList:
                return CHECK_EQ(matches(side.data, length_, round_), true);
            case kSignal:
                return CHECK_EQ(rwapi_signal_read(&side.signal), round_);
            case kSlot:
                CHECK_EQ(rwapi_notify_reset(nullptr, 0, &value), 1);
                return CHECK_EQ(value, round_);
            case kPolled:
                return CHECK_EQ(rwapi_signal_read(&side.polled), round_);
            case kSmall:
                CHECK(try_receive(kType, &node, &message));
                return CHECK_EQ(message.number, round_);
            case kAtomic:
                return CHECK_EQ(rwapi_signal_read(&side.sum), sums_);
            default:
                return;  // the process before this one checks what it has read
        }
    }

    // Gets the first thing, a put or a polled word, or reads its first word by an atomic operation.
    void check_read(Kind first, Kind second) {
        const bool word = first == kPolled;
        const size_t place =
            offsetof(Both, first) + (word ? offsetof(Side, polled) : offsetof(Side, data));
        const size_t length = word || second == kAtomic ? 8 : length_;
        std::vector<uint64_t> got(length / 8 + 1);
        rwapi_id id = 0;
        if (second == kGet)
            CHECK_OK(rwapi_get(nullptr, plain_, place, got.data(), length, &id));
        else
            CHECK_OK(rwapi_fetch_add(nullptr, plain_, place, 0, got.data(), &id));
        wait(id);
        if (word)
            CHECK_EQ(got[0], round_);
        else
            CHECK(matches(reinterpret_cast<std::byte*>(got.data()), length, round_));
    }

    static constexpr uint32_t kType = 0x0bde2;

    const int next_ = (rank() + 1) % size(), before_ = (rank() + size() - 1) % size();
    std::vector<uint64_t> memory_ = std::vector<uint64_t>((sizeof(Both) + 7) / 8);
    std::vector<std::byte> source_ = std::vector<std::byte>(kLongest);
    rwapi_net plain_{}, polled_{};
    size_t length_ = 0;
    uint64_t round_ = 0, sums_ = 0, read_ = 0;
};

void order() {
    Order().run();
}

}  // namespace

const std::vector<Case> order_cases = {{"order", order}};

}  // namespace job
