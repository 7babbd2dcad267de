// SPDX-License-Identifier: BSD-3-Clause
#include "tern/uct/tag_sends.h"

#include "common/assert.h"
#include "tern/base/trace.h"
#include "tern/connection/little_endian.h"

namespace tern {

TagSend& TagSends::take() {
    if (free_.empty()) {
        sends_.push_back(std::make_unique<TagSend>());
        sends_.back()->number = sends_.size() - 1;
        free_.push_back(sends_.back().get());
    }
    TagSend* send = free_.back();
    free_.pop_back();
    return *send;
}

void TagSends::give(TagSend& send) {
    TERN_ASSERT(!send.under_way || under_way_ != 0);
    under_way_ -= send.under_way;
    if (send.early_copy != 0) rendezvous_.drop_early_copy(send.early_copy);
    send = {.number = send.number + (uint64_t{1} << 32)};
    free_.push_back(&send);
}

void TagSends::request_reports(Engine& engine) const {
    for (const auto& send : sends_)
        if (send->under_way) engine.flushing()->request_report(*send->channel);
}

bool TagSends::finished(const Channel& channel, const std::byte* data, uint32_t length) {
    TagFinish frame;
    if (!unpack(frame, data, length)) return false;
    const uint64_t index = frame.operation & UINT32_MAX;
    if (frame.result > TagFinish::kFailed || index >= sends_.size()) return false;
    TagSend& send = *sends_[index];
    if (send.under_way && send.number == frame.operation && send.channel == &channel)
        over(send, frame.result == TagFinish::kTaken ? UCS_OK : UCS_ERR_IO_ERROR);
    return true;
}

void TagSends::over(TagSend& send, ucs_status_t status) {
    TERN_TRACE("tag send %llu is over: %s", static_cast<unsigned long long>(send.number),
               ucs_status_string(status));
    uct_completion_t* completion = send.completion;
    give(send);
    if (completion != nullptr) uct_invoke_completion(completion, status);
}

void TagSends::placed(uct_completion_t* completion) {
    TagSend& send = *ucs_container_of(completion, TagSend, placed);
    TERN_ASSERT(send.owner != nullptr && !send.under_way);
    send.owner->over(send, completion->status);
}

// By index: completion callbacks may begin sends.
template <class Which>
bool TagSends::end_all(Which&& which, ucs_status_t status) {
    bool any = false;
    for (size_t i = 0; i < sends_.size(); ++i) {
        if (!sends_[i]->under_way || !which(*sends_[i])) continue;
        over(*sends_[i], status);
        any = true;
    }
    return any;
}

bool TagSends::ended(const Channel& channel, Status status) {
    return end_all([&](const TagSend& send) { return send.channel == &channel; }, to_ucs(status));
}

void TagSends::left(const TernEp& ep) {
    (void)end_all([&](const TagSend& send) { return send.ep == &ep; }, UCS_ERR_CANCELED);
}

}  // namespace tern
