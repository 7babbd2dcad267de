// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tern/base/shortage.h"
#include "tern/engine/channel.h"
#include "tern/engine/counters.h"
#include "tern/engine/parts.h"
#include "tern/veloblock/block_sizes.h"

namespace tern {

class PollBudget;
class PolledBlocks;
class ReceiveQueue;

// The blocks that this side offers to its peers and reads: which peers have one, its memory, and
// the credit that goes back. Owns Channel::receiving. Control path, except count().
//
// States of a block (ReceivePath::Block):
//
//   kNone     the peer's messages come cold
//   kOffered  registered and polled; the peer writes into it
//   kRevoked  the same, but the peer has been asked to release it
//
//   kNone     the peer qualifies, or a released block is to be larger; there is room  kOffered
//   kOffered  it was used little, or another peer sends more                         kRevoked
//             a release frame of the peer                                            kNone
//   kRevoked  a release frame of the peer                                            kNone
//   all       the connection is over                                                 kNone
class OfferedBlocks {
  public:
    explicit OfferedBlocks(const EngineParts& parts);

    // Counts messages of the peer's. Data path.
    [[gnu::always_inline]] void count(Channel& channel, uint32_t messages = 1) {
        if (promotion_.count(channel.receiving.activity, messages)) [[unlikely]]
            end_window();
    }
    // Called after a cold message of `length` bytes.
    void took_cold(Channel& channel, uint32_t length) {
        senders_.count(channel.receiving.cold);
        took_allowed(channel, 1);
        consider(channel, length);
    }
    // Called after puts that stand for messages.
    void took_repeats(Channel& channel, uint32_t messages) {
        count(channel, messages);
        senders_.count(channel.receiving.cold, messages);
        took_allowed(channel, static_cast<uint16_t>(messages));
        consider(channel, repeat::kBytes);
    }
    // Considers whether the sender of a cold message of `length` bytes gets a block.
    void consider(Channel& channel, uint32_t length) {
        if (channel.receiving.activity.hot || !channel.up()) return;
        BlockSizes::average(channel.receiving.usual_bytes, length);
        decide(channel);
    }

    // Received control frames. False: the frame is malformed.
    bool on_release(Channel& channel, const std::byte* payload, uint32_t length);
    bool on_words(Channel& channel, const std::byte* payload, uint32_t length);
    bool on_credit_request(Channel& channel);

    // Control frames that are due. False: there is no room now.
    bool send_offer(Channel& channel);
    // Returns credit to the writer: by a write to its credit word, which costs the writer no
    // receive and no completion, or by a frame.
    bool return_credit(Channel& channel);
    // Returns credit within a poll, if a stream would stop without it. While the last write of the
    // credit word is under way, the poll looks for its completion first.
    void press_credit(Channel& channel);
    bool send_allowance(Channel& channel);
    // Whether credit is due that no frame has carried.
    static bool owes_credit(const Channel& channel) {
        return channel.receiving.path.credit_due() ||
               (channel.receiving.peer_wants_credit_frame && channel.receiving.path.credit_ahead());
    }

    // A new channel: its peer may send without being told.
    void begin(const Channel& channel) { allowed_ += channel.receiving.allowance.left(); }
    // The channel is over; its queue pair is in error.
    void forget(Channel& channel);

    // Peers that send cold.
    uint32_t cold_senders() const { return senders_.number(); }
    uint32_t hot_peers() const { return promotion_.hot(); }
    const BlockCounters& counters() const { return counters_; }

  private:
    void took_allowed(Channel& channel, uint16_t messages) {
        channel.receiving.allowance.received(messages);
        allowed_ -= messages;
        if (channel.receiving.allowance.due()) allow_more(channel);
    }
    uint16_t window(const Channel& channel) const;
    uint32_t cold_bytes(const Channel::Receiving& receiving) const;
    void allow_more(Channel& channel);
    [[gnu::cold]] void end_window();
    void decide(Channel& channel);
    void revoke(Channel& channel);
    bool offer(Channel& channel);
    bool register_block(verbs::RegisteredMemory& block, size_t bytes);
    void count_offer(Channel& channel);
    void drop(Channel& channel);

    ibv_pd* pd_;
    BlockSizes sizes_;
    uint32_t longest_;  // bytes of a message
    const ReceiveQueue& receives_;
    PolledBlocks& polled_;
    ControlFrames& control_;
    WorkRequests& requests_;
    Sleep& sleep_;
    EngineOwner& owner_;
    PollBudget& budget_;
    Promotion promotion_;
    ColdSenders senders_;
    int64_t allowed_ = 0;  // messages that have not come, of all channels
    BlockCounters counters_;
    Shortage shortage_{scarce::kBlock};
};

}  // namespace tern
