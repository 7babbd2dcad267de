// SPDX-License-Identifier: BSD-3-Clause

// Control frames and blocks: promotion, demotion, credit that no other frame carries; and failures.

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "connection/little_endian.h"
#include "engine/engine_poll.h"
#include "engine/engine_send.h"

namespace tern {

bool Engine::control(Channel& channel, Word word, const std::byte* payload) {
    switch (static_cast<ControlId>(word.id())) {
        case ControlId::kCredit:
            channel.called = false;
            return word.length() == 0;
        case ControlId::kOffer:
            return granted(channel, payload, word.length());
        case ControlId::kRevoke:
            channel.tx.revoked();
            if (channel.tx.release_due()) schedule_control(channel, Channel::kReleaseDue);
            return word.length() == 0;
        case ControlId::kRelease:
            return released(channel, payload, word.length());
        case ControlId::kWriterWords:
            return words_address(channel, payload, word.length());
        case ControlId::kCreditRequest:
            if (word.length() != 0) return false;
            called(channel);
            return true;
        default:
            return false;
    }
    return false;
}

bool Engine::granted(Channel& channel, const std::byte* payload, uint32_t length) {
    BlockOffer grant;
    if (!unpack(grant, payload, length)) return false;
    if (!channel.tx.take_offer(grant)) return false;
    channel.block_address = grant.address;
    channel.block_rkey = grant.rkey;
    channel.stalled = false;
    choose_notification(channel, grant);
    channel.credit_taken = 0;
    if (channel.words.at != nullptr)
        __atomic_store_n(&channel.words.at->credit, 0, __ATOMIC_RELAXED);
    return true;
}

// Chooses the notify word for frames in the new block.
void Engine::choose_notification(Channel& channel, const BlockOffer& grant) {
    if ((grant.flags & BlockOffer::kNotify) != 0) {
        channel.notify = &notify::kAlways;
        return;
    }
    // The words are kept for later blocks: the peer remembers their address and the value of this
    // one.
    const bool first = channel.words.at == nullptr;
    if (first) channel.words = writer_words_.take();
    // Without words the peer cannot tell that it sleeps, so it is always notified.
    const bool none = channel.words.at == nullptr;
    channel.notify = none ? &notify::kAlways : &channel.words.at->notify;
    // If there is room, before the first frame in the block.
    if (first && !none && !tell_words(channel)) schedule_control(channel, Channel::kWordsDue);
}

// False: there is no room now.
bool Engine::tell_words(Channel& channel) {
    const WordsAddress address{.address = address_of(channel.words.at), .rkey = channel.words.rkey};
    return send_control(channel, ControlId::kWriterWords, &address, sizeof(address));
}

bool Engine::words_address(Channel& channel, const std::byte* payload, uint32_t length) {
    WordsAddress words;
    if (!unpack(words, payload, length)) return false;
    // A peer with a polled block sends the address once.
    if (!words.valid() || !channel.polled || channel.peer_words != 0) return false;
    channel.peer_words = words.address;
    channel.peer_words_rkey = words.rkey;
    channel.always = false;
    return true;
}

bool Engine::released(Channel& channel, const std::byte* payload, uint32_t length) {
    Release release;
    if (!unpack(release, payload, length)) return false;
    const bool revoked = channel.rx.block() == ReceivePath::Block::kRevoked;
    if (!channel.rx.released()) return false;
    ++counters_.demotions;
    drop_block(channel);
    channel.due &= static_cast<uint8_t>(~Channel::kRevokeDue);  // it was for this block
    channel.requested_block_bytes = std::min(release.requested_bytes & ~(Word::kUnit - 1), settings_.block_most);
    // A peer that wishes for a larger block gets it at once, unless its block was revoked.
    // Otherwise it must qualify for promotion again.
    if (channel.requested_block_bytes != 0 && !revoked)
        schedule_control(channel, Channel::kOfferDue);
    else
        promotion_.demoted(channel.activity);
    return true;
}

// Called after a cold message. A block gains nothing if a completion has to be taken for each of
// its frames, as for cold ones.
void Engine::judge(Channel& channel) {
    if (!channel.polls_memory) return;
    Promotion::Peer* victim = nullptr;
    switch (promotion_.decide(channel.activity, victim)) {
        case Promotion::Decision::kStay:
            break;
        case Promotion::Decision::kPromote:
            promotion_.promoted(channel.activity);
            schedule_control(channel, Channel::kOfferDue);
            break;
        case Promotion::Decision::kReplace:
            revoke(*static_cast<Channel*>(victim->owner));
            break;
    }
}

void Engine::sweep() {
    promotion_.end_window([this](Promotion::Peer& peer) { revoke(*static_cast<Channel*>(peer.owner)); });
}

void Engine::revoke(Channel& channel) {
    if (channel.rx.block() != ReceivePath::Block::kOffered) return;
    channel.rx.revoke();
    schedule_control(channel, Channel::kRevokeDue);
}

void Engine::schedule_control(Channel& channel, Channel::Due what) {
    channel.due |= what;
    if (channel.listed) return;
    channel.listed = true;
    due_channels_.push_back(&channel);
}

void Engine::send_due_control() {
    if (due_channels_.empty()) return;
    std::erase_if(due_channels_, [this](Channel* channel) {
        if (!send_due_control(*channel)) return false;
        channel->listed = false;
        return true;
    });
}

// Sends the control frames that are due. False: some still are.
bool Engine::send_due_control(Channel& channel) {
    if (channel.failed || !channel.up()) {
        // An ending connection needs no control frames; a new one has none due.
        channel.due = 0;
        return true;
    }
    // Another frame has carried the credit.
    if (!channel.rx.credit_due() && !(channel.calls && channel.rx.credit_ahead()))
        channel.due &= static_cast<uint8_t>(~Channel::kCreditDue);
    if ((channel.due & Channel::kWordsDue) != 0) {
        if (!tell_words(channel)) return false;
        channel.due &= static_cast<uint8_t>(~Channel::kWordsDue);
    }
    if ((channel.due & Channel::kReleaseDue) != 0) {
        if (channel.tx.release_due()) {
            const Release release = channel.tx.release();
            if (!send_control(channel, ControlId::kRelease, &release, sizeof(release)))
                return false;
            channel.tx.released();
        }
        channel.due &= static_cast<uint8_t>(~Channel::kReleaseDue);
    }
    if ((channel.due & Channel::kOfferDue) != 0) {
        if (channel.sends.room() == 0) return false;
        if (!grant_block(channel)) promotion_.demoted(channel.activity);
        channel.due &= static_cast<uint8_t>(~Channel::kOfferDue);
    }
    if ((channel.due & Channel::kRevokeDue) != 0) {
        if (!send_control(channel, ControlId::kRevoke, nullptr, 0)) return false;
        channel.due &= static_cast<uint8_t>(~Channel::kRevokeDue);
    }
    if ((channel.due & Channel::kCreditDue) != 0) {
        if (!pay_credit(channel)) return false;
        channel.due &= static_cast<uint8_t>(~Channel::kCreditDue);
    }
    if ((channel.due & Channel::kCreditRequestDue) != 0) {
        if (channel.stalled && channel.tx.hot()) {
            if (!send_control(channel, ControlId::kCreditRequest, nullptr, 0)) return false;
            channel.called = true;
        }
        channel.due &= static_cast<uint8_t>(~Channel::kCreditRequestDue);
    }
    return true;
}

// Tells the writer how much of its block is free: by a write to its credit word, which costs it no
// receive and no completion, or by a frame. False: there is no room now.
bool Engine::pay_credit(Channel& channel) {
    if (channel.peer_words == 0 || channel.calls || channel.rx.credit_frame_due()) {
        if (!send_control(channel, ControlId::kCredit, nullptr, 0)) return false;
        channel.calls = false;
        return true;
    }
    if (channel.failed || channel.sends.room() == 0) return channel.failed;
    const uint32_t freed = channel.rx.credit_word();
    if (write_inline(channel, &freed, sizeof(freed),
                     channel.peer_words + offsetof(WriterWords::Pair, credit),
                     channel.peer_words_rkey, false)) {
        channel.rx.credit_written();
        ++counters_.credit_words;
    }
    return true;
}

// The writer has found its block full and goes to sleep, from which only a frame wakes it. It may
// have read its credit word just before this side wrote to it.
void Engine::called(Channel& channel) {
    channel.calls = true;
    if (channel.rx.credit_ahead()) schedule_control(channel, Channel::kCreditDue);
}

// Control frames go cold, where they need no credit, and where a receiver that sleeps or polls only
// its completion queue sees them.
bool Engine::send_control(Channel& channel, ControlId id, const void* payload, uint32_t length,
                          bool of_user) {
    if (channel.failed || channel.sends.room() == 0) return channel.failed;
    alignas(8) std::byte frame[sizeof(Word) + kMaxControl];
    const Word word = channel.tx.cold_word(FrameKind::kControl, static_cast<uint32_t>(id), length,
                                           channel.rx.credit());
    memcpy(frame, &word, sizeof(word));
    if (length != 0) memcpy(frame + sizeof(word), payload, length);
    ibv_sge piece{.addr = address_of(frame),
                  .length = static_cast<uint32_t>(sizeof(word)) + length,
                  .lkey = 0};
    if (!post(channel, prepare(IBV_WR_SEND, &piece, 1, IBV_SEND_INLINE), of_user)) return true;
    channel.tx.sent_cold();
    channel.rx.credit_sent();
    ++counters_.sent_cold;
    return true;
}

bool Engine::grant_block(Channel& channel) {
    // Blocks begin on pages. If they all ended there too, the words that a poll looks at would
    // compete for one set of the cache. So each peer's block ends a few lines earlier.
    const uint32_t shift = channel.index % kColours * kCacheLine;
    const auto pages = [](uint32_t bytes) { return (bytes + kPage - 1) & ~(kPage - 1); };
    const uint32_t most = std::min(settings_.block_most, pages(settings_.block_most) - shift);
    const uint32_t wanted = std::max(channel.requested_block_bytes, settings_.block_first);
    const uint32_t size = std::min(wanted < kPage ? wanted : pages(wanted) - shift, most);
    // No relaxed ordering: the device must place the tail last.
    channel.block = verbs::RegisteredMemory(pd_, size + shift,
                                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (!channel.block) {
        if (!told_block_)
            owner_.warn("cannot register " + std::to_string(size) + " bytes for a block (" +
                        strerror(errno) + "): messages from " + channel.peer.to_string() +
                        " stay on the slower path; raise the limit of locked memory (ulimit -l) or "
                        "lower UCX_TERN_HOT_MAX");
        told_block_ = true;
        return false;
    }
    std::byte* const base = channel.block.data() + (channel.block.size() - shift - size);
    channel.rx.offer(base, size);
    channel.calls = false;
    const BlockOffer grant{.address = address_of(base),
                           .rkey = channel.block.rkey(),
                           .size = size,
                           .most = most,
                           .flags = 0};
    (void)send_control(channel, ControlId::kOffer, &grant, sizeof(grant));
    begin_polling(channel);
    // The peer was told to notify of an earlier block, and must be told to stop.
    if (channel.telling != 0 && !sleeper_ && !tell(channel, 0)) sleeper_ = true;
    ++counters_.promotions;
    counters_.block_bytes += channel.block.size();
    counters_.block_bytes_most = std::max(counters_.block_bytes_most, counters_.block_bytes);
    counters_.hot_peers_most = std::max<uint64_t>(counters_.hot_peers_most, promotion_.hot());
    return true;
}

void Engine::begin_polling(Channel& channel) {
    channel.polled = true;
    channel.hot_index = static_cast<uint32_t>(polled_.size());
    if (channel.hot_index == tails_.size()) tails_.resize(tails_.size() + kGroup, &kNoTail);
    polled_.push_back(&channel);
    update_polled(channel);
}

// The last of the polled channels takes the place.
void Engine::end_polling(Channel& channel) {
    Channel* last = polled_.back();
    polled_.pop_back();
    tails_[last->hot_index] = &kNoTail;
    channel.polled = false;
    if (last != &channel) {
        last->hot_index = channel.hot_index;
        polled_[last->hot_index] = last;
        update_polled(*last);
    }
    if (polled_.size() + kGroup == tails_.size()) tails_.resize(polled_.size());
}

// The sender has released the block, or the queue pair is in error.
void Engine::drop_block(Channel& channel) {
    if (channel.polled) {
        (void)watch_.withdraw();
        end_polling(channel);
    }
    counters_.block_bytes -= channel.block.size();
    channel.block = {};
}

void Engine::malformed(Channel& channel, const char* what) {
    connector_->fail(channel, Status::kProtocol, what);
}

void Engine::failed_send(Channel& channel, const ibv_wc& completion) {
    if (channel.failed) return;
    Status status = Status::kDevice;
    switch (completion.status) {
        case IBV_WC_RETRY_EXC_ERR:
        case IBV_WC_RNR_RETRY_EXC_ERR:
            status = Status::kTimedOut;
            break;
        case IBV_WC_WR_FLUSH_ERR:
        case IBV_WC_REM_ABORT_ERR:
            status = Status::kConnectionReset;
            break;
        case IBV_WC_REM_ACCESS_ERR:
            status = Status::kRemoteAccess;
            break;
        case IBV_WC_REM_INV_REQ_ERR:
        case IBV_WC_REM_OP_ERR:
            status = Status::kProtocol;
            break;
        default:
            break;
    }
    connector_->fail(channel, status,
                     std::string("a work request failed: ") + ibv_wc_status_str(completion.status));
}

void Engine::failed_receive(const ibv_wc& completion) {
    // The failure of the queue pair is known already.
    if (completion.status == IBV_WC_WR_FLUSH_ERR) return;
    Channel* channel = receiver(completion.qp_num);
    if (channel != nullptr)
        connector_->fail(*channel, Status::kProtocol,
                         std::string("a receive failed: ") + ibv_wc_status_str(completion.status));
}

}  // namespace tern
