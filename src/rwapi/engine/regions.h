// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "rwapi/core/handles.h"
#include "rwapi/core/net.h"
#include "rwapi/engine/peer.h"
#include "rwapi/engine/region.h"
#include "rwapi/engine/self.h"

namespace rwapi {

// The registered memory of this process, and the regions of peers whose keys it has. Functions that
// return int return RWAPI_OK or an error; functions that find return null with `error` set.
class Regions {
  public:
    // used: the highest generation that earlier handles with this tag may have.
    Regions(const Self& self, uint16_t tag, uint32_t used, Transport& transport)
        : self_(self),
          transport_(transport),
          own_(tag, Kind::kOwnRegion, used),
          remote_(tag, Kind::kRemoteRegion, used) {}

    // Registers memory. allocated: it is unmapped when it is removed.
    int add(std::byte* memory, uint64_t length, int rights, bool allocated, uint64_t& handle);
    // Makes a peer's key a region. The peer's address is known.
    int add_remote(const Key& key, Peer& peer, uint64_t& handle);
    // Removes a region of either kind. RWAPI_ERR_BUSY: operations use it.
    int remove(uint64_t handle);

    OwnRegion* find_own(uint64_t handle, int& error) { return own_.find(handle, error); }
    OwnRegion* find_own(uint32_t index, uint32_t generation, int& error) {
        return own_.find(index, generation, error);
    }
    // Also a stale region, whose key permits nothing.
    RemoteRegion* find_remote(uint64_t handle, int& error) { return remote_.find(handle, error); }
    // As find_remote(), but a stale region is an error.
    RemoteRegion* find_valid_remote(uint64_t handle, int& error);
    // The region of rwapi_alloc that begins here; null: there is none.
    OwnRegion* find_allocated(const void* memory);
    // A region that has all of this memory. Null: none was found, or a region that begins later
    // hides it, which costs only time.
    OwnRegion* find_containing(const std::byte* memory, size_t length);

    // Counts an operation that uses the region, until release().
    static void use(OwnRegion& region) { ++region.users; }
    static void use(RemoteRegion& region) { ++region.users; }
    static void release(OwnRegion& region) {
        TERN_ASSERT(region.users > 0);
        --region.users;
    }
    // Removes the region after its last user.
    void release(RemoteRegion& region);

    // The key of the region with this name; false: there is no such region.
    bool make_key(uint64_t name, Key& key);
    int pack(uint64_t handle, std::span<std::byte> room, size_t& length);
    rwapi_net net_address(uint64_t handle) const;

    // The owner has deregistered the memory: no access to the region is permitted from now on.
    void mark_stale(const Peer& owner, const NetAddress& name);

    // The highest generation of the handles.
    uint32_t highest_generation() const;
    // Gives all memory and keys back to UCT, which must precede the end of the transport.
    void remove_all();

  private:
    void give_back(OwnRegion& region);
    void remove_own(OwnRegion& region);

    const Self self_;
    Transport& transport_;
    HandleTable<OwnRegion> own_;
    HandleTable<RemoteRegion> remote_;
    std::multimap<const std::byte*, OwnRegion*> by_address_;
    OwnRegion* recent_ = nullptr;  // the last result of find_containing()
};

}  // namespace rwapi
