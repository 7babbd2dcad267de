// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/engine/key_exchange.h"

#include <cstring>

#include "rwapi/base/log.h"

namespace rwapi {
namespace {

// The answer to a request, before it is packed.
struct Answer {
    Header header;
    uint64_t name;
    Key key;
    bool has_key;
};

constexpr size_t kFixed = sizeof(Header) + sizeof(uint64_t);  // of an answer

size_t pack_answer(void* to, void* from) {
    const Answer& answer = *static_cast<const Answer*>(from);
    auto* const bytes = static_cast<std::byte*>(to);
    std::memcpy(bytes, &answer.header, sizeof answer.header);
    std::memcpy(bytes + sizeof answer.header, &answer.name, sizeof answer.name);
    if (!answer.has_key) return kFixed;
    return kFixed + answer.key.pack(std::span(bytes + kFixed, Key::kMaxBytes));
}

}  // namespace

ucs_status_t KeyExchange::request(Peer& peer, uint64_t name) {
    if (peer.keys.awaited) return UCS_OK;
    const Header header{self_.rank, 0, 0, 0};
    const ucs_status_t status = uct_ep_am_short(peer.connection.endpoint.get(), kKeyRequest,
                                                header.pack(), &name, sizeof name);
    if (status == UCS_OK) peer.keys.awaited = name;
    return status;
}

void KeyExchange::on_request(std::span<const std::byte> message) {
    Header header;
    uint64_t name;
    Peer* const peer = peers_.sender_of(message, header, name);
    if (peer == nullptr) return;
    peer->keys.requested = name;
    peers_.add_work(*peer);
}

bool KeyExchange::send_answer(Peer& peer) {
    if (!peer.keys.requested) return true;
    Answer answer{{self_.rank, 0, 0, 0}, *peer.keys.requested, {}, false};
    answer.has_key = regions_.make_key(answer.name, answer.key);
    const ssize_t sent =
        uct_ep_am_bcopy(peer.connection.endpoint.get(), kKeyAnswer, pack_answer, &answer, 0);
    if (sent == UCS_ERR_NO_RESOURCE) return false;
    peer.keys.requested.reset();
    if (sent < 0) peers_.mark_failed(peer, static_cast<ucs_status_t>(sent));
    return true;
}

void KeyExchange::on_answer(std::span<const std::byte> message) {
    Header header;
    uint64_t name;
    if (message.size() < kFixed) return;
    Peer* const peer = peers_.sender_of(message.first(kFixed), header, name);
    if (peer == nullptr || peer->keys.awaited != name) return;
    peer->keys.awaited.reset();
    const NetAddress address = NetAddress::of_name(name);
    Key key;
    bool has_key = message.size() > kFixed;
    if (has_key && (!key.unpack(message.subspan(kFixed)) || key.node != peer->node ||
                    key.index != address.index || key.generation != address.generation ||
                    remotes_.add(*peer, address, &key) != RWAPI_OK)) {
        peers_.report_dropped(peer->node, "an invalid key");
        has_key = false;
    }
    if (!has_key) remotes_.add(*peer, address, nullptr);
    peers_.add_work(*peer);
}

}  // namespace rwapi
