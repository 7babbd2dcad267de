// SPDX-License-Identifier: BSD-3-Clause
#include "tern/tupleq/xrc/answers.h"

#include <algorithm>

#include "tern/base/tunables.h"
#include "tern/tupleq/xrc/messages.h"

namespace tern {

bool TupleAnswers::add(Channel& channel, const Request& request) {
    if (channel.failed) return true;  // nobody is answered any more
    Peer& peer = peers_.of(channel);
    if (peer.requests.size() >= kMostTupleRequests) return false;
    peer.requests.push_back(request);
    remember(channel);
    (void)send();
    return true;
}

bool TupleAnswers::request(Channel& channel, const WireConnect& connect) {
    Peer& peer = peers_.of(channel);
    peer.connected = links_.make_end(channel, connect);
    peer.connected_due = true;
    remember(channel);
    (void)send();
    return true;
}

void TupleAnswers::remember(Channel& channel) {
    if (std::find(waiting_.begin(), waiting_.end(), &channel) == waiting_.end())
        waiting_.push_back(&channel);
}

void TupleAnswers::erase(const Channel& channel) {
    std::erase(waiting_, &channel);
    peers_.erase(channel);
}

// Answers the requests of each peer in order: an answer separates the messages sent before it from
// those sent after.
unsigned TupleAnswers::send() {
    unsigned count = 0;
    for (size_t i = 0; i < waiting_.size();) {
        Channel& channel = *waiting_[i];
        Peer& peer = peers_.at(channel);
        if (peer.connected_due &&
            send_frame(engine_, channel, TupleControlId::kConnected, peer.connected)) {
            peer.connected_due = false;
            ++count;
        }
        while (!channel.failed && !peer.requests.empty()) {
            const Request request = peer.requests.front();
            if (!channel.up() || channel.sends.room() == 0) break;
            if (!std::visit([&](const auto& each) { return answer(channel, each); }, request))
                break;
            peer.requests.pop_front();
            ++count;
        }
        if (channel.failed || (peer.requests.empty() && !peer.connected_due))
            waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
        else
            ++i;
    }
    return count;
}

// False: no answer can be sent now.
bool TupleAnswers::answer(Channel& channel, const WireClose& close) {
    TupleClosed answer;
    if (!sender_.close(channel, close, answer)) {
        engine_.fail(channel, Status::kProtocol, "Close of direct messages is invalid");
        return true;
    }
    return send_frame(
        engine_, channel, TupleControlId::kClosed,
        WireClosed{.tuple = answer.tuple, .sequence = answer.sequence, .flags = close.flags});
}

bool TupleAnswers::answer(Channel& channel, const WireBind& bind) {
    TupleBound answer{bind.tuple, TupleBound::kRefused, 0};
    // After a link to the node was refused, one Bind is refused too; the next one tries again.
    const bool refused = links_.was_refused(channel, bind.node) || sender_.stopped();
    XrcLink* const link = refused ? nullptr : links_.find_or_make(channel, bind.node);
    if (link != nullptr && link->state == XrcLink::State::kAsking) {
        (void)links_.ask(*link);
        return false;
    }
    if (link != nullptr && !sender_.bind(channel, bind, *link, answer)) {
        engine_.fail(channel, Status::kProtocol, "Bind of direct messages is invalid");
        return true;
    }
    const bool sent = send_frame(engine_, channel, TupleControlId::kBound,
                                 WireBound{.tuple = answer.tuple,
                                           .sender = answer.sender,
                                           .slot = answer.slot,
                                           .address = address_of(memory_.grants()),
                                           .rkey = memory_.rkey()});
    if (sent && refused) links_.forget_refusal(channel);
    return sent;
}

}  // namespace tern
