// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>

#include "rwapi/core/net.h"
#include "rwapi/engine/operation.h"
#include "rwapi/engine/peer.h"
#include "rwapi/engine/region.h"
#include "rwapi/transport/transport.h"

namespace rwapi {

// Whether the key of a region permits a put, get or atomic operation. RWAPI_OK, or the error of the
// call.
[[gnu::always_inline]] inline int check_access(const Key& key, Task task,
                                               const Transfer& transfer) {
    const bool notified = transfer.kind != NotificationKind::kNone;
    if (!within(transfer.offset, transfer.length, key.length)) return RWAPI_ERR_RANGE;
    if (is_atomic(task)) {
        if ((key.rights & RWAPI_ALL) != RWAPI_ALL) return RWAPI_ERR_RIGHTS;
        if ((key.address + transfer.offset) % sizeof(uint64_t) != 0) return RWAPI_ERR_INVALID;
    }
    if (is_get(task) && !(key.rights & RWAPI_READ)) return RWAPI_ERR_RIGHTS;
    if (!is_get(task) && (transfer.length > 0 || notified) && !(key.rights & RWAPI_WRITE))
        return RWAPI_ERR_RIGHTS;
    if (transfer.kind == NotificationKind::kSet || transfer.kind == NotificationKind::kAdd) {
        if (!(key.rights & RWAPI_SIGNAL)) return RWAPI_ERR_RIGHTS;
        if (!within(transfer.place, sizeof(uint64_t), key.length)) return RWAPI_ERR_RANGE;
        if ((key.address + transfer.place) % sizeof(uint64_t) != 0) return RWAPI_ERR_INVALID;
    }
    if (transfer.kind == NotificationKind::kSlot && transfer.place >= key.slots)
        return RWAPI_ERR_RANGE;
    return RWAPI_OK;
}

// The regions of peers whose keys have come. A region with a higher generation takes the place of
// the one before, which its owner has deregistered.
class RemoteRegions {
  public:
    explicit RemoteRegions(const Transport& transport) : transport_(transport) {
        recent_.fill(&none_);
    }
    RemoteRegions(const RemoteRegions&) = delete;
    RemoteRegions& operator=(const RemoteRegions&) = delete;

    // The region of a network address that was used lately. Null: look for it with find().
    RemoteRegion* find_recent(const rwapi_net& net) const {
        RemoteRegion& region = recent(net.word[0]);
        const bool same =
            region.name == net.word[0] && (region.origin ^ net.word[1]) <= NetAddress::kMaxOffset;
        return same && &region != &none_ ? &region : nullptr;
    }
    // The same, or another one, or one that permits nothing.
    [[gnu::always_inline]] RemoteRegion& recent(uint64_t name) const {
        return *recent_[place_of(name)];
    }
    void remember(RemoteRegion& region) { recent_[place_of(region.name)] = &region; }
    // RWAPI_OK: `region` is the region, or null if its key has not come. RWAPI_ERR_STALE: the owner
    // does not have it any more.
    static int find(const Peer& owner, const NetAddress& address, RemoteRegion*& region);

    // Stores the key of a region. Null: the owner has no such region. RWAPI_ERR_FOREIGN: the key is
    // of another context or transport.
    int add(Peer& owner, const NetAddress& address, const Key* key);
    // The owner has deregistered the memory: no access to the region is permitted from now on.
    static void mark_stale(const Peer& owner, const NetAddress& address);

    // Counts an operation that uses the region, until release(), which removes it after its last
    // user.
    static void use(RemoteRegion& region) { ++region.users; }
    void release(RemoteRegion& region);

    // Gives all keys back to UCT, which must precede the end of the transport.
    void remove_all();

  private:
    static constexpr unsigned kRecentBits = 6;

    static size_t place_of(uint64_t name) {
        return name * 0x9e3779b97f4a7c15ull >> (64 - kRecentBits);
    }

    const Transport& transport_;
    std::unordered_map<uint64_t, RemoteRegion> regions_;  // by name
    RemoteRegion none_;                                   // permits nothing
    std::array<RemoteRegion*, 1 << kRecentBits> recent_;
};

}  // namespace rwapi
