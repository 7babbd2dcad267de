// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/engine/regions.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "rwapi/base/log.h"

namespace rwapi {

namespace {

// What UCT is to permit with memory that has these rights.
unsigned flags_of(int rights) {
    unsigned flags =
        UCT_MD_MEM_ACCESS_LOCAL_READ | UCT_MD_MEM_ACCESS_LOCAL_WRITE | UCT_MD_MEM_FLAG_HIDE_ERRORS;
    if (rights & RWAPI_READ) flags |= UCT_MD_MEM_ACCESS_REMOTE_GET;
    // Up to UCX 1.14, the right to atomics shows that a program maps the memory for remote access.
    // Tern opens such memory to direct writes, and other memory only to its own transfers.
    if (rights & RWAPI_WRITE)
        flags |= UCT_MD_MEM_ACCESS_REMOTE_PUT | UCT_MD_MEM_ACCESS_REMOTE_ATOMIC;
    return flags;
}

// Whether there is memory. A transport may register it only when a peer asks for its key, and do
// without that.
bool is_mapped(std::byte* memory, uint64_t length) {
    const auto within_page = reinterpret_cast<uintptr_t>(memory) % sysconf(_SC_PAGESIZE);
    return msync(memory - within_page, length + within_page, MS_ASYNC) == 0 || errno != ENOMEM;
}

}  // namespace

int Regions::add(std::byte* memory, uint64_t length, int rights, bool allocated, rwapi_net& net) {
    if (length > NetAddress::kMaxOffset) return RWAPI_ERR_RANGE;
    OwnRegion region;
    region.address = memory;
    region.length = length;
    region.rights = rights;
    region.allocated = allocated;
    SharedDomain& domain = transport_.shared_domain();
    bool shared = false;
    ucs_status_t status = domain.add(memory, length, flags_of(rights), region.memory, shared);
    if (status == UCS_OK && !is_mapped(memory, length)) {
        domain.remove(memory, length, flags_of(rights));
        status = UCS_ERR_NO_MEMORY;
    }
    if (status != UCS_OK) {
        const bool of_gpu = status == UCS_ERR_INVALID_ADDR;
        log_error("cannot register %llu bytes at %p: %s", static_cast<unsigned long long>(length),
                  static_cast<void*>(memory),
                  of_gpu ? "this is memory of a GPU; copy it to the host's memory and back"
                         : "check that the memory is mapped and writable, and that the limit of "
                           "locked memory (ulimit -l) is high enough");
        return of_gpu ? RWAPI_ERR_UNSUPPORTED : RWAPI_ERR_MEMORY;
    }
    const uint64_t handle = own_.add(region);
    if (handle == 0) {
        domain.remove(memory, length, flags_of(rights));
        return RWAPI_ERR_MEMORY;
    }
    OwnRegion* const stored = own_.find(handle);
    stored->handle = handle;
    by_address_.emplace(memory, stored);
    net = NetAddress::of_region(self_.rank, handle).pack(self_.incarnation);
    log_debug("region %llx: %llu bytes at %p, rights %d%s", static_cast<unsigned long long>(handle),
              static_cast<unsigned long long>(length), static_cast<void*>(memory), rights,
              shared ? "; their registration is shared" : "");
    return RWAPI_OK;
}

int Regions::remove(OwnRegion& region) {
    if (region.users != 0) return RWAPI_ERR_BUSY;
    const auto [begin, end] = by_address_.equal_range(region.address);
    const auto found =
        std::find_if(begin, end, [&](const auto& entry) { return entry.second == &region; });
    TERN_ASSERT(found != end);
    by_address_.erase(found);
    if (recent_ == &region) recent_ = nullptr;
    log_debug("region %llx: removed", static_cast<unsigned long long>(region.handle));
    give_back(region);
    own_.remove(region.handle);
    return RWAPI_OK;
}

void Regions::give_back(OwnRegion& region) {
    transport_.shared_domain().remove(region.address, region.length, flags_of(region.rights));
    if (region.allocated) munmap(region.address, region.length);
}

OwnRegion* Regions::find(const rwapi_net& net, int& error) {
    const NetAddress address = NetAddress::unpack(net);
    error = RWAPI_ERR_NODE;
    if (address.node != self_.rank) return nullptr;
    error = RWAPI_ERR_FOREIGN;
    if (!NetAddress::made_by(self_.incarnation, net)) return nullptr;
    return own_.find(address.region(), error);
}

OwnRegion* Regions::find_allocated(const void* memory) {
    const auto [begin, end] = by_address_.equal_range(static_cast<const std::byte*>(memory));
    for (auto at = begin; at != end; ++at) {
        if (at->second->allocated) return at->second;
    }
    return nullptr;
}

OwnRegion* Regions::find_containing(const std::byte* memory, size_t length) {
    const auto holds = [=](const OwnRegion& region) {
        return memory >= region.address &&
               within(static_cast<uint64_t>(memory - region.address), length, region.length);
    };
    if (recent_ != nullptr && holds(*recent_)) return recent_;
    auto at = by_address_.upper_bound(memory);
    if (at == by_address_.begin() || !holds(*(--at)->second)) return nullptr;
    return recent_ = at->second;
}

Key Regions::rights_of(const OwnRegion& region) const {
    Key key{};
    key.address = reinterpret_cast<uintptr_t>(region.address);
    key.length = region.length;
    key.rights = static_cast<uint8_t>(region.rights);
    key.slots = self_.slots;
    return key;
}

bool Regions::make_key(uint64_t name, Key& key) {
    const NetAddress address = NetAddress::of_name(name);
    const OwnRegion* const region = own_.find(address.region());
    if (region == nullptr || address.node != self_.rank) return false;
    key = rights_of(*region);
    key.incarnation = self_.incarnation;
    key.node = self_.rank;
    key.index = address.index;
    key.generation = address.generation;
    key.rkey_length = static_cast<uint8_t>(transport_.rkey_length());
    return transport_.shared_domain().pack_key(region->memory, key.rkey.data()) == UCS_OK;
}

void Regions::remove_all() {
    own_.for_each([this](OwnRegion& region) { give_back(region); });
}

}  // namespace rwapi
