// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/transport/multicast.h"

#include <algorithm>
#include <cerrno>

namespace softhca {

namespace {

// The first of this process's entries that fits; nullptr if there is none. With the lock held.
template <typename Fits>
Attachment* find_attachment(ProcessSlot& self, Fits&& fits) {
    const uint32_t used = self.attachments.used.load(std::memory_order_relaxed);
    Attachment* const end = self.attachments.entries + used;
    Attachment* const found = std::find_if(self.attachments.entries, end, fits);
    return found == end ? nullptr : found;
}

bool names(const Attachment& at, uint32_t qp) {
    return at.qp.load(std::memory_order_relaxed) == qp;
}

}  // namespace

int attach(Adapter& adapter, uint32_t qp, const GroupName& group, uint16_t lid) {
    const std::lock_guard lock(adapter.group_mutex);
    ProcessSlot& self = adapter.host().self();
    const Attachment* const before = find_attachment(
        self, [&](const Attachment& at) { return names(at, qp) && is_of(at, group); });
    if (before != nullptr) return before->lid == lid ? 0 : EINVAL;
    Attachment* at = find_attachment(self, [](const Attachment& each) { return names(each, 0); });
    const uint32_t used = self.attachments.used.load(std::memory_order_relaxed);
    const bool grows = at == nullptr;
    if (grows && used == kMaxAttachments) return ENOMEM;
    if (grows) at = &self.attachments.entries[used];
    at->lid = lid;
    for (int i = 0; i < 2; ++i) at->gid[i].store(group.words[i], std::memory_order_relaxed);
    at->qp.store(qp, std::memory_order_release);
    if (grows) self.attachments.used.store(used + 1, std::memory_order_release);
    return 0;
}

bool detach(Adapter& adapter, uint32_t qp, const GroupName& group, uint16_t lid) {
    const std::lock_guard lock(adapter.group_mutex);
    Attachment* const at = find_attachment(adapter.host().self(), [&](const Attachment& each) {
        return names(each, qp) && is_of(each, group) && each.lid == lid;
    });
    if (at == nullptr) return false;
    at->qp.store(0, std::memory_order_seq_cst);
    // Before the entry may be another group's, all senders have done with it.
    adapter.host().wait_for_accesses();
    return true;
}

bool is_attached(Adapter& adapter, uint32_t qp) {
    const std::lock_guard lock(adapter.group_mutex);
    return find_attachment(adapter.host().self(),
                           [&](const Attachment& at) { return names(at, qp); }) != nullptr;
}

}  // namespace softhca
