// SPDX-License-Identifier: BSD-3-Clause
#include "tern/engine/offered_blocks.h"

#include <algorithm>
#include <string>

#include "common/clock.h"
#include "tern/base/trace.h"
#include "tern/connection/little_endian.h"
#include "tern/engine/control_frames.h"
#include "tern/engine/owner.h"
#include "tern/engine/poller.h"
#include "tern/engine/resources.h"
#include "tern/engine/work_requests.h"

namespace tern {

namespace {

Channel& channel_of(const Promotion::Peer& peer) {
    return *static_cast<Channel*>(peer.owner);
}

}  // namespace

OfferedBlocks::OfferedBlocks(const EngineParts& parts)
    : pd_(parts.resources.pd),
      sizes_(parts.settings.block_first, parts.settings.block_most, parts.settings.block_memory),
      longest_(parts.settings.segment_size),
      receives_(*parts.resources.receives),
      polled_(parts.poller.polled_blocks()),
      control_(parts.control),
      requests_(parts.requests),
      sleep_(parts.sleep),
      owner_(parts.owner),
      budget_(parts.poller.budget()),
      promotion_(parts.settings.promotion) {}

// A block gains nothing if a completion has to be taken for each of its frames, as for cold ones.
void OfferedBlocks::decide(Channel& channel) {
    if (!channel.receiving.polls_memory) return;
    Promotion::Peer* victim = nullptr;
    switch (promotion_.decide(channel.receiving.activity, victim)) {
        case Promotion::Decision::kStay:
            break;
        case Promotion::Decision::kPromote:
            promotion_.promoted(channel.receiving.activity);
            control_.schedule(channel, Channel::kOfferDue);
            break;
        case Promotion::Decision::kReplace:
            revoke(channel_of(*victim));
            break;
    }
}

void OfferedBlocks::allow_more(Channel& channel) {
    control_.schedule(channel, Channel::kAllowanceDue);
}

// Half of the receives are for cold messages, and the others for all that nobody allows: control
// frames, notifications.
uint16_t OfferedBlocks::window(const Channel& channel) const {
    const Channel::Receiving& receiving = channel.receiving;
    const int64_t free = receives_.size() / 2 - (allowed_ - receiving.allowance.left());
    return allowance::window(senders_.number(), static_cast<uint32_t>(std::max<int64_t>(free, 0)),
                             cold_bytes(receiving));
}

// The length of the peer's cold messages, about. If it has a block, these are the ones that are too
// long for that.
uint32_t OfferedBlocks::cold_bytes(const Channel::Receiving& receiving) const {
    constexpr uint16_t kKnown = 16;  // messages: then the average is known
    if (receiving.repeats != nullptr) return repeat::kBytes;
    const bool unknown = receiving.activity.hot || receiving.allowance.limit() < kKnown;
    return unknown ? longest_ : receiving.usual_bytes;
}

bool OfferedBlocks::send_allowance(Channel& channel) {
    allowance::Given& given = channel.receiving.allowance;
    if (channel.sends.room() == 0) return false;
    const int16_t before = given.left();
    if (!given.extend(window(channel))) return true;  // there are more senders now
    allowed_ += given.left() - before;
    const AllowanceFrame frame{.limit = given.limit(), .reserved = 0};
    return control_.send(channel, ControlId::kAllowance, &frame, sizeof(frame));
}

void OfferedBlocks::end_window() {
    promotion_.end_window([this](Promotion::Peer& peer) { revoke(channel_of(peer)); });
}

void OfferedBlocks::revoke(Channel& channel) {
    if (channel.receiving.path.block() != ReceivePath::Block::kOffered) return;
    channel.receiving.path.revoke();
    control_.schedule(channel, Channel::kRevokeDue);
    TERN_TRACE("the block of %s is revoked", channel.peer.to_string().c_str());
}

bool OfferedBlocks::on_release(Channel& channel, const std::byte* payload, uint32_t length) {
    Release release;
    if (!unpack(release, payload, length)) return false;
    Channel::Receiving& receiving = channel.receiving;
    const bool revoked = receiving.path.block() == ReceivePath::Block::kRevoked;
    if (!receiving.path.released()) return false;
    ++counters_.demotions;
    drop(channel);
    channel.control.due &= static_cast<uint8_t>(~Channel::kRevokeDue);  // it was for this block
    receiving.requested_bytes = sizes_.requested(release.requested_bytes);
    TERN_TRACE("%s has released its block and asks for one of %u bytes",
               channel.peer.to_string().c_str(), receiving.requested_bytes);
    // A peer that asks for a larger block gets it at once, unless its block was revoked. Otherwise
    // it must qualify for promotion again.
    if (receiving.requested_bytes != 0 && !revoked)
        control_.schedule(channel, Channel::kOfferDue);
    else
        promotion_.demoted(receiving.activity);
    return true;
}

bool OfferedBlocks::on_words(Channel& channel, const std::byte* payload, uint32_t length) {
    WordsAddress words;
    if (!unpack(words, payload, length)) return false;
    // A peer with a polled block sends the address once.
    if (!words.valid() || !channel.receiving.polled || channel.receiving.words != 0) return false;
    channel.receiving.words = words.address;
    channel.receiving.words_rkey = words.rkey;
    channel.notifying.always = false;
    return true;
}

// The writer has found its block full and goes to sleep, from which only a frame wakes it. It may
// have read its credit word just before this side wrote to it.
bool OfferedBlocks::on_credit_request(Channel& channel) {
    channel.receiving.peer_wants_credit_frame = true;
    if (channel.receiving.path.credit_ahead()) control_.schedule(channel, Channel::kCreditDue);
    return true;
}

bool OfferedBlocks::send_offer(Channel& channel) {
    if (channel.sends.room() == 0) return false;
    if (!offer(channel)) promotion_.demoted(channel.receiving.activity);
    return true;
}

// False: the block cannot be registered.
bool OfferedBlocks::offer(Channel& channel) {
    Channel::Receiving& receiving = channel.receiving;
    TERN_ASSERT(receiving.path.block() == ReceivePath::Block::kNone && !receiving.polled);
    const auto [size, most, shift] =
        sizes_.next(channel.index, receiving.requested_bytes, receiving.usual_bytes,
                    static_cast<size_t>(counters_.block_bytes));
    if (!register_block(receiving.block, size + shift)) return false;
    std::byte* const base = receiving.block.data() + (receiving.block.size() - shift - size);
    receiving.path.offer(base, size);
    count_offer(channel);
    receiving.peer_wants_credit_frame = false;
    const BlockOffer offer{.address = address_of(base),
                           .rkey = receiving.block.rkey(),
                           .size = size,
                           .most = most,
                           .flags = 0};
    (void)control_.send(channel, ControlId::kOffer, &offer, sizeof(offer));
    polled_.add(channel);
    sleep_.on_offer(channel);
    TERN_TRACE("a block of %u bytes is offered to %s", size, channel.peer.to_string().c_str());
    return true;
}

bool OfferedBlocks::register_block(verbs::RegisteredMemory& block, size_t bytes) {
    // No relaxed ordering: the device must place the tail last.
    constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    const auto attempt = [&](uint64_t size) {
        block = verbs::RegisteredMemory(pd_, size, kAccess);
        return static_cast<bool>(block);
    };
    const uint64_t now = base::monotonic_ns();
    if (!shortage_.may_try(now)) return false;
    if (shortage_.obtain(bytes, bytes, now, attempt, owner_) != 0) return true;
    shortage_.tell(owner_);
    return false;
}

void OfferedBlocks::count_offer(Channel& channel) {
    ++counters_.promotions;
    ++channel.tally.blocks_offered;
    counters_.block_bytes += channel.receiving.block.size();
    counters_.block_bytes_most = std::max(counters_.block_bytes_most, counters_.block_bytes);
    counters_.hot_peers_most = std::max<uint64_t>(counters_.hot_peers_most, promotion_.hot());
}

bool OfferedBlocks::return_credit(Channel& channel) {
    Channel::Receiving& receiving = channel.receiving;
    // While the last write of the word is under way, a stream goes on by a frame.
    if (receiving.words == 0 || receiving.peer_wants_credit_frame ||
        receiving.path.credit_frame_due() ||
        (receiving.path.credit_pressing() && channel.sends.under_way(receiving.last_credit))) {
        if (!control_.send(channel, ControlId::kCredit, nullptr, 0)) return false;
        receiving.peer_wants_credit_frame = false;
        return true;
    }
    if (channel.failed || channel.sends.room() == 0) return channel.failed;
    if (!requests_.write_word(channel, receiving.path.credit_word(),
                              receiving.words + offsetof(WriterWords::Pair, credit),
                              receiving.words_rkey, receiving.last_credit, IBV_SEND_SIGNALED))
        return channel.failed;
    receiving.path.credit_written();
    ++counters_.credit_words;
    return true;
}

void OfferedBlocks::press_credit(Channel& channel) {
    if (!channel.sends.under_way(channel.receiving.last_credit)) {
        (void)return_credit(channel);
        return;
    }
    control_.schedule(channel, Channel::kCreditDue);
    control_.press();
    budget_.end();
}

// The sender has released the block, or the queue pair is in error.
void OfferedBlocks::drop(Channel& channel) {
    if (channel.receiving.polled) {
        sleep_.on_drop();
        polled_.remove(channel);
    }
    TERN_ASSERT(counters_.block_bytes >= channel.receiving.block.size());
    counters_.block_bytes -= channel.receiving.block.size();
    channel.receiving.block = {};
}

void OfferedBlocks::forget(Channel& channel) {
    if (channel.receiving.path.block() != ReceivePath::Block::kNone) drop(channel);
    if (channel.receiving.activity.hot) promotion_.demoted(channel.receiving.activity);
    allowed_ -= channel.receiving.allowance.left();
}

}  // namespace tern
