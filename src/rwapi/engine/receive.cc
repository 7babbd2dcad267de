// SPDX-License-Identifier: BSD-3-Clause

// Messages from peers. Nothing in them is trusted: what makes no sense is dropped and reported.

#include <algorithm>
#include <atomic>
#include <cstring>

#include "rwapi/base/log.h"
#include "rwapi/engine/engine.h"

namespace rwapi {

void Engine::complain(uint32_t node, const char* what) {
    Peer& peer = peer_of(node);
    if (peer.complained) return;
    peer.complained = true;
    log_error("node %u sent %s; it is dropped, and later ones in silence", node, what);
}

Peer* Engine::sender_of(const Header& header) {
    if (header.node >= size_ || header.node == rank_) {
        complain(rank_, "to itself a message that names no peer");
        return nullptr;
    }
    return &peer_of(header.node);
}

void Engine::take_credit(Peer& peer, uint16_t credit) {
    if (credit != 0 && !peer.sender.give(credit))
        complain(peer.node, "credit for messages that it was never sent");
}

void Engine::on_small(std::span<const std::byte> message) {
    Header header;
    rwapi_small small;
    Peer* peer;
    if (!parse(message, header, small) || (peer = sender_of(header)) == nullptr) return;
    take_credit(*peer, header.credit);
    if (!peer->receiver.came()) {
        complain(peer->node, "a small message without credit");
        return;
    }
    if (!peer->sends) inbox_.add_sender(settings_.credit);
    peer->sends = true;
    inbox_.push({peer->node, small});
}

void Engine::on_credit(std::span<const std::byte> message) {
    Header header;
    if (message.size() != sizeof header) return;
    std::memcpy(&header, message.data(), sizeof header);
    if (Peer* const peer = sender_of(header)) take_credit(*peer, header.credit);
}

void Engine::on_notice(std::span<const std::byte> message) {
    Header header;
    Notice notice;
    if (!parse(message, header, notice)) return;
    if (header.node >= size_ || header.node == rank_) {
        sender_of(header);
        return;
    }
    if (!apply(static_cast<NoticeKind>(header.kind), notice)) refuse(header.node, notice);
}

// A notification that was not applied. If the memory has been given back, the sender is told.
void Engine::refuse(uint32_t node, const Notice& notice) {
    int error;
    mine_.find(notice.index, notice.generation, error);
    if (error != RWAPI_ERR_STALE) {
        complain(node, "a notification that its key does not allow");
        return;
    }
    complain(node, "a notification for memory that has been given back, and is told so");
    Peer& peer = peer_of(node);
    const uint64_t name = NetAddress{rank_, notice.generation, notice.index, 0}.name();
    if (std::ranges::find(peer.refused, name) == peer.refused.end()) peer.refused.push_back(name);
    make_busy(peer);
}

// Notifications of this process have come to nothing: the next flush tells, and later uses of the
// region's keys.
void Engine::on_refusal(std::span<const std::byte> message) {
    Header header;
    uint64_t name;
    Peer* peer;
    if (!parse(message, header, name) || (peer = sender_of(header)) == nullptr) return;
    const NetAddress region = NetAddress::of_name(name);
    if (region.node != peer->node) return;
    peer->lost = RWAPI_ERR_STALE;
    remotes_.for_each([&](Remote& remote) {
        const Key& key = remote.key;
        if (remote.peer == peer && key.index == region.index && key.generation == region.generation)
            mark_stale(remote);
    });
}

// False: it is not allowed, and nothing is changed.
bool Engine::apply(NoticeKind kind, const Notice& notice) {
    int error;
    Mine* const mine = mine_.find(notice.index, notice.generation, error);
    if (mine == nullptr || !(mine->rights & RWAPI_WRITE)) return false;
    switch (kind) {
        case NoticeKind::kSet:
        case NoticeKind::kAdd: {
            std::byte* const place = mine->address + notice.place;
            if (!(mine->rights & RWAPI_SIGNAL) ||
                !within(notice.place, sizeof(uint64_t), mine->length) ||
                reinterpret_cast<uintptr_t>(place) % sizeof(uint64_t) != 0)
                return false;
            // Other threads of the program may look at the word.
            std::atomic_ref<uint64_t> word(*reinterpret_cast<uint64_t*>(place));
            if (kind == NoticeKind::kSet)
                word.store(notice.value, std::memory_order_release);
            else
                word.fetch_add(notice.value, std::memory_order_release);
            break;
        }
        case NoticeKind::kSlot:
            if (notice.place >= slots_.count() || notice.value == 0) return false;
            slots_.notify(static_cast<uint32_t>(notice.place), notice.value);
            break;
        case NoticeKind::kCount:
            break;
        default:
            return false;
    }
    if (mine->counter != 0) {
        if (Counter* const counter = counters_.find(mine->counter, error)) {
            ++counter->writes;
            counter->bytes += notice.bytes;
        } else {
            mine->counter = 0;
        }
    }
    return true;
}

void Engine::on_key_request(std::span<const std::byte> message) {
    Header header;
    uint64_t name;
    Peer* peer;
    if (!parse(message, header, name) || (peer = sender_of(header)) == nullptr) return;
    // A peer asks for one key at a time.
    peer->key_wanted = name;
    make_busy(*peer);
}

void Engine::on_key_answer(std::span<const std::byte> message) {
    Header header;
    uint64_t name;
    constexpr size_t kFixed = sizeof header + sizeof name;
    Peer* peer;
    if (message.size() < kFixed || !parse(message.first(kFixed), header, name) ||
        (peer = sender_of(header)) == nullptr || !peer->key_asked)
        return;
    peer->key_asked = false;
    const NetAddress region = NetAddress::of_name(name);
    uint64_t handle = 0;
    Key key;
    if (message.size() > kFixed &&
        (!key.unpack(message.subspan(kFixed)) || key.node != peer->node ||
         key.index != region.index || key.generation != region.generation ||
         add_remote(key, handle) != RWAPI_OK))
        complain(peer->node, "a key that makes no sense");
    Peer::KnownKey& known = peer->keys[region.index];
    int error;
    // It is released when its last operation has ended.
    Remote* const old = remotes_.find(known.region, error);
    if (old != nullptr && --old->users == 0) release(*old);
    known = {region.generation, handle};
    make_busy(*peer);
}

void Engine::on_wire(std::span<const std::byte> message) {
    Wire wire;
    Header header;
    constexpr size_t kFixed = sizeof header + sizeof wire.incarnation;
    if (message.size() < kFixed || !parse(message.first(kFixed), header, wire.incarnation) ||
        sender_of(header) == nullptr)
        return;
    wire.node = header.node;
    wire.connected = header.kind != 0;
    wire.endpoint.assign(message.begin() + kFixed, message.end());
    wires_.push_back(std::move(wire));
}

// Connects endpoint to endpoint. Each side tells the other its address, and again once it is
// connected; it sends other messages after the other side is connected, too.
void Engine::take_wires() {
    std::vector<Wire> wires;
    wires.swap(wires_);
    for (const Wire& wire : wires) {
        Peer& peer = peer_of(wire.node);
        connect(peer);
        if (peer.failed || peer.state == PeerState::kReady) continue;
        // A message of a process that had this number before, in a fabric that lives on.
        if (wire.incarnation != peer.greeting.incarnation) continue;
        if (!peer.connected) {
            const ucs_status_t status =
                transport_.connect_to(peer.endpoint, peer.address, wire.endpoint);
            if (status != UCS_OK) {
                mark_failed(peer, status);
                continue;
            }
            peer.connected = true;
            peer.wire_due = true;
        }
        if (wire.connected) peer.peer_connected = true;
        if (peer.connected && peer.peer_connected) peer.state = PeerState::kReady;
        make_busy(peer);
    }
}

}  // namespace rwapi
