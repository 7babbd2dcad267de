// SPDX-License-Identifier: BSD-3-Clause
// Announced messages that their receivers have not taken yet.
#pragma once

#include <memory>
#include <vector>

#include "tern/engine/idle_time.h"
#include "tern/matching/messages.h"
#include "tern/uct/iface.h"

namespace tern {

class TagSends;

struct TagSend {
    uint64_t number = 0;  // low half: index; high half: uses
    bool under_way = false;
    Channel* channel = nullptr;
    const TernEp* ep = nullptr;
    uct_completion_t* completion = nullptr;
    uint64_t early_copy = 0;  // the rendezvous's number of the early copy; 0: none
    // Set if the message is direct:
    TagSends* owner = nullptr;
    uct_completion_t placed{};
};

// The number of sends is not limited: with a limit, peers could wait for each other's messages for
// ever.
class TagSends {
  public:
    explicit TagSends(Rendezvous& rendezvous) : rendezvous_(rendezvous) {}

    TagSend& take();
    // The send is over.
    void give(TagSend& send);
    // The request to send has been accepted.
    void begun(TagSend& send, Channel& channel, const TernEp& ep, uct_completion_t* completion) {
        ++under_way_;
        send.channel = &channel;
        send.ep = &ep;
        send.completion = completion;
        send.under_way = true;
    }

    // The completion to call when the device has placed the message, which ends the send.
    uct_completion_t* direct(TagSend& send, uct_completion_t* completion) {
        send.owner = this;
        send.completion = completion;
        send.placed = {.func = placed, .count = 1, .status = UCS_OK};
        return &send.placed;
    }

    // Whether progress() has anything to do.
    bool has_work() const { return under_way_ != 0; }
    // Makes the engine notice the death of a peer that has not taken a message: nothing else may
    // be under way to the peer.
    void progress(Engine& engine) {
        if (under_way_ == 0)
            idle_.end();
        else if (idle_.count()) [[unlikely]]
            request_reports(engine);
    }

    // Handles a control frame of kind kFinish. False: it is malformed. Frames for canceled sends
    // are ignored.
    bool finished(const Channel& channel, const std::byte* data, uint32_t length);
    // The channel is over. Returns whether any send ended early.
    bool ended(const Channel& channel, Status status);
    // The endpoint is destroyed: its sends end.
    void left(const TernEp& ep);

  private:
    [[gnu::noinline]] void request_reports(Engine& engine) const;
    template <class Which>
    bool end_all(Which&& which, ucs_status_t status);
    void over(TagSend& send, ucs_status_t status);
    static void placed(uct_completion_t* completion);

    Rendezvous& rendezvous_;
    std::vector<std::unique_ptr<TagSend>> sends_;
    std::vector<TagSend*> free_;
    uint32_t under_way_ = 0;
    IdleTime idle_;
};

}  // namespace tern
