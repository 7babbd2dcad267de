// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <deque>
#include <variant>
#include <vector>

#include "tern/tupleq/xrc/link_table.h"
#include "tern/tupleq/xrc/messages.h"
#include "tern/tupleq/xrc/sender.h"

namespace tern {

// Answers what peers ask of this process as the sender of tuples (Bind, Close), and as the host of
// a link's other end (Connect). An answer may have to wait for room, or for a link. Control path.
class TupleAnswers {
  public:
    TupleAnswers(Engine& engine, LinkTable& links, const GrantMemory& memory, DirectSender& sender)
        : engine_(engine), links_(links), memory_(memory), sender_(sender) {}

    // A request has come. False if too many wait.
    bool request(Channel& channel, const WireBind& bind) { return add(channel, bind); }
    bool request(Channel& channel, const WireClose& close) { return add(channel, close); }
    bool request(Channel& channel, const WireConnect& connect);

    // Whether an answer waits.
    bool any() const { return !waiting_.empty(); }
    // Sends the answers that can be sent now; returns their number. Call also when a link has come
    // up or ended.
    unsigned send();
    // The channel has ended.
    void erase(const Channel& channel);
    bool has_peer(const Channel& channel) const { return peers_.find(channel) != nullptr; }

  private:
    using Request = std::variant<WireBind, WireClose>;
    struct Peer {
        Channel* channel = nullptr;
        std::deque<Request> requests;  // answered in order
        WireConnected connected;
        bool connected_due = false;
    };

    bool add(Channel& channel, const Request& request);
    void remember(Channel& channel);
    bool answer(Channel& channel, const WireBind& bind);
    bool answer(Channel& channel, const WireClose& close);

    Engine& engine_;
    LinkTable& links_;
    const GrantMemory& memory_;
    DirectSender& sender_;
    PeerTable<Peer> peers_;
    std::vector<Channel*> waiting_;  // channels of peers to which an answer is due
};

}  // namespace tern
