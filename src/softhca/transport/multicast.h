// SPDX-License-Identifier: BSD-3-Clause
// Multicast groups. Each process lists what its queue pairs are attached to; a message to a group
// looks through the lists of all processes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "softhca/transport/adapter.h"

namespace softhca {

// The GID of a group.
struct GroupName {
    explicit GroupName(const uint8_t* gid) { std::memcpy(words, gid, sizeof words); }
    uint64_t words[2];
};

// Whether an entry is of the group. The caller looks whether it is in use.
inline bool is_of(const Attachment& at, const GroupName& group) {
    return at.gid[0].load(std::memory_order_relaxed) == group.words[0] &&
           at.gid[1].load(std::memory_order_relaxed) == group.words[1];
}

// 0, EINVAL if the queue pair is attached to the group by another LID, or ENOMEM. To attach it
// again has no effect.
int attach(Adapter& adapter, uint32_t qp, const GroupName& group, uint16_t lid);
// False if the queue pair is not attached. On return no message of the group comes any more.
bool detach(Adapter& adapter, uint32_t qp, const GroupName& group, uint16_t lid);
// Whether a queue pair of this process is attached to any group.
bool is_attached(Adapter& adapter, uint32_t qp);

// Calls `visit(qp)` for each queue pair that is attached to the group, under an AccessGuard on its
// process, which lives.
template <typename Visit>
void for_each_attached(Host& host, const GroupName& group, Visit&& visit) {
    host.for_each_member([&](uint32_t slot) {
        ProcessSlot& process = host.process(slot);
        if (process.attachments.used.load(std::memory_order_acquire) == 0) return;
        const AccessGuard guard(host, slot);
        if (!host.alive(slot)) return;
        const uint32_t used = process.attachments.used.load(std::memory_order_acquire);
        for (uint32_t i = 0; i < std::min(used, kMaxAttachments); ++i) {
            const Attachment& at = process.attachments.entries[i];
            // Pairs with the owner, which withdraws the number and then reads the guards.
            const uint32_t qp = at.qp.load(std::memory_order_seq_cst);
            if (qp != 0 && is_of(at, group)) visit(qp);
        }
    });
}

}  // namespace softhca
