// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The data path of receiving: inline and template members of Engine.

#include <arpa/inet.h>

#include "engine/engine.h"

namespace tern {

template <class Sink>
[[gnu::noinline]] bool Engine::poll(Sink& sink, unsigned& count) {
    ++counters_.polls;
    // poll_block() looks again, with acquire. Handlers may change both lists.
    for (size_t i = 0; i < polled_.size(); ++i)
        if (__atomic_load_n(tails_[i], __ATOMIC_RELAXED) != 0)
            count += poll_block(*polled_[i], sink, kBurst);
    if (patience_ > 0 && !after_gap_) {
        patience_ -= count == 0 ? kEmptyPoll : 1;
        return true;
    }
    count = poll_rest(sink, count);
    return false;
}

// Returns `count` and the number of what it handles.
template <class Sink>
unsigned Engine::poll_rest(Sink& sink, unsigned count) {
    if (sleeper_) [[unlikely]]
        awake();
    // Blocks that are never empty must not delay the completion queue for ever.
    if (count != 0 && !after_gap_ && ++busy_ % kBusyPolls != 0) return count;
    preceding_ = kPreceding;
    // Polling the completion queue costs more than looking at the blocks, but transfers need it.
    unsigned completed = poll_cq(sink);
    // Notified frames are taken from memory, but each consumes a receive buffer, so as many of
    // their completions are taken.
    unsigned last = completed;
    while (last == kBurst && completed < count) [[unlikely]] completed += last = poll_cq(sink);
    count += completed;
    // An answer to what was received is likely, and would carry the credit; but wait no longer than
    // kDeferredPolls.
    if (!due_channels_.empty() && (completed == 0 || ++deferred_ % kDeferredPolls == 0))
        [[unlikely]]
        send_due_control();
    if (++idle_ >= kSeldom || connector_->urgent()) [[unlikely]]
        count += poll_seldom(sink);
    patience_ = polled_.empty() || transfers_ != 0 || sleeper_ ? 0 : kPatience;
    return count;
}

// Takes the frames and completions that have arrived, or, to limit the time of a poll, a part of
// them. False: there may be more.
template <class Sink>
bool Engine::take_arrived(Sink& sink, unsigned& count) {
    // As many as the queue and one block hold: later arrivals need not be taken.
    const unsigned most = static_cast<unsigned>(cq_->cqe) + kWholeBlock;
    preceding_ = kPreceding;
    for (unsigned now = 0; now < kTakenAtOnce;) {
        unsigned taken = poll_cq(sink);
        for (size_t i = 0; i < polled_.size(); ++i) taken += poll_block(*polled_[i], sink, kBurst);
        now += taken;
        count += taken;
        taken_ += taken;
        if (taken == 0 || taken_ >= most) {
            taken_ = 0;
            return true;
        }
    }
    return false;
}

// Handles packets, deadlines and connections that are over. A packet or a deadline may end a
// connection whose last frames have arrived already, so these are taken before each.
template <class Sink>
unsigned Engine::poll_seldom(Sink& sink) {
    unsigned count = 0;
    unsigned packets = 0;
    if (++rare_ % kRarely == 0) packets += take_device_events();
    idle_ = kSeldom;
    do {
        if (!take_arrived(sink, count)) return count + packets;
        packets += connector_->progress();
    } while (connector_->datagrams_waiting() && packets < kSeldom);
    if (!take_arrived(sink, count)) return count + packets;
    idle_ = 0;
    if (connector_->datagrams().failed()) [[unlikely]]
        break_down("its completion queue for datagrams cannot be polled");
    count += packets + connector_->destroy_closed();
    for (void* user = nullptr; connector_->take_unanswered_probe(user); ++count) owner_.on_probe_timeout(user);
    return count;
}

// Returns the number of frames taken.
template <class Sink>
unsigned Engine::poll_block(Channel& channel, Sink& sink, unsigned most) {
    unsigned count = 0;
    Word word;
    while (count < most && !channel.failed) {
        const ReceivePath::Look look = channel.rx.look(word);
        if (look == ReceivePath::Look::kNothing) break;
        if (look == ReceivePath::Look::kMalformed || !channel.tx.credited(word.credit()))
            [[unlikely]] {
            malformed(channel, "a frame in its block is malformed");
            break;
        }
        ++count;
        ++counters_.received_hot;
        if (word.kind() == FrameKind::kActiveMessage) {
            if (promotion_.count(channel.activity)) [[unlikely]]
                sweep();
            sink.message(word.id(), channel.rx.payload(word), word.length());
        } else if (word.kind() == FrameKind::kTag) {
            if (!tagged(channel, word, channel.rx.payload(word), sink)) [[unlikely]]
                break;
        } else if (word.length() != 0 || word.id() != static_cast<uint32_t>(ControlId::kCredit))
            [[unlikely]] {
            malformed(channel, "a control frame is in its block");
            break;
        }
        channel.rx.consume(word);
        // A stream does not stop for want of credit while this side is busy with it.
        if (channel.rx.credit_pressing() && channel.up()) [[unlikely]]
            (void)pay_credit(channel);
    }
    update_polled(channel);
    if (channel.rx.credit_due()) schedule_control(channel, Channel::kCreditDue);
    return count;
}

// False: the message is malformed, and the channel has failed.
template <class Sink>
bool Engine::tagged(Channel& channel, Word word, const std::byte* payload, Sink& sink) {
    if (promotion_.count(channel.activity)) [[unlikely]]
        sweep();
    if (sink.tagged(channel, word.id(), payload, word.length())) return true;
    malformed(channel, "a tagged message is malformed");
    return false;
}

inline void Engine::update_polled(Channel& channel) {
    if (channel.polled) tails_[channel.hot_index] = channel.rx.next();
}

// Whether `next` reports the same success.
inline bool Engine::reports_too(const ibv_wc& next, const ibv_wc& completion) {
    return work_request_id::tag(next.wr_id) == work_request_id::tag(completion.wr_id) &&
           next.status == IBV_WC_SUCCESS && completion.status == IBV_WC_SUCCESS;
}

// Returns the number of completions handled; if it stops early, also of the frames that precede.
template <class Sink>
unsigned Engine::poll_cq(Sink& sink) {
    ibv_wc completions[kBurst];
    const int count = late_.poll(cq_.get(), kBurst, completions);
    const unsigned preceding = preceding_;
    for (int i = 0; i < count; ++i) {
        if (!work_request_id::is_receive(completions[i].wr_id)) {
            // A completion reports all work requests of its connection up to its own.
            if (i + 1 == count || !reports_too(completions[i + 1], completions[i]))
                sent(completions[i], sink);
        } else if (!received(completions[i], sink)) [[unlikely]] {
            late_.put_back(completions + i, count - i);
            return static_cast<unsigned>(i) + preceding - preceding_;
        }
    }
    if (count < 0) [[unlikely]]
        break_down("its completion queue cannot be polled");
    return count > 0 ? static_cast<unsigned>(count) : 0;
}

// The peer of a connection that was accepted in the background may have sent before adopt().
inline Channel* Engine::receiver(uint32_t qp_num) {
    Connection* connection = connector_->find(qp_num);
    if (connection == nullptr) [[unlikely]]
        connection = connector_->find_accepted(qp_num);
    return static_cast<Channel*>(connection);
}

// False: the frame must wait for the next poll, and the completions after it with it.
template <class Sink>
bool Engine::received(const ibv_wc& completion, Sink& sink) {
    const uint32_t index = work_request_id::number(completion.wr_id);
    if (completion.status != IBV_WC_SUCCESS) [[unlikely]] {
        failed_receive(completion);
    } else if (Channel* channel = receiver(completion.qp_num);
               channel != nullptr && !channel->failed) {
        if (!channel->up()) [[unlikely]]
            connector_->data_arrived(*channel);
        if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
            const uint32_t immediate = ntohl(completion.imm_data);
            if (notify::is_of_block(immediate))
                received_hot(*channel, immediate, sink);
            else if (!sink.notified(*channel, immediate)) [[unlikely]]
                malformed(*channel, "a write is notified of that nobody has asked for");
        } else if (!received_cold(*channel, receives_->buffer(index), completion.byte_len, sink))
            [[unlikely]] {
            return false;
        }
    }
    receives_->release(index);
    return true;
}

// The notification of a write into the channel's block. The block is polled, so the frame may have
// been taken already.
template <class Sink>
void Engine::received_hot(Channel& channel, uint32_t immediate, Sink& sink) {
    if (!channel.polled) return malformed(channel, "a write notified of is in no block");
    (void)poll_block(channel, sink, 1);
    ++counters_.notices;
    if (immediate == 0) channel.always = true;
    if (notify::telling(immediate) == channel.telling) channel.heeds = true;
}

// False: more frames precede it than this poll may still take.
template <class Sink>
bool Engine::received_cold(Channel& channel, const std::byte* frame, uint32_t length, Sink& sink) {
    const Word word(length >= sizeof(Word) ? *reinterpret_cast<const uint64_t*>(frame) : 0);
    if (!word.well_formed() || word.kind() == FrameKind::kWrap ||
        length != sizeof(Word) + word.length()) [[unlikely]] {
        malformed(channel, "a frame is malformed");
        return true;
    }
    // The frames of the block that precede this one are delivered first; they have arrived.
    if (const unsigned before = channel.rx.before(word); before != 0) {
        const unsigned now = std::min(before, preceding_);
        preceding_ -= now;
        if (poll_block(channel, sink, now) != now) [[unlikely]] {
            malformed(channel, "frames are missing from its block");
            return true;
        }
        if (now != before) [[unlikely]]
            return false;
    }
    if (channel.failed || !channel.tx.credited(word.credit())) [[unlikely]] {
        malformed(channel, "it returns more credit than there is");
        return true;
    }
    ++counters_.received_cold;
    if (word.kind() == FrameKind::kActiveMessage) {
        if (promotion_.count(channel.activity)) [[unlikely]]
            sweep();
        sink.message(word.id(), frame + sizeof(Word), word.length());
        channel.rx.received_cold();
        if (!channel.activity.hot && channel.up()) judge(channel);
    } else if (word.kind() == FrameKind::kTag) {
        if (!tagged(channel, word, frame + sizeof(Word), sink)) return true;
        channel.rx.received_cold();
        if (!channel.activity.hot && channel.up()) judge(channel);
    } else {
        channel.rx.received_cold();
        const bool ours = word.id() < static_cast<uint32_t>(ControlId::kFirstTransfer);
        if (!(ours ? control(channel, word, frame + sizeof(Word))
                   : sink.control(channel, word.id(), frame + sizeof(Word), word.length())))
            [[unlikely]]
            malformed(channel, "a control frame is malformed");
    }
    return true;
}

template <class Sink>
[[gnu::always_inline]] inline void Engine::sent(const ibv_wc& completion, Sink& sink) {
    auto* channel = static_cast<Channel*>(connector_->find_send(completion.wr_id));
    if (channel == nullptr) [[unlikely]]
        return;
    const uint32_t number = work_request_id::number(completion.wr_id);
    if (completion.status == IBV_WC_SUCCESS) [[likely]] {
        channel->sends.complete(number);
        settle(*channel, Status::kOk, sink);
    } else {
        sent_in_vain(*channel, completion, sink);
    }
    if (channel->closing || channel->handshake.state() == Handshake::State::kDraining) [[unlikely]]
        sent_last(*channel);
}

template <class Sink>
[[gnu::noinline, gnu::cold]] void Engine::sent_in_vain(Channel& channel, const ibv_wc& completion,
                                                       Sink& sink) {
    const uint32_t number = work_request_id::number(completion.wr_id);
    // All work requests before the first that failed are complete.
    if (!channel.sends.failing()) {
        channel.sends.complete(number - 1);
        settle(channel, Status::kOk, sink);
        // Frames that the peer wrote before it went are delivered before the channel fails.
        if (!channel.failed && channel.polled) (void)poll_block(channel, sink, kWholeBlock);
        failed_send(channel, completion);
    }
    channel.sends.fail(number);
    channel.sends.complete(number);
    settle(channel, channel.status == Status::kOk ? Status::kCanceled : channel.status, sink);
}

// Gives back buffers, and tells cookies and waiters of complete work requests.
template <class Sink>
[[gnu::always_inline]] inline void Engine::settle(Channel& channel, Status status, Sink& sink) {
    SendQueue::Record record;
    while (channel.sends.take(record)) {
        if (record.buffer != nullptr) pool_.give(static_cast<SendPool::Buffer*>(record.buffer));
        if (record.cookie != nullptr) sink.completed(record.cookie, status);
    }
    // A flush succeeds if only work requests were lost that are not the user's.
    void* cookie = nullptr;
    while (channel.sends.take_waiter(cookie))
        sink.completed(cookie, channel.sends.users_lost() ? status : Status::kOk);
}

}  // namespace tern
