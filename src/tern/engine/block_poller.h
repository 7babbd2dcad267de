// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/assert.h"
#include "tern/connection/connector.h"
#include "tern/engine/channel.h"
#include "tern/engine/control_frames.h"
#include "tern/engine/offered_blocks.h"
#include "tern/engine/owner.h"
#include "tern/engine/poll_budget.h"

namespace tern {

// The blocks that an interface polls, in one array of the words to look at: the next tail of each
// block. Data path, except add() and remove().
class PolledBlocks {
  public:
    explicit PolledBlocks(PollBudget& budget) : budget_(budget) {}

    // Whether any block may have a frame. The caller looks again, with acquire.
    [[gnu::always_inline]] bool any_frame() const {
        uint64_t any = 0;
        const uint64_t* const* tail = tails_.data();
        const uint64_t* const* const end = tail + tails_.size();
        do {
            any |= __atomic_load_n(tail[0], __ATOMIC_RELAXED) |
                   __atomic_load_n(tail[1], __ATOMIC_RELAXED);
            tail += kGroup;
        } while (tail != end);
        return any != 0;
    }
    bool may_have_frame(size_t i) const {
        return __atomic_load_n(tails_[i], __ATOMIC_RELAXED) != 0;
    }

    // Handlers of frames may add and remove blocks, so loops go by index.
    size_t size() const { return channels_.size(); }
    Channel& at(size_t i) const { return *channels_[i]; }

    // The channel's block has been offered, or is about to be freed.
    void add(Channel& channel);
    void remove(Channel& channel);
    // Frames have been taken from the channel's block.
    void update(Channel& channel) {
        if (channel.receiving.polled)
            tails_[channel.receiving.poll_index] = channel.receiving.path.next();
    }

  private:
    // The tails are looked at in groups, of which there is at least one. Where a group has no more
    // blocks, it has kNoTail.
    static constexpr size_t kGroup = 2;
    static constexpr uint64_t kNoTail = 0;

    std::vector<const uint64_t*> tails_ = std::vector<const uint64_t*>(kGroup, &kNoTail);
    std::vector<Channel*> channels_;
    PollBudget& budget_;
};

inline void PolledBlocks::add(Channel& channel) {
    TERN_ASSERT(!channel.receiving.polled);
    // What allocates comes first, here and elsewhere: an exception must leave what is noted right.
    const auto place = static_cast<uint32_t>(channels_.size());
    if (place == tails_.size()) tails_.resize(tails_.size() + kGroup, &kNoTail);
    channels_.push_back(&channel);
    if (place == 0) budget_.end_reason();
    channel.receiving.polled = true;
    channel.receiving.poll_index = place;
    update(channel);
}

// The last of the polled channels takes the place.
inline void PolledBlocks::remove(Channel& channel) {
    TERN_ASSERT(channel.receiving.polled && channels_[channel.receiving.poll_index] == &channel);
    Channel* last = channels_.back();
    channels_.pop_back();
    tails_[last->receiving.poll_index] = &kNoTail;
    channel.receiving.polled = false;
    if (last != &channel) {
        last->receiving.poll_index = channel.receiving.poll_index;
        channels_[last->receiving.poll_index] = last;
        update(*last);
    }
    if (channels_.empty())
        budget_.begin_reason();
    else if (channels_.size() + kGroup == tails_.size())
        tails_.resize(channels_.size());
}

// Takes the frames out of a channel's block. For the sink see Engine. Data path.
class BlockPoller {
  public:
    static constexpr unsigned kWholeBlock = kMaxBlock / kStep;  // frames

    BlockPoller(PolledBlocks& polled, OfferedBlocks& offered, ControlFrames& control,
                Connector& connector)
        : polled_(polled), offered_(offered), control_(control), connector_(connector) {}

    // Returns the number of frames taken.
    template <MessageSink Sink>
    unsigned poll(Channel& channel, Sink& sink, unsigned most) {
        unsigned left = most;
        unsigned others = 0;  // taken, but no active messages
        Word word;
        ReceivePath& path = channel.receiving.path;
        while (left != 0 && !channel.receiving.deaf) {
            const ReceivePath::Look look = path.look(word);
            if (look == ReceivePath::Look::kNothing) break;
            if (look == ReceivePath::Look::kMalformed ||
                !channel.sending.path.credited(word.credit())) [[unlikely]] {
                on_malformed(channel, "a frame in its block is malformed");
                break;
            }
            --left;
            if (word.is_usual()) [[likely]] {
                const Word last = word;
                for (;;) {
                    sink.message(word.id(), path.payload(word), word.length());
                    path.consume_usual(word);
                    press_credit(channel);
                    if (left == 0 || !path.repeats(last, word)) break;
                    --left;
                }
                continue;
            }
            if (word.kind() == FrameKind::kActiveMessage) {
                sink.message(word.id(), path.payload(word), word.length());
            } else if (word.kind() == FrameKind::kBatch) {
                ++others;
                if (!batch(channel, path.payload(word), word.length(), sink)) [[unlikely]]
                    break;
            } else if (word.kind() == FrameKind::kTag) {
                ++others;
                if (!tagged(channel, word, path.payload(word), sink)) [[unlikely]]
                    break;
            } else {
                ++others;
                if (word.length() != 0 || word.id() != static_cast<uint32_t>(ControlId::kCredit))
                    [[unlikely]] {
                    on_malformed(channel, "a control frame is in its block");
                    break;
                }
            }
            path.consume(word);
            press_credit(channel);
        }
        const unsigned count = most - left;
        if (count != others) offered_.count(channel, count - others);
        received_ += count;
        polled_.update(channel);
        if (path.credit_due()) control_.schedule(channel, Channel::kCreditDue);
        return count;
    }

    // Delivers a frame of kind kTag, hot or cold. False: the message is malformed, and the channel
    // has failed.
    template <MessageSink Sink>
    bool tagged(Channel& channel, Word word, const std::byte* payload, Sink& sink) {
        offered_.count(channel);
        if (sink.tagged(channel, word.id(), payload, word.length())) return true;
        on_malformed(channel, "a tagged message is malformed");
        return false;
    }

    // Delivers the messages of a frame of kind kBatch, hot or cold. False: as tagged().
    template <MessageSink Sink>
    bool batch(Channel& channel, const std::byte* payload, uint32_t length, Sink& sink) {
        unsigned messages = 0;
        Word entry;
        do {
            if (!BatchEntry::read(payload, length, entry)) [[unlikely]] {
                on_malformed(channel, "a frame of several messages is malformed");
                return false;
            }
            const std::byte* const message = payload + BatchEntry::kBytes;
            const uint32_t space = BatchEntry::space(entry.length());
            payload += space;
            length -= space;
            __builtin_prefetch(payload + kAhead);
            if (entry.kind() == FrameKind::kActiveMessage) [[likely]] {
                ++messages;
                sink.message(entry.id(), message, entry.length());
            } else if (!tagged(channel, entry, message, sink)) [[unlikely]] {
                return false;
            }
        } while (length != 0);
        if (messages != 0) offered_.count(channel, messages);
        return true;
    }

    // The peer has broken the protocol: ends the channel, and takes nothing more from it.
    [[gnu::cold]] void on_malformed(Channel& channel, const char* what) {
        channel.receiving.deaf = true;
        connector_.fail(channel, Status::kProtocol, what);
    }

    uint64_t received() const { return received_; }

  private:
    static constexpr size_t kAhead = 128;  // bytes that are fetched before they are needed

    // A stream does not stop for want of credit while this side is busy with it.
    [[gnu::always_inline]] void press_credit(Channel& channel) {
        if (channel.receiving.path.credit_pressing() && channel.up()) [[unlikely]]
            offered_.press_credit(channel);
    }

    PolledBlocks& polled_;
    OfferedBlocks& offered_;
    ControlFrames& control_;
    Connector& connector_;
    uint64_t received_ = 0;  // frames
};

}  // namespace tern
