// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/make_room.h"
#include "tern/engine/channel.h"
#include "tern/veloblock/frame.h"

namespace tern {

class OfferedBlocks;
class PeerBlocks;
class WorkRequests;

// Sends control frames, at once or as soon as there is room, and hands received ones to the objects
// that they are for. Control frames go cold, where they need no credit, and where a receiver that
// sleeps or polls only its completion queue sees them. Control path, except any_due().
class ControlFrames {
  public:
    ControlFrames(WorkRequests& requests, OfferedBlocks& offered, PeerBlocks& peer_blocks)
        : requests_(requests), offered_(offered), peer_blocks_(peer_blocks) {}

    // Sends a control frame; `length` is at most kMaxControl. False: there is no room now.
    // `of_user`: it carries something of a user's, so flushes wait for it and report its loss.
    bool send(Channel& channel, ControlId id, const void* payload, uint32_t length,
              bool of_user = false);
    // Handles a frame whose id is below ControlId::kFirstTransfer. False: it is malformed.
    bool receive(Channel& channel, Word word, const std::byte* payload);

    // Sends a frame when send_due() is called and there is room.
    void schedule(Channel& channel, Channel::Due what);
    bool any_due() const { return !due_.empty(); }
    // Whether a stream waits for credit, which goes by the credit word if the completion queue has
    // the completion of the last write of it. Ends with send_due().
    bool presses() const { return presses_; }
    void press() { presses_ = true; }
    // There may be this many channels: schedule() does not allocate.
    void make_room(size_t channels) { base::make_room(due_, channels); }
    void send_due();
    // The channel is over.
    void forget(Channel& channel);

    // For the log: a frame that has come cold, and what this side knew of its sender's block then.
    static std::string describe(const Channel& channel, Word word, const std::byte* payload,
                                uint32_t length);

    uint64_t sent() const { return sent_; }
    // Frames of the layers above too.
    void arrived() { ++arrived_; }
    uint64_t arrivals() const { return arrived_; }

  private:
    bool send_due(Channel& channel);

    WorkRequests& requests_;
    OfferedBlocks& offered_;
    PeerBlocks& peer_blocks_;
    std::vector<Channel*> due_;  // channels with frames to send
    bool presses_ = false;
    uint64_t sent_ = 0;  // frames
    uint64_t arrived_ = 0;
};

}  // namespace tern
