// SPDX-License-Identifier: BSD-3-Clause
// Messages that were announced and not yet taken by their receivers.
#pragma once

#include <memory>
#include <vector>

#include "matching/messages.h"
#include "uct/iface.h"

namespace tern {

class TagSends;

struct TagSend {
    uint64_t number = 0;  // index, and how often it was used
    bool under_way = false;
    Channel* channel = nullptr;
    const TernEp* ep = nullptr;
    uct_completion_t* completion = nullptr;
    uint64_t head = 0;  // the mover's number of it
    // Of one that is direct:
    TagSends* owner = nullptr;
    uct_completion_t placed{};
};

/// As many as there are: a limit would have those that wait for each other's messages wait for
/// ever.
class TagSends {
  public:
    explicit TagSends(Mover& mover) : mover_(mover) {}

    TagSend& take();
    /// It is over.
    void give(TagSend& send);
    /// The request has been sent.
    void begun(TagSend& send, Channel& channel, const TernEp& ep, uct_completion_t* completion) {
        ++under_way_;
        send.channel = &channel;
        send.ep = &ep;
        send.completion = completion;
        send.under_way = true;
    }

    /// What to tell when the device has placed the message: that ends the send.
    uct_completion_t* direct(TagSend& send, uct_completion_t* completion) {
        send.owner = this;
        send.completion = completion;
        send.placed = {.func = placed, .count = 1, .status = UCS_OK};
        return &send.placed;
    }

    /// Sees to it that the death of a peer that was asked to take a message is noticed: nothing
    /// else may be under way to it.
    void progress(Engine& engine) {
        if (under_way_ == 0) {
            looks_ = 0;
        } else if (++looks_ == kLooks) {
            looks_ = 0;
            prod_peers(engine);
        }
    }

    /// A control frame of kind kFinish. False: it is malformed. One of a send that was canceled
    /// says nothing.
    bool finished(const Channel& channel, const std::byte* data, uint32_t length);
    /// The channel is over. Returns whether that has ended anything early.
    bool ended(const Channel& channel, Status status);
    /// So is the endpoint.
    void left(const TernEp& ep);

  private:
    static constexpr uint32_t kLooks = 1 << 14;  // until peers are looked at

    void prod_peers(Engine& engine) const;
    template <class Which>
    bool end_all(Which&& which, ucs_status_t status);
    void over(TagSend& send, ucs_status_t status);
    static void placed(uct_completion_t* completion);

    Mover& mover_;
    std::vector<std::unique_ptr<TagSend>> sends_;
    std::vector<TagSend*> free_;
    uint32_t under_way_ = 0;
    uint32_t looks_ = 0;
};

}  // namespace tern
