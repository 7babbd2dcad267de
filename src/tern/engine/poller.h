// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tern/base/tunables.h"
#include "tern/connection/connector.h"
#include "tern/engine/arrival_round.h"
#include "tern/engine/batches.h"
#include "tern/engine/block_poller.h"
#include "tern/engine/channel_flush.h"
#include "tern/engine/completion_poller.h"
#include "tern/engine/device_health.h"
#include "tern/engine/idle_channels.h"
#include "tern/engine/owner.h"
#include "tern/engine/parts.h"
#include "tern/engine/poll_budget.h"
#include "tern/engine/poll_gap.h"
#include "tern/engine/sleep.h"

namespace tern {

// Decides what each poll looks at: the blocks always, the completion queue less often, packets,
// deadlines and the device's events seldom. For the sink see Engine. Data path.
class Poller {
  public:
    static constexpr unsigned kBurst = kArrivalBurst;  // frames, from a block at a time

    explicit Poller(const EngineParts& parts)
        : polled_(budget_),
          batches_(parts, budget_),
          blocks_(parts.blocks),
          completions_(parts.completions),
          control_(parts.control),
          connector_(parts.connector),
          health_(parts.health),
          flush_(parts.flush),
          idle_(parts.idle),
          sleep_(parts.sleep),
          owner_(parts.owner) {}

    // What a look at the blocks has found.
    enum class Look : uint8_t {
        kFrames,   // call poll()
        kNothing,  // and the rest is not due: this was the poll
        kRest,     // nothing, but the rest is due: call poll_rest(), or what stands for it
    };
    // Most polls find nothing.
    [[gnu::always_inline]] Look look() {
        after_gap_ = gap_.is_long();
        if (polled_.any_frame()) return Look::kFrames;
        if (!budget_.is_left() || after_gap_) return Look::kRest;
        budget_.count();
        budget_.spend_empty();
        return Look::kNothing;
    }
    // Handles completions and packets, and returns their number.
    template <MessageSink Sink>
    unsigned poll_rest(Sink& sink) {
        budget_.count();
        return rest(sink, 0);
    }

    // The usual poll_rest(), in steps. Whether nothing is due but the completion queue.
    [[gnu::always_inline]] bool only_queue_is_due() const {
        return !(budget_.has_reason() && (sleep_.is_asleep() || batches_.any())) &&
               !seldom_is_next() && !control_.any_due() && !completions_.late().waits();
    }
    // If so: returns 0 if the queue is empty, which ends the poll. Otherwise call handle() with the
    // result.
    [[gnu::always_inline]] int take(ibv_wc* completions) {
        budget_.count();
        const int count = completions_.take(completions);
        if (count == 0) [[likely]] {
            budget_.seldom_is_nearer();
            budget_.refill();
        }
        return count;
    }
    template <MessageSink Sink>
    [[gnu::always_inline]] unsigned handle(const ibv_wc* completions, int count, Sink& sink) {
        completions_.allow_preceding();
        const unsigned completed = completions_.handle(completions, count, sink);
        return finish(sink, completed, completed);
    }

    // Handles frames, completions and packets, and adds their number to `count`. True: it has only
    // looked at the blocks; the rest is not due now, and no transfer is under way.
    template <MessageSink Sink>
    bool poll(Sink& sink, unsigned& count);

    PollBudget& budget() { return budget_; }
    PolledBlocks& polled_blocks() { return polled_; }
    Batches& batches() { return batches_; }
    const Batches& batches() const { return batches_; }
    uint64_t polls() const { return budget_.polls(); }

  private:
    // Whether the next poll that looks at everything calls poll_seldom(). While packets are
    // expected each poll of a program that polls rarely does, but not each of one that waits for a
    // message.
    bool seldom_is_next() const {
        if (connector_.urgent()) [[unlikely]]
            return after_gap_ || budget_.urgent_is_next();
        return budget_.seldom_is_next();
    }

    template <MessageSink Sink>
    unsigned rest(Sink& sink, unsigned count);
    template <MessageSink Sink>
    unsigned finish(Sink& sink, unsigned count, unsigned completed);
    template <MessageSink Sink>
    unsigned poll_seldom(Sink& sink);
    // See ArrivalRound::take().
    template <MessageSink Sink>
    bool take_arrived(Sink& sink, unsigned& count);

    // What a poll that finds nothing touches comes first.
    PollGap gap_;
    bool after_gap_ = false;  // the program polls rarely, so poll() looks at everything
    PollBudget budget_;
    PolledBlocks polled_;
    Batches batches_;
    BlockPoller& blocks_;
    CompletionPoller& completions_;
    ControlFrames& control_;
    Connector& connector_;
    DeviceHealth& health_;
    ChannelFlush& flush_;
    IdleChannels& idle_;
    Sleep& sleep_;
    EngineOwner& owner_;
    unsigned busy_ = 0;          // polls that found something in a block
    unsigned deferred_ = 0;      // polls with due control frames and a likely answer
    unsigned seldom_polls_ = 0;  // calls of poll_seldom
    ArrivalRound round_;
    bool gathered_ = false;  // packets have been gathered, and the round for them is not over
};

template <MessageSink Sink>
[[gnu::noinline]] bool Poller::poll(Sink& sink, unsigned& count) {
    budget_.count();
    // BlockPoller looks again, with acquire. Handlers may change the list.
    for (size_t i = 0; i < polled_.size(); ++i)
        if (polled_.may_have_frame(i)) count += blocks_.poll(polled_.at(i), sink, kBurst);
    if (budget_.is_left() && !after_gap_) {
        budget_.spend(count == 0);
        return true;
    }
    count = rest(sink, count);
    return false;
}

// Returns `count` and the number of what it handles.
template <MessageSink Sink>
[[gnu::always_inline]] inline unsigned Poller::rest(Sink& sink, unsigned count) {
    bool asleep = false;
    if (budget_.has_reason()) [[unlikely]] {
        asleep = sleep_.is_asleep();
        if (asleep) sleep_.on_poll();
        if (batches_.any()) batches_.end_burst();
    }
    // Blocks that are never empty must not delay the completion queue for ever. Before peers have
    // seen that this side no longer sleeps, they may notify, so each poll looks there.
    if (count != 0 && !asleep && !after_gap_ && !control_.presses() && ++busy_ % kBusyPolls != 0)
        return count;
    completions_.allow_preceding();
    // Polling the completion queue costs more than looking at the blocks, but transfers need it.
    unsigned completed = completions_.poll(sink);
    // Notified frames are taken from memory, but each consumes a receive buffer, so as many of
    // their completions are taken.
    unsigned last = completed;
    while (last == CompletionPoller::kBurst && completed < count)
        [[unlikely]] completed += last = completions_.poll(sink);
    return finish(sink, count + completed, completed);
}

// What follows the completion queue, from which `completed` have been taken.
template <MessageSink Sink>
[[gnu::always_inline]] inline unsigned Poller::finish(Sink& sink, unsigned count,
                                                      unsigned completed) {
    // An answer is likely to what has come as a completion, or as a frame by itself, and would
    // carry the credit; but wait no longer than kDeferredPolls.
    const bool answers = completed != 0 || count == 1;
    if (control_.any_due() && (!answers || control_.presses() || ++deferred_ % kDeferredPolls == 0))
        [[unlikely]]
        control_.send_due();
    if (count == 0 && budget_.has_reason() && batches_.any()) [[unlikely]]
        batches_.on_empty_poll();
    const bool seldom = seldom_is_next();
    budget_.seldom_is_nearer();
    if (seldom) [[unlikely]] {
        count += poll_seldom(sink);
        gap_.restart();
    }
    budget_.refill();
    return count;
}

template <MessageSink Sink>
bool Poller::take_arrived(Sink& sink, unsigned& count) {
    struct Arrivals {
        Poller& poller;
        Sink& sink;

        unsigned poll_queue(bool& empty) {
            // A poll that returns completions taken earlier has not looked at the queue.
            const bool looks = !poller.completions_.late().waits();
            const unsigned taken = poller.completions_.poll(sink);
            empty = looks && taken < kBurst && !poller.completions_.late().waits();
            return taken;
        }
        unsigned queue_capacity() const { return poller.completions_.capacity(); }
        size_t blocks() const { return poller.polled_.size(); }
        unsigned poll_block(size_t i) {
            return poller.blocks_.poll(poller.polled_.at(i), sink, kBurst);
        }
        uint32_t& emptied(size_t i) { return poller.polled_.at(i).receiving.emptied; }
    };
    completions_.allow_preceding();
    return round_.take(Arrivals{*this, sink}, BlockPoller::kWholeBlock, count);
}

// Handles packets, deadlines and connections that are over. A packet or a deadline may end a
// connection whose last frames have arrived already, so these are taken first, in one round for all
// packets that have come.
template <MessageSink Sink>
unsigned Poller::poll_seldom(Sink& sink) {
    unsigned count = 0;
    unsigned packets = 0;
    const bool look = ++seldom_polls_ % kEventPolls == 0;
    if (look || !connector_.ended().retired().empty()) packets += health_.take_events();
    if (look) {
        flush_.check_unused(connector_.now());
        owner_.seldom();
    }
    completions_.repeated_arrivals().look();
    budget_.make_seldom_due();
    if (!gathered_) connector_.inbox().gather();
    gathered_ = !take_arrived(sink, count);
    if (gathered_) return count + packets;
    const unsigned handled = connector_.progress();
    packets += handled;
    idle_.look();
    // After none has come, the next look is soon enough.
    if (!connector_.inbox().holds() && (handled == 0 || !connector_.inbox().waits()))
        budget_.seldom_is_done();
    if (connector_.datagrams().failed()) [[unlikely]]
        health_.break_down("its completion queue for datagrams cannot be polled");
    count += packets + connector_.destroy_closed();
    for (void* user = nullptr; connector_.probes().take_unanswered(user); ++count)
        owner_.on_probe_timeout(user);
    return count;
}

}  // namespace tern
