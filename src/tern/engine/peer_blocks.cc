// SPDX-License-Identifier: BSD-3-Clause
#include "tern/engine/peer_blocks.h"

#include <utility>

#include "tern/base/trace.h"
#include "tern/connection/connector.h"
#include "tern/connection/little_endian.h"
#include "tern/engine/control_frames.h"
#include "tern/engine/work_requests.h"

namespace tern {

void PeerBlocks::on_malformed_credit(Channel& channel) {
    channel.receiving.deaf = true;
    connector_.fail(channel, Status::kProtocol, "its credit is for more than was written");
}

bool PeerBlocks::post_wrap(Channel& channel, uint32_t at) {
    const uint64_t word = channel.sending.path.block_word(FrameKind::kWrap, 0, 0, 0).raw();
    return requests_.write_inline(channel, &word, sizeof(word), channel.sending.block_address + at,
                                  channel.sending.block_rkey, false);
}

// Whether a refusal is the first of its series; `refuses` is true during the series. Later refusals
// test from time to time whether the peer lives.
bool PeerBlocks::is_first(Channel& channel, bool& refuses) {
    Channel::Sending& sending = channel.sending;
    if (!std::exchange(refuses, true)) {
        sending.refused = 0;
        sending.silent_since = 0;
        return true;
    }
    if (++sending.refused % kStallCheck == 0) requests_.check_silent(channel, sending.silent_since);
    return false;
}

Status PeerBlocks::on_stall(Channel& channel) {
    Channel::Sending& sending = channel.sending;
    if (!is_first(channel, sending.stalled)) return Status::kNoResource;
    sending.asked_for_frame = false;
    if (!sending.listed_stalled) {
        stalled_.push_back(&channel);
        sending.listed_stalled = true;
    }
    ++stalls_;
    if (sending.path.stalled()) control_.schedule(channel, Channel::kReleaseDue);
    return Status::kNoResource;
}

Status PeerBlocks::on_wait(Channel& channel) {
    // The block takes messages again when the put is complete.
    if (channel.sending.path.fenced() && !channel.failed) requests_.report_all(channel);
    if (is_first(channel, channel.sending.waits)) ++waits_;
    return Status::kNoResource;
}

bool PeerBlocks::on_allowance(Channel& channel, const std::byte* payload, uint32_t length) {
    AllowanceFrame frame;
    if (!unpack(frame, payload, length) || !frame.valid() ||
        !channel.sending.allowance.extend(static_cast<uint16_t>(frame.limit)))
        return false;
    channel.sending.waits = false;
    return true;
}

void PeerBlocks::on_detour(Channel& channel, uint32_t length) {
    if (channel.sending.path.detoured(length)) control_.schedule(channel, Channel::kReleaseDue);
}

bool PeerBlocks::on_offer(Channel& channel, const std::byte* payload, uint32_t length) {
    BlockOffer offer;
    if (!unpack(offer, payload, length)) return false;
    Channel::Sending& sending = channel.sending;
    if (!sending.path.take_offer(offer)) return false;
    ++channel.tally.blocks_taken;
    sending.block_address = offer.address;
    sending.block_rkey = offer.rkey;
    sending.stalled = false;
    choose_notification(channel, offer);
    hot_.push_back(&channel);
    fence(channel);  // there may have been one
    sending.credit_taken = 0;
    if (sending.words.at != nullptr)
        __atomic_store_n(&sending.words.at->credit, 0, __ATOMIC_RELAXED);
    TERN_TRACE("%s offers a block of %u bytes", channel.peer.to_string().c_str(), offer.size);
    return true;
}

// Chooses the notify word for frames in the new block.
void PeerBlocks::choose_notification(Channel& channel, const BlockOffer& offer) {
    Channel::Sending& sending = channel.sending;
    if ((offer.flags & BlockOffer::kNotify) != 0) {
        sending.notify = &notify::kAlways;
        return;
    }
    sending.in_order = true;
    // The words are kept for later blocks: the peer remembers their address, and what it has
    // written to the notify word.
    const bool first = sending.words.at == nullptr;
    if (first) sending.words = words_.take();
    // Without words the peer cannot ask for notifications when it sleeps, so it always gets them.
    const bool none = sending.words.at == nullptr;
    sending.notify = none ? &notify::kAlways : &sending.words.at->notify;
    // If there is room, before the first frame in the block.
    if (first && !none && !send_words(channel)) control_.schedule(channel, Channel::kWordsDue);
}

void PeerBlocks::hold(Channel& channel) {
    WorkRequests::post_held(channel);  // later messages must not go with those
    Channel::Sending& sending = channel.sending;
    sending.fenced_for = sending.last_put;
    if (sending.path.fenced()) return;
    sending.path.fence(true);
    sending.block_notify = std::exchange(sending.notify, &notify::kAlways);
}

void PeerBlocks::let_go(Channel& channel) {
    channel.sending.path.fence(false);
    channel.sending.notify = channel.sending.block_notify;
}

bool PeerBlocks::on_revoke(Channel& channel) {
    channel.sending.path.revoked();
    if (channel.sending.path.release_due()) control_.schedule(channel, Channel::kReleaseDue);
    return true;
}

bool PeerBlocks::send_words(Channel& channel) {
    const WriterWords::Words& words = channel.sending.words;
    const WordsAddress address{.address = address_of(words.at), .rkey = words.rkey};
    return control_.send(channel, ControlId::kWriterWords, &address, sizeof(address));
}

bool PeerBlocks::send_release(Channel& channel) {
    SendPath& path = channel.sending.path;
    if (!path.release_due()) return true;
    const Release release = path.release();
    if (!control_.send(channel, ControlId::kRelease, &release, sizeof(release))) return false;
    path.released();
    std::erase(hot_, &channel);
    if (path.fenced()) let_go(channel);
    TERN_TRACE("released the block of %s; it is asked for one of %u bytes",
               channel.peer.to_string().c_str(), release.requested_bytes);
    return true;
}

bool PeerBlocks::send_credit_request(Channel& channel) {
    if (!channel.sending.stalled || !channel.sending.path.hot()) return true;
    if (!control_.send(channel, ControlId::kCreditRequest, nullptr, 0)) return false;
    channel.sending.asked_for_frame = true;
    return true;
}

bool PeerBlocks::request_credit_frames() {
    bool room = false;
    std::erase_if(stalled_, [&](Channel* channel) {
        Channel::Sending& sending = channel->sending;
        const bool stalls = sending.stalled && !channel->failed;
        if (stalls && sending.path.hot()) {
            if (take_credit(*channel))
                room = true;
            else if (!sending.asked_for_frame && sending.words.at != nullptr)
                control_.schedule(*channel, Channel::kCreditRequestDue);
            return false;
        }
        // The block has been released, so sends go cold.
        room = room || stalls;
        sending.stalled = sending.listed_stalled = false;
        return true;
    });
    control_.send_due();
    return room;
}

void PeerBlocks::forget(Channel& channel) {
    std::erase(stalled_, &channel);
    std::erase(hot_, &channel);
    if (channel.sending.words.at != nullptr) words_.give(channel.sending.words);
}

}  // namespace tern
