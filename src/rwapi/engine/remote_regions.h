// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "rwapi/core/net.h"
#include "rwapi/engine/operation.h"
#include "rwapi/engine/peers.h"
#include "rwapi/engine/regions.h"
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
    if (task == Task::kGet && !(key.rights & RWAPI_READ)) return RWAPI_ERR_RIGHTS;
    if (task != Task::kGet && (transfer.length > 0 || notified) && !(key.rights & RWAPI_WRITE))
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
// the one before, which its owner has deregistered. A process asks the owner of an address for the
// region's key before its first operation there, unless rwapi_share has brought it, and has one
// request to a peer under way at most.
class RemoteRegions {
  public:
    RemoteRegions(const Self& self, const Transport& transport, Regions& regions, Peers& peers)
        : self_(self), transport_(transport), regions_of_self_(regions), peers_(peers) {
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
    // The region of that name, or another one, or one that permits nothing.
    [[gnu::always_inline]] RemoteRegion& recent(uint64_t name) const {
        return *recent_[place_of(name)];
    }
    void remember(RemoteRegion& region) { recent_[place_of(region.name)] = &region; }

    // Writes the key of a region of this process, if the address is of one.
    void pack_own_key(const rwapi_net& net, std::span<std::byte> packed) const;
    // Keeps a key that has come with the address of a region of this node, until it is used for the
    // first time, or another one comes for its place. It need not be valid.
    void keep(uint32_t node, const rwapi_net& net, std::span<const std::byte> packed);
    // Takes such a key, if there is one, into use. The peer's incarnation is known.
    void use_kept(Peer& owner, const NetAddress& address);
    // RWAPI_OK: `region` is the region, or null if its key has not come. RWAPI_ERR_STALE: the owner
    // does not have it any more.
    static int find(const Peer& owner, const NetAddress& address, RemoteRegion*& region);

    // Requests the key of the region with this name, unless a request is under way or the send
    // queue is full.
    void request(Peer& peer, uint64_t name);
    // Sends the key that the peer has requested, if any. False: the send queue is full.
    bool send_answer(Peer& peer);
    // For UCT's callbacks.
    void on_request(std::span<const std::byte> message);
    void on_answer(std::span<const std::byte> message);

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
    static constexpr size_t kMostKept = 16;  // keys of a process, on average

    static size_t place_of(uint64_t name) {
        return name * 0x9e3779b97f4a7c15ull >> (64 - kRecentBits);
    }

    const Self self_;
    const Transport& transport_;
    Regions& regions_of_self_;
    Peers& peers_;
    std::unordered_map<uint64_t, RemoteRegion> regions_;         // by name
    std::unordered_map<uint64_t, std::vector<std::byte>> kept_;  // by name without generation
    RemoteRegion none_;                                          // permits nothing
    std::array<RemoteRegion*, 1 << kRecentBits> recent_;
};

}  // namespace rwapi
