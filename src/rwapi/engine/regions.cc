// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/engine/regions.h"

#include <sys/mman.h>

#include <algorithm>

#include "rwapi/base/log.h"

namespace rwapi {

int check_access(const Key& key, bool is_get, const Transfer& transfer) {
    const bool notified = transfer.kind != NotificationKind::kNone;
    if (!within(transfer.offset, transfer.length, key.length)) return RWAPI_ERR_RANGE;
    if (is_get && !(key.rights & RWAPI_READ)) return RWAPI_ERR_RIGHTS;
    if (!is_get && (transfer.length > 0 || notified) && !(key.rights & RWAPI_WRITE))
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

int Regions::add(std::byte* memory, uint64_t length, int rights, bool allocated, uint64_t& handle) {
    if (length > NetAddress::kMaxOffset) return RWAPI_ERR_RANGE;
    unsigned flags = UCT_MD_MEM_ACCESS_LOCAL_READ | UCT_MD_MEM_ACCESS_LOCAL_WRITE;
    if (rights & RWAPI_READ) flags |= UCT_MD_MEM_ACCESS_REMOTE_GET;
    // Up to UCX 1.14, the right to atomics shows that a program maps the memory for remote access.
    // Tern opens such memory to direct writes, and other memory only to its own transfers.
    if (rights & RWAPI_WRITE)
        flags |= UCT_MD_MEM_ACCESS_REMOTE_PUT | UCT_MD_MEM_ACCESS_REMOTE_ATOMIC;
    OwnRegion region;
    region.address = memory;
    region.length = length;
    region.rights = rights;
    region.allocated = allocated;
    const ucs_status_t status = uct_md_mem_reg(transport_.domain(), memory, length,
                                               flags | UCT_MD_MEM_FLAG_HIDE_ERRORS, &region.memory);
    if (status != UCS_OK) {
        const bool of_gpu = status == UCS_ERR_INVALID_ADDR;
        log_error("cannot register %llu bytes at %p: %s", static_cast<unsigned long long>(length),
                  static_cast<void*>(memory),
                  of_gpu ? "this is memory of a GPU; copy it to the host's memory and back"
                         : "check that the memory is mapped and writable, and that the limit of "
                           "locked memory (ulimit -l) is high enough");
        return of_gpu ? RWAPI_ERR_UNSUPPORTED : RWAPI_ERR_MEMORY;
    }
    handle = own_.add(region);
    if (handle == 0) {
        uct_md_mem_dereg(transport_.domain(), region.memory);
        return RWAPI_ERR_MEMORY;
    }
    int error;
    OwnRegion* const stored = own_.find(handle, error);
    stored->handle = handle;
    by_address_.emplace(memory, stored);
    log_debug("region %llx: %llu bytes at %p, rights %d", static_cast<unsigned long long>(handle),
              static_cast<unsigned long long>(length), static_cast<void*>(memory), rights);
    return RWAPI_OK;
}

int Regions::add_remote(const Key& key, Peer& peer, uint64_t& handle) {
    TERN_ASSERT(key.node == peer.node);
    if (key.incarnation != peer.connection.incarnation ||
        key.rkey_length != transport_.rkey_length())
        return RWAPI_ERR_FOREIGN;
    RemoteRegion region;
    region.key = key;
    region.peer = &peer;
    if (uct_rkey_unpack(transport_.component(), key.rkey.data(), &region.rkey) != UCS_OK)
        return RWAPI_ERR_FOREIGN;
    handle = remote_.add(region);
    if (handle == 0) {
        uct_rkey_release(transport_.component(), &region.rkey);
        return RWAPI_ERR_MEMORY;
    }
    int error;
    remote_.find(handle, error)->handle = handle;
    log_debug("region %llx: %llu bytes of node %u", static_cast<unsigned long long>(handle),
              static_cast<unsigned long long>(key.length), peer.node);
    return RWAPI_OK;
}

int Regions::remove(uint64_t handle) {
    int error;
    if (RemoteRegion* const remote = remote_.find(handle, error)) {
        if (remote->users > 1) return RWAPI_ERR_BUSY;
        release(*remote);
        return RWAPI_OK;
    }
    if (error == RWAPI_ERR_STALE) return error;
    OwnRegion* const own = own_.find(handle, error);
    if (own == nullptr) return error;
    if (own->users != 0) return RWAPI_ERR_BUSY;
    remove_own(*own);
    return RWAPI_OK;
}

void Regions::remove_own(OwnRegion& region) {
    const auto [begin, end] = by_address_.equal_range(region.address);
    const auto found =
        std::find_if(begin, end, [&](const auto& entry) { return entry.second == &region; });
    TERN_ASSERT(found != end);
    by_address_.erase(found);
    if (recent_ == &region) recent_ = nullptr;
    log_debug("region %llx: removed", static_cast<unsigned long long>(region.handle));
    give_back(region);
    own_.remove(region.handle);
}

void Regions::give_back(OwnRegion& region) {
    uct_md_mem_dereg(transport_.domain(), region.memory);
    if (region.allocated) munmap(region.address, region.length);
}

void Regions::release(RemoteRegion& region) {
    TERN_ASSERT(region.users > 0);
    if (--region.users != 0) return;
    uct_rkey_release(transport_.component(), &region.rkey);
    remote_.remove(region.handle);
}

RemoteRegion* Regions::find_valid_remote(uint64_t handle, int& error) {
    RemoteRegion* const region = remote_.find(handle, error);
    if (region == nullptr || !region->stale) return region;
    error = RWAPI_ERR_STALE;
    return nullptr;
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

bool Regions::make_key(uint64_t name, Key& key) {
    const NetAddress address = NetAddress::of_name(name);
    int error;
    const OwnRegion* const region = own_.find(address.index, address.generation, error);
    if (region == nullptr || address.node != self_.rank) return false;
    key = {.incarnation = self_.incarnation,
           .address = reinterpret_cast<uintptr_t>(region->address),
           .length = region->length,
           .node = self_.rank,
           .index = address.index,
           .generation = address.generation,
           .slots = self_.slots,
           .rights = static_cast<uint8_t>(region->rights),
           .rkey_length = static_cast<uint8_t>(transport_.rkey_length()),
           .rkey = {}};
    return uct_md_mkey_pack(transport_.domain(), region->memory, key.rkey.data()) == UCS_OK;
}

int Regions::pack(uint64_t handle, std::span<std::byte> room, size_t& length) {
    int error;
    if (own_.find(handle, error) == nullptr) return error;
    const Handle region = Handle::unpack(handle);
    Key key;
    if (!make_key(NetAddress{self_.rank, region.generation, region.index, 0}.name(), key))
        return RWAPI_ERR_TRANSPORT;
    length = key.pack(room);
    return length == 0 ? RWAPI_ERR_RANGE : RWAPI_OK;
}

rwapi_net Regions::net_address(uint64_t handle) const {
    const Handle region = Handle::unpack(handle);
    return NetAddress{self_.rank, region.generation, region.index, 0}.pack(self_.incarnation);
}

void Regions::mark_stale(const Peer& owner, const NetAddress& name) {
    remote_.for_each([&](RemoteRegion& region) {
        Key& key = region.key;
        if (region.peer != &owner || key.index != name.index || key.generation != name.generation)
            return;
        region.stale = true;
        // check_access() permits nothing now, so that only its errors need a look at `stale`.
        key.length = 0;
        key.rights = 0;
        log_debug("region %llx: node %u has deregistered its memory",
                  static_cast<unsigned long long>(region.handle), owner.node);
    });
}

uint32_t Regions::highest_generation() const {
    return std::max(own_.highest(), remote_.highest());
}

void Regions::remove_all() {
    remote_.for_each(
        [this](RemoteRegion& region) { uct_rkey_release(transport_.component(), &region.rkey); });
    own_.for_each([this](OwnRegion& region) { give_back(region); });
}

}  // namespace rwapi
