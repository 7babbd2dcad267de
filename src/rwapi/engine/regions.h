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
    // used: the highest generation that earlier handles with this tag may have.
    Regions(const Self& self, uint16_t tag, uint32_t used, Transport& transport)
        : self_(self), transport_(transport), own_(tag, Kind::kOwnRegion, used) {}

    // Registers memory. allocated: it is unmapped when it is removed.
    int add(std::byte* memory, uint64_t length, int rights, bool allocated, rwapi_net& net);
    // RWAPI_ERR_BUSY: operations use the region.
    int remove(OwnRegion& region);

    // RWAPI_ERR_NODE: it is an address of another node.
    OwnRegion* find(const rwapi_net& net, int& error);
    OwnRegion* find_own(uint32_t index, uint32_t generation, int& error) {
        return own_.find(index, generation, error);
    }
    // By the index, and above it the generation; null without the reason.
    [[gnu::always_inline]] OwnRegion* find_live(uint64_t place_and_generation) {
        return own_.find_live(place_and_generation);
    }
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

    // The highest generation of the regions.
    uint32_t highest_generation() const { return own_.highest(); }
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
