// SPDX-License-Identifier: BSD-3-Clause
#include "bench/scale/blocks.h"

#include <algorithm>
#include <vector>

#include "tern/engine/writer_words.h"

namespace bench::scale {

namespace {

using tern::Promotion;
using tern::SendPath;

Peer& peer_of(const Promotion::Peer& peer) {
    return *static_cast<Peer*>(peer.owner);
}

}  // namespace

bool Blocks::take(Peer& peer, uint32_t bytes) {
    peer.activity.owner = &peer;
    SendPath& path = peer.path;
    const SendPath::Choice choice = path.choose(bytes);
    const bool hot = choice.route == SendPath::Route::kBlock;
    if (hot) {
        path.sent_block(choice.plan);
        // The process reads it at once, and its credit returns with the next message.
        peer.freed += choice.plan.consumed;
        (void)path.credited(static_cast<uint16_t>(peer.freed / tern::Word::kUnit));
    } else {
        const bool larger = path.hot() && path.detoured(bytes);
        path.sent_cold();
        if (larger) release(peer, false);
    }
    if (promotion_.count(peer.activity)) {
        std::vector<Peer*> revoked;
        promotion_.end_window([&](Promotion::Peer& each) { revoked.push_back(&peer_of(each)); });
        for (Peer* each : revoked) release(*each, true);
    }
    if (!hot && !peer.activity.hot) {
        tern::BlockSizes::average(peer.usual_bytes, bytes);
        decide(peer);
    }
    return hot;
}

void Blocks::decide(Peer& peer) {
    Promotion::Peer* victim = nullptr;
    switch (promotion_.decide(peer.activity, victim)) {
        case Promotion::Decision::kStay:
            break;
        case Promotion::Decision::kPromote:
            promotion_.promoted(peer.activity);
            offer(peer);
            break;
        case Promotion::Decision::kReplace:
            release(peer_of(*victim), true);
            break;
    }
}

void Blocks::offer(Peer& peer) {
    const tern::BlockSizes::Size size =
        sizes_.next(peer.row, peer.requested_bytes, peer.usual_bytes, bytes_);
    peer.memory = size.memory();
    peer.freed = 0;
    ++offered_;
    (void)peer.path.take_offer(
        {.address = tern::kStep, .rkey = 0, .size = size.block, .most = size.most, .flags = 0});
    if (!peer.has_words) words_most_ = std::max(words_most_, ++words_);
    peer.has_words = true;
    bytes_ += peer.memory;
    const size_t words =
        (words_most_ * sizeof(tern::WriterWords::Pair) + tern::WriterWords::kChunk - 1) /
        tern::WriterWords::kChunk * tern::WriterWords::kChunk;
    most_ = std::max(most_, bytes_ + words);
}

void Blocks::release(Peer& peer, bool revoked) {
    peer.requested_bytes = sizes_.requested(peer.path.release().requested_bytes);
    drop(peer);
    if (peer.requested_bytes != 0 && !revoked)
        offer(peer);
    else
        promotion_.demoted(peer.activity);
}

void Blocks::drop(Peer& peer) {
    peer.path.released();
    bytes_ -= peer.memory;
    peer.memory = 0;
}

void Blocks::forget(Peer& peer) {
    if (peer.memory != 0) drop(peer);
    if (peer.activity.hot) promotion_.demoted(peer.activity);
    if (peer.has_words) --words_;
}

}  // namespace bench::scale
