// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tern/base/tunables.h"
#include "tern/engine/channel.h"
#include "tern/engine/notify_requests.h"
#include "tern/engine/parts.h"
#include "tern/engine/watch.h"

namespace tern {

class PollBudget;
class PolledBlocks;

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
