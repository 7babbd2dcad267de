// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/engine/small_messages.h"

#include <cstring>

namespace rwapi {

// The message also returns the credit that is owed. It comes after earlier writes.
ucs_status_t SmallMessages::post(Peer& peer, const rwapi_small& small) {
    TERN_ASSERT(peer.state == PeerState::kReady);
    if (const ucs_status_t status = uct_ep_fence(peer.connection.endpoint.get(), 0);
        status != UCS_OK)
        return status;
    const auto credit = static_cast<uint16_t>(peer.receiver.owed());
    const Header header{self_.rank, credit, 0, 0};
    const ucs_status_t status = uct_ep_am_short(peer.connection.endpoint.get(), kSmallMessage,
                                                header.pack(), small.bytes, sizeof small);
    if (status == UCS_OK) peer.receiver.on_returned(credit);
    return status;
}

bool SmallMessages::send_credit(Peer& peer) {
    if (!peer.receiver.is_due()) return true;
    const auto credit = static_cast<uint16_t>(peer.receiver.owed());
    if (!peers_.send(peer, kCreditMessage, credit)) return false;
    peer.receiver.on_returned(credit);
    return true;
}

bool SmallMessages::send_goodbye(Peer& peer) {
    if (!peer.goodbye_due) return true;
    peer.goodbye_due = !peers_.send(peer, kGoodbye);
    return !peer.goodbye_due;
}

void SmallMessages::make_room(Peer& peer) {
    if (!peer.in_inbox) inbox_.add_sender(self_.credit);
    peer.in_inbox = true;
}

bool SmallMessages::send_to_self(const rwapi_small& small) {
    Peer& self = peers_.at(self_.rank);
    make_room(self);
    if (!self.receiver.on_arrival()) return false;
    inbox_.push({self_.rank, small});
    return true;
}

bool SmallMessages::receive(uint32_t& node, rwapi_small& small) {
    Inbox::Message message;
    if (!inbox_.pop(message)) return false;
    node = message.node;
    small = message.small;
    Peer& peer = peers_.at(node);
    const bool is_due = peer.receiver.on_received();
    if (node == self_.rank)
        peer.receiver.on_returned(peer.receiver.owed());
    else if (is_due)
        peers_.add_work(peer);
    return true;
}

void SmallMessages::on_small(std::span<const std::byte> message) {
    Header header;
    rwapi_small small;
    Peer* const peer = peers_.sender_of(message, header, small);
    if (peer == nullptr) return;
    add_credit(*peer, header.credit);
    if (!peer->receiver.on_arrival()) {
        peers_.report_dropped(peer->node, "a small message without credit");
        return;
    }
    make_room(*peer);
    inbox_.push({peer->node, small});
}

// The sender of a message that is only a header. Null: it is invalid.
Peer* SmallMessages::sender_of(std::span<const std::byte> message, Header& header) {
    if (message.size() != sizeof header) return nullptr;
    std::memcpy(&header, message.data(), sizeof header);
    return peers_.sender_of(header);
}

void SmallMessages::on_credit(std::span<const std::byte> message) {
    Header header;
    if (Peer* const peer = sender_of(message, header)) add_credit(*peer, header.credit);
}

void SmallMessages::on_goodbye(std::span<const std::byte> message) {
    Header header;
    if (Peer* const peer = sender_of(message, header)) peers_.on_left(*peer);
}

void SmallMessages::add_credit(Peer& peer, uint16_t units) {
    if (units != 0 && !peer.sender.add(units))
        peers_.report_dropped(peer.node, "credit for messages that this process has not sent");
}

}  // namespace rwapi
