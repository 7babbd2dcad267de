// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tern/base/tunables.h"
#include "tern/engine/channel.h"
#include "tern/engine/parts.h"
#include "tern/engine/watch.h"
#include "tern/engine/work_requests.h"

namespace tern {

class PollBudget;
class PolledBlocks;

// Asks the writers of blocks to notify this side of frames, by writes to their notify words
// (writer_words.h), and stops them again. Each request has a generation, which comes back in the
// immediate data: so a notification shows that the writer has read this request. Owns
// Channel::notifying. Control path.
class NotifyRequests {
  public:
    explicit NotifyRequests(WorkRequests& requests) : requests_(requests) {}

    // Asks the writer, unless it has been asked already.
    void begin(Channel& channel) {
        if (channel.notifying.generation != 0 || channel.notifying.always) return;
        if (generation_ == UINT16_MAX) generation_ = 0;
        (void)write(channel, ++generation_);
    }
    // Ends the request, if there is one. False: that is not possible now.
    bool end(Channel& channel) { return channel.notifying.generation == 0 || write(channel, 0); }
    // A notification has come.
    static void on_notification(Channel& channel, uint32_t immediate) {
        if (immediate == 0) channel.notifying.always = true;
        if (notify::generation(immediate) == channel.notifying.generation)
            channel.notifying.confirmed = true;
    }
    // Whether each further frame raises a notification.
    static bool is_certain(const Channel& channel) {
        return channel.notifying.confirmed || channel.notifying.always;
    }

    uint64_t written() const { return written_; }

  private:
    // Writes the peer's notify word. False: that is not possible now.
    bool write(Channel& channel, uint16_t generation);

    WorkRequests& requests_;
    uint16_t generation_ = 0;  // the last one; 0 only before the first
    uint64_t written_ = 0;
};

inline bool NotifyRequests::write(Channel& channel, uint16_t generation) {
    if (channel.receiving.words == 0 || channel.failed || !channel.up() ||
        channel.sends.room() == 0)
        return false;
    // The completion of a request would wake this side.
    if (!requests_.write_word(channel, notify::word(generation), channel.receiving.words,
                              channel.receiving.words_rkey, channel.notifying.last,
                              generation == 0 ? IBV_SEND_SIGNALED : 0))
        return false;
    channel.notifying.generation = generation;
    channel.notifying.confirmed = false;
    ++written_;
    return true;
}

// One descriptor for a sleeper to wait for: it is readable when one of others is, or at a deadline.
// Control path.
class WakeDescriptor {
  public:
    WakeDescriptor() = default;
    ~WakeDescriptor();
    WakeDescriptor(const WakeDescriptor&) = delete;
    WakeDescriptor& operator=(const WakeDescriptor&) = delete;

    // Makes the descriptor and adds `others`, except negative ones. False: `why` says why.
    bool open(std::span<const int> others, std::string& why);
    // -1 before open().
    int fd() const { return epoll_; }

    // In nanoseconds of the monotonic clock; UINT64_MAX: none.
    void set_deadline(uint64_t deadline);
    // True: the deadline has passed. It is then no longer set.
    bool take_deadline();

  private:
    int epoll_ = -1;
    int timer_ = -1;
    bool timer_is_set_ = false;
};

// Sleeping until an event. Control path, except is_asleep() and polls_memory().
//
// States:
//
//   awake   polls memory; peers do not notify
//   asleep  peers may notify of frames in their blocks, so each poll looks into the completion
//           queue; what peers may write without a notification is watched until they confirm
//
//   awake   arm()                                                                asleep
//   asleep  kAwakePolls polls without arm(), and peers asked to stop notifying   awake
class Sleep {
  public:
    explicit Sleep(const EngineParts& parts);
    ~Sleep() { (void)watch_.withdraw(); }

    // False on failure; errno says why.
    bool open() { return watch_.open(); }

    // A file descriptor that becomes readable on events after arm() has returned kOk; -1 on
    // failure, `why` says why.
    int event_fd(std::string& why);
    // kInProgress: call poll() until it returns 0, and try again; arm() succeeds in the end,
    // whatever the peers do. `also`: words of the layer above that a device may change without an
    // event. They are looked at, at growing intervals, and must stay in memory until the next
    // poll().
    Status arm(const std::vector<Watched>& also = {});
    // A descriptor of the layer above, which reads and closes it, that makes event_fd() readable
    // too. Call this before event_fd().
    void watch(int fd) { other_fd_ = fd; }
    // The completion channel that wakes the sleeper, for completion queues of the layer above.
    ibv_comp_channel* events() const { return events_; }

    // For a background thread: calls look() when the descriptor is readable, to find writes into
    // memory that raise no event. Call use_watch_thread() before event_fd(); without such a thread
    // the sleeper is woken to look.
    int watch_fd() const { return watch_.look_fd(); }
    void use_watch_thread() { watch_.use_thread(); }
    void look() { watch_.look(); }

    bool is_asleep() const { return asleep_; }
    // Whether to poll memory for the peer's writes.
    bool polls_memory(const Channel& channel) const {
        return !asleep_ && channel.receiving.polls_memory;
    }
    // Called at each poll while asleep.
    void on_poll() {
        (void)watch_.withdraw();
        if (++polls_ >= kAwakePolls) wake();
    }
    // A block has been offered.
    void on_offer(Channel& channel);
    // A block is about to be freed.
    void on_drop() { (void)watch_.withdraw(); }

    uint64_t sleeps() const { return sleeps_; }
    uint64_t notify_requests() const { return notify_requests_.written(); }

  private:
    void wake();
    bool nothing_is_left();
    bool look_at_blocks();
    bool drain_events();
    void set_asleep(bool asleep);

    ibv_cq* cq_;
    ibv_comp_channel* events_;  // of that completion queue
    ControlFrames& control_;
    PeerBlocks& peer_blocks_;
    PolledBlocks& polled_;
    PollBudget& budget_;
    CompletionPoller& completions_;
    Batches& batches_;
    Connector& connector_;
    DeviceHealth& health_;
    ChannelFlush& flush_;
    NotifyRequests notify_requests_;
    Watch watch_;
    std::vector<Watched> watched_;  // words that watch_ looks at
    WakeDescriptor wake_;
    int other_fd_ = -1;  // of watch()
    bool asleep_ = false;
    unsigned polls_ = 0;  // since arm()
    uint64_t sleeps_ = 0;
};

}  // namespace tern
