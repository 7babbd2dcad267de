// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/engine/collectives.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "rwapi/core/messages.h"

namespace rwapi {
namespace {

constexpr size_t kBeforeItems = sizeof(Header) + sizeof(GatheredPart);  // of a message

}  // namespace

int Collectives::begin(const rwapi_net* own) {
    if (active_) return RWAPI_ERR_BUSY;
    std::vector<std::byte> item;
    if (own != nullptr) {
        item.resize(item_bytes());
        std::memcpy(item.data(), own, sizeof *own);
        remotes_.pack_own_key(*own, std::span(item).subspan(sizeof *own));
    }
    active_ = true;
    sent_ = 0;
    step_sent_ = false;
    gathering(++number_).begin(item);
    advance();
    return RWAPI_OK;
}

int Collectives::test(rwapi_net* all) {
    Gathering& current = gathering(number_);
    if (!current.over()) return 0;
    if (all != nullptr) {
        std::fill_n(all, self_.size, rwapi_net{});
        current.for_each([&](uint32_t node, std::span<const std::byte> item) {
            std::memcpy(&all[node], item.data(), sizeof *all);
            if (node != self_.rank) remotes_.keep(node, all[node], item.subspan(sizeof *all));
        });
    }
    const int result = current.missing() ? RWAPI_ERR_PEER : 1;
    current = empty();  // of the one after the next
    active_ = false;
    return result;
}

void Collectives::advance() {
    Gathering& current = gathering(number_);
    while (!current.over()) {
        step_sent_ = step_sent_ || send_step(current);
        if (!step_sent_ || !has_come(current)) return;
        current.finish_step();
        sent_ = 0;
        step_sent_ = false;
    }
}

// Sends what is left of this step. False: the peer is not connected, or the send queue is full.
bool Collectives::send_step(Gathering& current) {
    const uint32_t step = current.step();
    Peer& peer = peers_.at(current.to(step));
    if (!connector_.connect(peer)) {
        current.miss();
        return true;
    }
    const auto most =
        static_cast<uint32_t>((transport_.limits().am_bcopy - kBeforeItems) / item_bytes());
    for (bool last = false; !last;) {
        if (peer.failed || peer.left) return true;
        if (peer.state != PeerState::kReady) return false;
        const Header header{self_.rank, 0, current.missing(), 0};
        const std::span<const std::byte> some = current.outgoing(sent_, most);
        const auto items = static_cast<uint32_t>(some.size() / item_bytes());
        last = current.outgoing(sent_ + items, 1).empty();
        const GatheredPart part{number_, sent_, static_cast<uint8_t>(step), last, {}};
        const std::span<const std::byte> parts[] = {bytes_of(header), bytes_of(part), some};
        if (!peers_.send_long(peer, kGatheredPart, parts)) return false;
        sent_ += items;
    }
    return true;
}

// Whether all of this step has come, or nothing of it will.
bool Collectives::has_come(Gathering& current) {
    const uint32_t step = current.step();
    if (current.has_come(step)) return true;
    Peer& peer = peers_.at(current.from(step));
    // A peer that is in use is probed.
    (void)connector_.connect(peer);
    if (!peer.failed && !peer.left && ahead_[step] < number_) return false;
    current.miss(step);
    return true;
}

void Collectives::report(const Peer& peer) {
    peers_.report_dropped(peer.node, "a part of a barrier or exchange that does not fit");
}

void Collectives::on_part(std::span<const std::byte> message) {
    Header header;
    GatheredPart part;
    if (message.size() < kBeforeItems) return;
    Peer* const peer = peers_.sender_of(message.first(kBeforeItems), header, part);
    if (peer == nullptr) return;
    Gathering& gathered = gathering(part.number);
    const uint64_t first = active_ ? number_ : number_ + 1;
    if (part.number < first || part.step >= gathered.steps() ||
        peer->node != gathered.from(part.step)) {
        report(*peer);
        return;
    }
    if (part.number > number_ + 1) {
        ahead_[part.step] = part.number;
        return;
    }
    if (!gathered.on_part(part.step, part.first, message.subspan(kBeforeItems), part.last != 0)) {
        report(*peer);
        return;
    }
    if (header.kind != 0) gathered.miss();
}

}  // namespace rwapi
