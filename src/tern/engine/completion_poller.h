// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <arpa/inet.h>

#include <algorithm>

#include "tern/base/trace.h"
#include "tern/base/tunables.h"
#include "tern/connection/connector.h"
#include "tern/engine/arrival_round.h"
#include "tern/engine/block_poller.h"
#include "tern/engine/control_frames.h"
#include "tern/engine/offered_blocks.h"
#include "tern/engine/owner.h"
#include "tern/engine/parts.h"
#include "tern/engine/poll_budget.h"
#include "tern/engine/receive_queue.h"
#include "tern/engine/send_pool.h"
#include "tern/engine/sleep.h"
#include "tern/engine/work_requests.h"
#include "tern/verbs/late_completion.h"

namespace tern {

// Takes completions: of sends, of cold frames, and of notified writes. For the sink see Engine.
// Data path.
class CompletionPoller {
  public:
    static constexpr unsigned kBurst = kArrivalBurst;  // completions taken at a time

    explicit CompletionPoller(const EngineParts& parts);

    // The frames of blocks that may be taken, from now on, because a cold frame follows them.
    void allow_preceding() { preceding_ = kPrecedingFrames; }
    // Returns the number of completions handled; if it stops early, also of the frames that
    // precede.
    template <MessageSink Sink>
    [[gnu::always_inline]] unsigned poll(Sink& sink) {
        ibv_wc completions[kBurst];
        const int count = take(completions);
        return count == 0 ? 0 : handle_apart(completions, count, sink);
    }
    // The two halves of poll(), because mostly there is no completion. take() returns how many it
    // has taken, at most kBurst; negative if the queue has failed.
    [[gnu::always_inline]] int take(ibv_wc* completions) {
        return late_.poll(cq_, kBurst, completions);
    }
    template <MessageSink Sink>
    unsigned handle(const ibv_wc* completions, int count, Sink& sink);

    // Handles the completion of a send.
    template <MessageSink Sink>
    void sent(const ibv_wc& completion, Sink& sink);
    // Handles the completion of a send on a channel that has failed, without taking what has come.
    template <OperationSink Sink>
    void flushed(Channel& channel, const ibv_wc& completion, Sink& sink);
    // Gives back buffers, and reports cookies and waiters of complete work requests.
    template <OperationSink Sink>
    void settle(Channel& channel, Status status, Sink& sink);

    // The channel of a queue pair; null if there is none. The peer of a connection that was
    // accepted in the background may have sent before adopt().
    Channel* receiver(uint32_t qp_num) {
        Connection* connection = connector_.table().find(qp_num);
        if (connection == nullptr) [[unlikely]]
            connection = connector_.find_accepted(qp_num);
        return static_cast<Channel*>(connection);
    }

    verbs::LateCompletion& late() { return late_; }
    // Takes completions off the queue, for the next poll to handle, and tells the send queues.
    // Whether the channel's frames may wait nevertheless (Batches::is_due), with none left in
    // the queue. `of_others`: there were completions of other channels, or too many to take more.
    bool still_waits(const Channel& channel, bool& of_others);
    // The most completions that can be in the queue.
    unsigned capacity() const { return static_cast<unsigned>(cq_->cqe); }
    // Peers may make `writes` more writes with immediate data to rings of this side (less if it is
    // negative). Each of them takes a receive. Control path.
    void expect_notifications(int32_t writes);
    uint64_t received() const { return received_; }
    uint64_t notifications() const { return notifications_; }
    RepeatedArrivals& repeated_arrivals() { return repeated_; }

  private:
    static constexpr char kNotNumbered[] = "the peer repeats a message that it has not numbered";

    // Whether `next` reports the same success.
    static bool reports_too(const ibv_wc& next, const ibv_wc& completion) {
        return work_request_id::tag(next.wr_id) == work_request_id::tag(completion.wr_id) &&
               next.status == IBV_WC_SUCCESS && completion.status == IBV_WC_SUCCESS;
    }
    template <MessageSink Sink>
    [[gnu::noinline]] unsigned handle_apart(const ibv_wc* completions, int count, Sink& sink) {
        return handle(completions, count, sink);
    }
    template <MessageSink Sink>
    bool received(const ibv_wc& completion, Sink& sink);
    template <MessageSink Sink>
    void notified(Channel& channel, uint32_t immediate, Sink& sink);
    // Whether a control frame is of transfers that have ended with the channel's users.
    static bool is_left(const Channel& channel, uint32_t id) {
        return channel.receiving.left && id < static_cast<uint32_t>(ControlId::kFirstTag);
    }
    // Whether a message has come that the peer repeats.
    static bool is_repeat(const ibv_wc& completion) {
        return completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM &&
               completion.status == IBV_WC_SUCCESS && repeat::is_repeat(ntohl(completion.imm_data));
    }
    template <MessageSink Sink>
    int take_repeats(const ibv_wc* completions, int count, Sink& sink);
    template <MessageSink Sink>
    int take_repeats(Channel& channel, const ibv_wc* completions, int count, Sink& sink);
    bool define_repeat(Channel& channel, const std::byte* payload, uint32_t length);
    template <MessageSink Sink>
    bool received_cold(Channel& channel, std::byte* frame, uint32_t length, Sink& sink);
    template <MessageSink Sink>
    bool take_preceding(Channel& channel, uint16_t sequence, Sink& sink, bool& all);
    template <MessageSink Sink>
    void deliver(Channel& channel, Word word, std::byte* payload, Sink& sink);
    template <MessageSink Sink>
    void deliver_long(Channel& channel, Word word, std::byte* payload, Sink& sink);
    template <MessageSink Sink>
    void on_failed_send(Channel& channel, const ibv_wc& completion, Sink& sink);
    void sent_last(Channel& channel);
    void fail(Channel& channel, const ibv_wc& completion);
    void on_failed_receive(const ibv_wc& completion);
    [[gnu::cold]] void lengthen();
    [[gnu::cold]] void on_failed_queue();
    [[gnu::cold]] void on_malformed(Channel& channel, const char* what, Word word,
                                    const std::byte* frame, uint32_t length);

    ibv_cq* cq_;
    verbs::LateCompletion late_;
    unsigned waiting_ = 0;    // completions since the queue was last seen empty
    unsigned preceding_ = 0;  // of kPrecedingFrames: how many this poll may still take
    uint32_t expected_ = 0;   // of expect_notifications()
    ReceiveQueue& receives_;
    SendPool& pool_;
    BlockPoller& blocks_;
    OfferedBlocks& offered_;
    ControlFrames& control_;
    WorkRequests& requests_;
    Connector& connector_;
    DeviceHealth& health_;
    RepeatedArrivals repeated_;
    uint64_t received_ = 0;       // cold frames
    uint64_t notifications_ = 0;  // of frames in blocks
};

template <MessageSink Sink>
[[gnu::always_inline]] inline unsigned CompletionPoller::handle(const ibv_wc* completions,
                                                                int count, Sink& sink) {
    const unsigned preceding = preceding_;
    for (int i = 0; i < count; ++i) {
        if (!work_request_id::is_receive(completions[i].wr_id)) {
            // A completion reports all work requests of its connection up to its own.
            if (i + 1 == count || !reports_too(completions[i + 1], completions[i]))
                sent(completions[i], sink);
            continue;
        }
        int taken;
        if (is_repeat(completions[i]))
            taken = take_repeats(completions + i, count - i, sink);
        else
            taken = received(completions[i], sink) ? 1 : 0;
        if (taken == 0) [[unlikely]] {
            late_.put_back(completions + i, count - i);
            return static_cast<unsigned>(i) + preceding - preceding_;
        }
        i += taken - 1;
    }
    waiting_ = count == int{kBurst} ? waiting_ + kBurst : 0;
    if (waiting_ > receives_.size() / 2) [[unlikely]]
        lengthen();
    if (count < 0) [[unlikely]]
        on_failed_queue();
    return count > 0 ? static_cast<unsigned>(count) : 0;
}

// False: the frame must wait for the next poll, and the completions after it with it.
template <MessageSink Sink>
bool CompletionPoller::received(const ibv_wc& completion, Sink& sink) {
    const uint32_t index = work_request_id::number(completion.wr_id);
    if (completion.status != IBV_WC_SUCCESS) [[unlikely]] {
        on_failed_receive(completion);
    } else if (Channel* channel = receiver(completion.qp_num);
               channel != nullptr && !channel->receiving.deaf) {
        if (!channel->up()) [[unlikely]]
            connector_.data_arrived(*channel);
        if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
            const uint32_t immediate = ntohl(completion.imm_data);
            if (notify::is_of_block(immediate))
                notified(*channel, immediate, sink);
            else if (!channel->receiving.left && !sink.notified(*channel, immediate)) [[unlikely]]
                blocks_.on_malformed(*channel,
                                     "the peer notifies a write to a transfer that does "
                                     "not expect one");
        } else if (!received_cold(*channel, receives_.buffer(index), completion.byte_len, sink))
            [[unlikely]] {
            return false;
        }
    }
    receives_.release(index);
    return true;
}

// The notification of a write into the channel's block. The block is polled, so the frame may have
// been taken already.
template <MessageSink Sink>
void CompletionPoller::notified(Channel& channel, uint32_t immediate, Sink& sink) {
    if (!channel.receiving.polled)
        return blocks_.on_malformed(channel, "the peer notifies a frame in a block, but has none");
    (void)blocks_.poll(channel, sink, 1);
    ++notifications_;
    NotifyRequests::on_notification(channel, immediate);
}

// The first of `completions` is a put whose message the peer repeats. Takes it, and those of the
// same peer that come next; returns their number. 0: it must wait for the next poll.
template <MessageSink Sink>
[[gnu::always_inline]] inline int CompletionPoller::take_repeats(const ibv_wc* completions,
                                                                 int count, Sink& sink) {
    Channel* const channel = receiver(completions->qp_num);
    if (channel == nullptr || channel->receiving.deaf || channel->receiving.repeats == nullptr)
        [[unlikely]] {
        if (channel != nullptr && !channel->receiving.deaf)
            blocks_.on_malformed(*channel, kNotNumbered);
        receives_.release(work_request_id::number(completions->wr_id));
        return 1;
    }
    if (!channel->up()) [[unlikely]]
        connector_.data_arrived(*channel);
    return take_repeats(*channel, completions, count, sink);
}

// Each is ordered as a cold frame. They are counted together.
template <MessageSink Sink>
int CompletionPoller::take_repeats(Channel& channel, const ibv_wc* completions, int count,
                                   Sink& sink) {
    ReceivedRepeats& known = *channel.receiving.repeats;
    ReceivePath& path = channel.receiving.path;
    uint32_t messages = 0;
    int i = 0;
    do {
        const uint32_t immediate = ntohl(completions[i].imm_data);
        if (path.before(repeat::sequence(immediate)) != 0) [[unlikely]] {
            bool all = true;
            if (take_preceding(channel, repeat::sequence(immediate), sink, all) && !all) break;
        }
        if (!channel.receiving.deaf) [[likely]] {
            const ReceivedRepeats::Message* const message = known.take(immediate);
            if (message != nullptr) [[likely]] {
                sink.message(message->id, message->words.data(), repeat::kBytes);
                path.received_cold();
                ++messages;
            } else {
                blocks_.on_malformed(channel, kNotNumbered);
            }
        }
        receives_.release(work_request_id::number(completions[i].wr_id));
        ++i;
    } while (i != count && completions[i].qp_num == completions->qp_num &&
             is_repeat(completions[i]));
    if (messages == 0) [[unlikely]]
        return i;
    received_ += messages;
    repeated_.expect();
    offered_.took_repeats(channel, messages);
    return i;
}

// False: more frames precede it than this poll may still take.
template <MessageSink Sink>
bool CompletionPoller::received_cold(Channel& channel, std::byte* frame, uint32_t length,
                                     Sink& sink) {
    const Word word(length >= sizeof(Word) ? *reinterpret_cast<const uint64_t*>(frame) : 0);
    if (!word.well_formed() || word.kind() == FrameKind::kWrap ||
        length != sizeof(Word) + word.length()) [[unlikely]] {
        on_malformed(channel, "a frame is malformed", word, frame, length);
        return true;
    }
    bool all = true;
    if (!take_preceding(channel, word.sequence(), sink, all)) [[unlikely]]
        return true;
    if (!all) [[unlikely]]
        return false;
    if (channel.receiving.deaf) [[unlikely]]
        return true;
    if (!channel.sending.path.credited(word.credit())) [[unlikely]] {
        on_malformed(channel, "it returns more credit than there is", word, frame, length);
        return true;
    }
    ++received_;
    TERN_TRACE_DATA("received cold frame: kind %u, id %u, %u bytes, from %s",
                    static_cast<unsigned>(word.kind()), word.id(), word.length(),
                    channel.peer.to_string().c_str());
    deliver(channel, word, frame + sizeof(Word), sink);
    return true;
}

// The frames of the block that precede a cold frame of this sequence are delivered first; they have
// arrived. `all`: whether this poll may take all of them. False: the channel has failed.
template <MessageSink Sink>
bool CompletionPoller::take_preceding(Channel& channel, uint16_t sequence, Sink& sink, bool& all) {
    const unsigned before = channel.receiving.path.before(sequence);
    if (before == 0) [[likely]]
        return true;
    const unsigned now = std::min(before, preceding_);
    preceding_ -= now;
    if (blocks_.poll(channel, sink, now) != now) [[unlikely]] {
        blocks_.on_malformed(channel, "frames are missing from its block");
        return false;
    }
    all = now == before;
    return true;
}

template <MessageSink Sink>
void CompletionPoller::deliver(Channel& channel, Word word, std::byte* payload, Sink& sink) {
    if (word.kind() == FrameKind::kControl) {
        channel.receiving.path.received_cold();
        control_.arrived();
        const bool ours = word.id() < static_cast<uint32_t>(ControlId::kFirstTransfer);
        const bool numbers = word.id() == static_cast<uint32_t>(ControlId::kRepeat);
        if (!(numbers ? define_repeat(channel, payload, word.length())
              : ours  ? control_.receive(channel, word, payload)
                      : is_left(channel, word.id()) ||
                           sink.control(channel, word.id(), payload, word.length()))) [[unlikely]]
            on_malformed(channel, "a control frame is malformed", word, payload - sizeof(Word),
                         word.length() + uint32_t{sizeof(Word)});
        return;
    }
    if (word.kind() == FrameKind::kActiveMessage) {
        if (word.length() >= kLeastKept) [[unlikely]]
            return deliver_long(channel, word, payload, sink);
        offered_.count(channel);
        sink.message(word.id(), payload, word.length());
    } else if (word.kind() == FrameKind::kBatch) {
        if (!blocks_.batch(channel, payload, word.length(), sink)) return;
    } else if (!blocks_.tagged(channel, word, payload, sink)) {
        return;
    }
    channel.receiving.path.received_cold();
    offered_.took_cold(channel, word.length());
}

// A message that the user may keep where it is.
template <MessageSink Sink>
[[gnu::noinline, gnu::cold]] void CompletionPoller::deliver_long(Channel& channel, Word word,
                                                                 std::byte* payload, Sink& sink) {
    offered_.count(channel);
    if (!receives_.may_keep())
        sink.message(word.id(), payload, word.length());
    else if (sink.keeps(word.id(), payload, word.length()))
        receives_.keep(payload);
    channel.receiving.path.received_cold();
    offered_.took_cold(channel, word.length());
}

template <MessageSink Sink>
[[gnu::always_inline]] inline void CompletionPoller::sent(const ibv_wc& completion, Sink& sink) {
    auto* channel = static_cast<Channel*>(connector_.table().find_send(completion.wr_id));
    if (channel == nullptr) [[unlikely]]
        return;
    const uint32_t number = work_request_id::number(completion.wr_id);
    if (completion.status == IBV_WC_SUCCESS) [[likely]] {
        channel->sends.complete(number);
        settle(*channel, Status::kOk, sink);
        WorkRequests::post_held(*channel);
    } else {
        on_failed_send(*channel, completion, sink);
    }
    if (channel->ending || channel->handshake.state() == Handshake::State::kDraining) [[unlikely]]
        sent_last(*channel);
}

template <MessageSink Sink>
[[gnu::noinline, gnu::cold]] void CompletionPoller::on_failed_send(Channel& channel,
                                                                   const ibv_wc& completion,
                                                                   Sink& sink) {
    const uint32_t number = work_request_id::number(completion.wr_id);
    const bool first = !channel.sends.failing();
    // All work requests before the first that failed are complete.
    if (first) {
        channel.sends.complete(number - 1);
        settle(channel, Status::kOk, sink);
    }
    // Frames that the peer wrote before it went are delivered before the lost operations are told.
    if (channel.receiving.polled) (void)blocks_.poll(channel, sink, BlockPoller::kWholeBlock);
    if (first) fail(channel, completion);
    flushed(channel, completion, sink);
}

template <OperationSink Sink>
void CompletionPoller::flushed(Channel& channel, const ibv_wc& completion, Sink& sink) {
    const uint32_t number = work_request_id::number(completion.wr_id);
    const bool success = completion.status == IBV_WC_SUCCESS;
    if (!success) channel.sends.fail(number);
    channel.sends.complete(number);
    if (success) return settle(channel, Status::kOk, sink);
    settle(channel, channel.status == Status::kOk ? Status::kCanceled : channel.status, sink);
}

template <OperationSink Sink>
[[gnu::always_inline]] inline void CompletionPoller::settle(Channel& channel, Status status,
                                                            Sink& sink) {
    SendQueue::Record record;
    while (channel.sends.take(record)) {
        if (record.buffer != nullptr) pool_.give(static_cast<SendPool::Buffer*>(record.buffer));
        if (record.cookie != nullptr) sink.completed(record.cookie, status);
    }
    // The waiters of a channel that has failed wait for closed(), which follows what has come.
    void* cookie = nullptr;
    while (channel.sends.has_waiters() && !channel.failed && channel.sends.take_waiter(cookie))
        sink.completed(cookie, status);
}

}  // namespace tern
