// SPDX-License-Identifier: BSD-3-Clause
#include "tern/engine/control_frames.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "tern/base/trace.h"
#include "tern/engine/offered_blocks.h"
#include "tern/engine/peer_blocks.h"
#include "tern/engine/work_requests.h"

namespace tern {

namespace {

const char* name_of(uint32_t id) {
    static constexpr const char* kNames[] = {"credit",
                                             "offer of a block",
                                             "revocation of a block",
                                             "release of a block",
                                             "address of words",
                                             "request for credit",
                                             "allowance",
                                             "number of a message",
                                             "of the layer above"};  // by ControlId
    static_assert(std::size(kNames) == static_cast<size_t>(ControlId::kFirstTransfer) + 1);
    return kNames[std::min<size_t>(id, std::size(kNames) - 1)];
}

}  // namespace

bool ControlFrames::send(Channel& channel, ControlId id, const void* payload, uint32_t length,
                         bool of_user) {
    TERN_ASSERT(length <= kMaxControl);
    if (channel.failed || channel.sends.room() == 0) return channel.failed;
    alignas(8) std::byte frame[sizeof(Word) + kMaxControl];
    const Word word = channel.sending.path.cold_word(FrameKind::kControl, static_cast<uint32_t>(id),
                                                     length, channel.receiving.path.credit());
    memcpy(frame, &word, sizeof(word));
    if (length != 0) memcpy(frame + sizeof(word), payload, length);
    ibv_sge piece{.addr = address_of(frame),
                  .length = static_cast<uint32_t>(sizeof(word)) + length,
                  .lkey = 0};
    if (!requests_.post(channel, requests_.prepare(IBV_WR_SEND, &piece, 1, IBV_SEND_INLINE),
                        of_user))
        return true;
    channel.sending.path.sent_cold();
    channel.receiving.path.credit_sent();
    ++sent_;
    TERN_TRACE_DATA("sent control frame %u (%s), %u bytes, to %s", static_cast<unsigned>(id),
                    name_of(static_cast<uint32_t>(id)), length, channel.peer.to_string().c_str());
    return true;
}

bool ControlFrames::receive(Channel& channel, Word word, const std::byte* payload) {
    const uint32_t length = word.length();
    TERN_TRACE_DATA("received control frame %u (%s), %u bytes, from %s", word.id(),
                    name_of(word.id()), length, channel.peer.to_string().c_str());
    switch (static_cast<ControlId>(word.id())) {
        case ControlId::kCredit:
            channel.sending.asked_for_frame = false;
            return length == 0;
        case ControlId::kOffer:
            return peer_blocks_.on_offer(channel, payload, length);
        case ControlId::kRevoke:
            return length == 0 && peer_blocks_.on_revoke(channel);
        case ControlId::kRelease:
            return offered_.on_release(channel, payload, length);
        case ControlId::kWriterWords:
            return offered_.on_words(channel, payload, length);
        case ControlId::kCreditRequest:
            return length == 0 && offered_.on_credit_request(channel);
        case ControlId::kAllowance:
            return peer_blocks_.on_allowance(channel, payload, length);
        default:
            return false;
    }
}

std::string ControlFrames::describe(const Channel& channel, Word word, const std::byte* payload,
                                    uint32_t length) {
    static constexpr const char* kBlocks[] = {"no", "a", "a revoked"};
    const auto hex = [](uint64_t value, int digits) {
        char text[17];
        (void)snprintf(text, sizeof(text), "%0*llx", digits,
                       static_cast<unsigned long long>(value));
        return std::string(text);
    };
    const Channel::Receiving& receiving = channel.receiving;
    std::string text = "word 0x" + hex(word.raw(), 16) + ": kind " +
                       std::to_string(static_cast<unsigned>(word.kind())) + ", id " +
                       std::to_string(word.id());
    if (word.kind() == FrameKind::kControl)
        text.append(" (").append(name_of(word.id())).append(")");
    text += ", " + std::to_string(word.length()) + " bytes, behind " +
            std::to_string(word.sequence()) + " frames in blocks; " + std::to_string(length) +
            " bytes have come";
    constexpr uint32_t kMost = 32;
    if (length != 0) text += ": ";
    for (uint32_t i = 0; i < std::min(length, kMost); ++i)
        text += hex(static_cast<uint8_t>(payload[i]), 2);
    if (length > kMost) text += "...";
    return text + "; queue pair " + std::to_string(channel.qp->qp_num) + ", " +
           std::to_string(receiving.path.cold()) + " cold frames delivered, " +
           kBlocks[static_cast<unsigned>(receiving.path.block())] + " block offered" +
           (receiving.words != 0 ? ", its words are known" : "") +
           (channel.sending.path.hot() ? ", its block is in use" : "") +
           (channel.up() ? "" : ", the connection is not up");
}

void ControlFrames::schedule(Channel& channel, Channel::Due what) {
    channel.control.due |= what;
    if (channel.control.listed) return;
    due_.push_back(&channel);
    channel.control.listed = true;
}

void ControlFrames::send_due() {
    std::erase_if(due_, [this](Channel* channel) {
        if (!send_due(*channel)) return false;
        channel->control.listed = false;
        return true;
    });
    presses_ = false;
}

// False: some frames are still due.
bool ControlFrames::send_due(Channel& channel) {
    uint8_t& due = channel.control.due;
    if (channel.failed || !channel.up()) {
        // An ending connection needs no control frames; a new one has none due.
        due = 0;
        return true;
    }
    const auto send = [&due](Channel::Due what, auto&& frame) {
        if ((due & what) == 0) return true;
        if (!frame()) return false;
        due &= static_cast<uint8_t>(~what);
        return true;
    };
    // Another frame has carried the credit.
    if (!offered_.owes_credit(channel)) due &= static_cast<uint8_t>(~Channel::kCreditDue);
    return send(Channel::kAllowanceDue, [&] { return offered_.send_allowance(channel); }) &&
           send(Channel::kWordsDue, [&] { return peer_blocks_.send_words(channel); }) &&
           send(Channel::kReleaseDue, [&] { return peer_blocks_.send_release(channel); }) &&
           send(Channel::kOfferDue, [&] { return offered_.send_offer(channel); }) &&
           send(Channel::kRevokeDue,
                [&] { return this->send(channel, ControlId::kRevoke, nullptr, 0); }) &&
           send(Channel::kCreditDue, [&] { return offered_.return_credit(channel); }) &&
           send(Channel::kCreditRequestDue,
                [&] { return peer_blocks_.send_credit_request(channel); });
}

void ControlFrames::forget(Channel& channel) {
    std::erase(due_, &channel);
}

}  // namespace tern
