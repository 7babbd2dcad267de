// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "rwapi/core/handles.h"
#include "rwapi/core/net.h"
#include "rwapi/engine/region.h"
#include "rwapi/transport/transport.h"

namespace rwapi {

// The registered memory of this process. Functions that return int return RWAPI_OK or an error;
// functions that find return null with `error` set.
class Regions {
  public:
    Regions(const Self& self, Transport& transport) : self_(self), transport_(transport) {}

    // Registers memory. allocated: it is unmapped when it is removed.
    int add(std::byte* memory, uint64_t length, int rights, bool allocated, rwapi_net& net);
    // RWAPI_ERR_BUSY: operations use the region.
    int remove(OwnRegion& region);

    // RWAPI_ERR_NODE: it is an address of another node.
    OwnRegion* find(const rwapi_net& net, int& error);
    OwnRegion* find(uint64_t handle, int& error) { return own_.find(handle, error); }
    [[gnu::always_inline]] OwnRegion* find(uint64_t handle) { return own_.find(handle); }
    // The region of rwapi_alloc that begins here; null: there is none.
    OwnRegion* find_allocated(const void* memory);
    // A region that has all of this memory. Null: none was found, or a region that begins later
    // hides it, which costs only time.
    OwnRegion* find_containing(const std::byte* memory, size_t length);
    // Has find_containing() look into this region first.
    void prefer(OwnRegion& region) { recent_ = &region; }

    // Counts an operation that uses the region, until release().
    static void use(OwnRegion& region) { ++region.users; }
    static void release(OwnRegion& region) {
        TERN_ASSERT(region.users > 0);
        --region.users;
    }

    // Of the key of a region: its bounds and rights.
    Key rights_of(const OwnRegion& region) const;
    // The key of the region with this name; false: there is no such region.
    bool make_key(uint64_t name, Key& key);

    // Gives all memory back to UCT, which must precede the end of the transport.
    void remove_all();

  private:
    void give_back(OwnRegion& region);

    const Self self_;
    Transport& transport_;
    HandleTable<OwnRegion> own_;
    std::multimap<const std::byte*, OwnRegion*> by_address_;
    OwnRegion* recent_ = nullptr;  // the last result of find_containing()
};

}  // namespace rwapi
