// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <vector>

#include "common/make_room.h"
#include "tern/base/tunables.h"
#include "tern/engine/channel.h"
#include "tern/engine/poll_budget.h"

namespace tern {

class CompletionPoller;
class PeerBlocks;
struct EngineParts;
class SendPool;
class WorkRequests;

// Short messages of a stream, held back while many work requests are under way, so that the next
// one carries all of them. And those of a burst to several peers, each of which may have few under
// way: the process has posted a mark and `after` messages to the peer since it polled last, so that
// posting is what takes its time.
//
// A batch counts as posted from its begin: it has its number and place in the send queue, its
// buffer, its bytes of the block or of the allowance, and its credit. So what it has taken can
// always be sent, and whatever follows it is accounted for as if it had been. Before anything else
// is posted on its connection, it goes.
//
//   none  a frame finds so many work requests under way, also     open
//         after a look at the completion queue; or a burst
//   open  it is full; another operation follows; one of these     none
//         work requests is complete; two polls in a row find
//         nothing; the poll behind a burst; the process goes
//         to sleep; 50 us have passed
//
// The time passes in UCX's asynchronous thread, by on_timer(): the process may compute. So while a
// batch is open, that thread and the interface's own use it under one lock. The fields of other
// connections, and of those without an open batch, have no lock. Without such a thread nothing is
// held back.
//
// Channel::sends is held() from the begin until the interface's thread has seen the end. Data path.
class Batches {
  public:
    Batches(const EngineParts& parts, PollBudget& budget);
    ~Batches();
    Batches(const Batches&) = delete;
    Batches& operator=(const Batches&) = delete;

    // Somebody calls on_timer() when the result is readable. From now on, connections that come up
    // hold messages back as EngineSettings::batch has it. Negative: they do not.
    int enable();
    // Nobody does so any more: posts everything.
    void disable();
    // A connection has come up. make_room(): there may be this many channels.
    void begin(Channel& channel);
    void make_room(size_t channels);

    // Whether messages of this length may wait on a channel, so that its work requests must be
    // signaled often enough: at least two of them fit.
    bool suits(const Channel& channel, uint32_t length) const {
        const SendPath& path = channel.sending.path;
        const uint32_t most = path.hot() ? path.most_batch(most_) : most_;
        return channel.sends.marks().enabled() && length <= kLongestInBatch &&
               2 * BatchEntry::space(length) + BlockWriter::kOverhead <= most;
    }
    // Takes a message that suits(), if it may wait. False: it is to be sent as usual.
    // `fill(std::byte* to)` writes it.
    template <class Fill>
    bool take(Channel& channel, uint32_t id, uint32_t length, Fill&& fill) {
        if (channel.sends.held()) {
            if (append(channel, id, length, fill)) return true;
            push(channel);
        }
        see_completed(channel);
        return is_due(channel) && open(channel, length) && append(channel, id, length, fill);
    }
    // Adds a message to the batch if there is one that has room and that no other thread uses. It
    // makes no call, so that the caller need not keep its registers.
    template <class Fill>
    [[gnu::always_inline]] bool try_append(Channel& channel, uint32_t id, uint32_t length,
                                           Fill&& fill) {
        if (taken_.exchange(true, std::memory_order_acquire)) [[unlikely]]
            return false;
        const bool fits = add(channel, id, length, fill);
        taken_.store(false, std::memory_order_release);
        return fits;
    }

    // Posts the batch of a channel that is held(). Main thread.
    void push(Channel& channel);
    void push_all();
    // The device will complete nothing any more.
    void drop(Channel& channel);
    // Whether the next frame is to be a mark.
    static bool mark_due(const Channel& channel) {
        return channel.sends.marks().mark_due(channel.sends.next());
    }
    static bool is_due(const Channel& channel) {
        return channel.sends.marks().due(channel.sends.next());
    }
    // The last frame, which went alone, is a mark.
    void set_mark(Channel& channel) {
        mark(channel);
        channel.batch.polls = budget_.polls();
    }
    bool any() const { return held_ != 0; }
    // A poll has found nothing. The second one in a row, between which no message was taken, shows
    // that the process waits: posts all batches.
    void on_empty_poll() {
        if (messages_ == messages_polled_) return push_all();
        messages_polled_ = messages_;
    }
    // A poll begins: if a burst is over by that, posts all batches.
    void end_burst() {
        if (burst_at_ + 1 == budget_.polls()) push_all();
    }
    // Posts all batches. Any thread.
    void on_timer();

    uint64_t batches() const { return opened_; }
    uint64_t in_blocks() const { return in_blocks_; }  // of these
    uint64_t messages() const { return messages_; }

  private:
    template <class Fill>
    bool append(Channel& channel, uint32_t id, uint32_t length, Fill&& fill) {
        const Lock lock(taken_);
        return add(channel, id, length, fill);
    }
    // Under the lock. False: there is no batch with room.
    template <class Fill>
    [[gnu::always_inline]] bool add(Channel& channel, uint32_t id, uint32_t length, Fill&& fill);
    static void mark(Channel& channel) {
        channel.sends.change_marks([&](BatchMarks& marks) { marks.mark(channel.sends.next()); });
    }
    static void see_completed(Channel& channel) {
        const uint32_t first = channel.sends.next() - channel.sends.outstanding();
        channel.sends.change_marks([=](BatchMarks& marks) { marks.polled(first); });
    }

    // The process has not polled since it sent the last mark that went alone.
    bool unpolled(const Channel& channel) const { return channel.batch.polls == budget_.polls(); }

    // Held for as long as it takes to copy a message, or to post.
    class Lock {
      public:
        explicit Lock(std::atomic<bool>& taken) : taken_(taken) {
            while (taken_.exchange(true, std::memory_order_acquire)) [[unlikely]] wait(taken_);
        }
        ~Lock() { taken_.store(false, std::memory_order_release); }
        Lock(const Lock&) = delete;
        Lock& operator=(const Lock&) = delete;

      private:
        [[gnu::cold, gnu::noinline]] static void wait(const std::atomic<bool>& taken);
        std::atomic<bool>& taken_;
    };

    bool open(Channel& channel, uint32_t length);
    bool plan(Channel& channel, uint32_t space);
    // Under the lock.
    void post(Channel& channel);
    void remove(Channel& channel);
    void release(Channel& channel);
    void set_timer(bool runs);

    // First what add() needs.
    alignas(64) std::atomic<bool> taken_ = false;
    uint64_t messages_ = 0;
    uint64_t opened_ = 0;
    uint64_t in_blocks_ = 0;
    uint64_t opened_before_ = 0;  // the last on_timer()
    bool ticks_ = false;          // the timer runs
    uint32_t held_ = 0;           // channels that are held()
    uint64_t messages_polled_ = 0;
    uint64_t burst_at_ = UINT64_MAX;  // polls when the last batch of a burst began
    bool enabled_ = false;
    uint32_t after_;
    int timer_ = -1;
    std::vector<Channel*> open_;
    uint32_t most_;  // bytes of payload
    SendPool& pool_;
    WorkRequests& requests_;
    PeerBlocks& blocks_;
    CompletionPoller& completions_;
    PollBudget& budget_;
};

template <class Fill>
[[gnu::always_inline]] inline bool Batches::add(Channel& channel, uint32_t id, uint32_t length,
                                                Fill&& fill) {
    Channel::Batch& batch = channel.batch;
    std::byte* const to = batch.next;
    std::byte* const next = to + BatchEntry::space(length);
    if (next > batch.limit) [[unlikely]]
        return false;
    const Word entry = BatchEntry::make(id, length);
    memset(next - sizeof(Word), 0, sizeof(Word));  // the padding
    fill(to + BatchEntry::kBytes);
    memcpy(to, &entry, sizeof(entry));
    batch.next = next;
    ++messages_;
    return true;
}

}  // namespace tern
