// SPDX-License-Identifier: BSD-3-Clause

// Regions: memory of this process, and keys of peers.

#include <sys/mman.h>

#include "rwapi/base/log.h"
#include "rwapi/engine/engine.h"

namespace rwapi {

int Engine::add_region(std::byte* memory, uint64_t length, int rights, bool allocated,
                       uint64_t& handle) {
    if (length > NetAddress::kMaxOffset) return RWAPI_ERR_RANGE;
    unsigned flags = UCT_MD_MEM_ACCESS_LOCAL_READ | UCT_MD_MEM_ACCESS_LOCAL_WRITE;
    if (rights & RWAPI_READ) flags |= UCT_MD_MEM_ACCESS_REMOTE_GET;
    // Up to UCX 1.14, the right to atomics says that a program maps the memory for its own use.
    // Tern lets peers write directly to such memory; to that of messages it makes transfers.
    if (rights & RWAPI_WRITE)
        flags |= UCT_MD_MEM_ACCESS_REMOTE_PUT | UCT_MD_MEM_ACCESS_REMOTE_ATOMIC;
    Mine mine;
    mine.address = memory;
    mine.length = length;
    mine.rights = rights;
    mine.allocated = allocated;
    if (uct_md_mem_reg(transport_.domain(), memory, length, flags | UCT_MD_MEM_FLAG_HIDE_ERRORS,
                       &mine.memory) != UCS_OK) {
        log_error(
            "%llu bytes at %p cannot be registered: is the memory mapped and writable? "
            "ulimit -l may be too low",
            static_cast<unsigned long long>(length), static_cast<void*>(memory));
        return RWAPI_ERR_MEMORY;
    }
    handle = mine_.add(mine);
    if (handle == 0) {
        uct_md_mem_dereg(transport_.domain(), mine.memory);
        return RWAPI_ERR_MEMORY;
    }
    int error;
    Mine* const kept = mine_.find(handle, error);
    kept->handle = handle;
    by_address_.emplace(memory, kept);
    return RWAPI_OK;
}

void Engine::release(Mine& mine) {
    uct_md_mem_dereg(transport_.domain(), mine.memory);
    if (mine.allocated) munmap(mine.address, mine.length);
}

// Neither a handle nor an operation names it any more.
void Engine::release(Remote& remote) {
    uct_rkey_release(transport_.component(), &remote.rkey);
    remotes_.remove(remote.handle);
}

int Engine::remove_region(uint64_t handle) {
    int error;
    if (Remote* const remote = remotes_.find(handle, error)) {
        if (remote->users > 1) return RWAPI_ERR_BUSY;
        release(*remote);
        return RWAPI_OK;
    }
    if (error == RWAPI_ERR_STALE) return error;
    Mine* const mine = mine_.find(handle, error);
    if (mine == nullptr) return error;
    if (mine->users != 0) return RWAPI_ERR_BUSY;
    const auto [begin, end] = by_address_.equal_range(mine->address);
    for (auto at = begin; at != end; ++at) {
        if (at->second != mine) continue;
        by_address_.erase(at);
        break;
    }
    if (recent_ == mine) recent_ = nullptr;
    release(*mine);
    mine_.remove(handle);
    return RWAPI_OK;
}

bool Engine::key_of(uint64_t name, Key& key) {
    const NetAddress region = NetAddress::of_name(name);
    int error;
    const Mine* const mine = mine_.find(region.index, region.generation, error);
    if (mine == nullptr || region.node != rank_) return false;
    key = {.incarnation = incarnation_,
           .address = reinterpret_cast<uintptr_t>(mine->address),
           .length = mine->length,
           .node = rank_,
           .index = region.index,
           .generation = region.generation,
           .slots = settings_.slots,
           .rights = static_cast<uint8_t>(mine->rights),
           .rkey_length = static_cast<uint8_t>(transport_.rkey_length()),
           .rkey = {}};
    return uct_md_mkey_pack(transport_.domain(), mine->memory, key.rkey.data()) == UCS_OK;
}

rwapi_net Engine::net_address(uint64_t handle) const {
    const Handle region = Handle::unpack(handle);
    return NetAddress{rank_, region.generation, region.index, 0}.pack(incarnation_);
}

int Engine::pack_region(uint64_t handle, std::span<std::byte> room, size_t& length) {
    int error;
    if (mine_.find(handle, error) == nullptr) return error;
    const Handle region = Handle::unpack(handle);
    Key key;
    if (!key_of(NetAddress{rank_, region.generation, region.index, 0}.name(), key))
        return RWAPI_ERR_TRANSPORT;
    length = key.pack(room);
    return length == 0 ? RWAPI_ERR_RANGE : RWAPI_OK;
}

int Engine::unpack_region(std::span<const std::byte> bytes, uint64_t& handle) {
    Key key;
    if (!key.unpack(bytes) || key.node >= size_) return RWAPI_ERR_FOREIGN;
    if (key.node == rank_) {
        // One's own memory needs no key.
        if (key.incarnation != incarnation_) return RWAPI_ERR_FOREIGN;
        int error;
        const Mine* const mine = mine_.find(key.index, key.generation, error);
        if (mine != nullptr) handle = mine->handle;
        return error;
    }
    Peer& peer = peer_of(key.node);
    if (peer.failed || !greet(peer)) return RWAPI_ERR_PEER;
    return add_remote(key, handle);
}

// The peer's greeting must be known.
int Engine::add_remote(const Key& key, uint64_t& handle) {
    Peer& peer = peer_of(key.node);
    if (key.incarnation != peer.greeting.incarnation || key.rkey_length != transport_.rkey_length())
        return RWAPI_ERR_FOREIGN;
    Remote remote;
    remote.key = key;
    remote.peer = &peer;
    if (uct_rkey_unpack(transport_.component(), key.rkey.data(), &remote.rkey) != UCS_OK)
        return RWAPI_ERR_FOREIGN;
    handle = remotes_.add(remote);
    if (handle == 0) {
        uct_rkey_release(transport_.component(), &remote.rkey);
        return RWAPI_ERR_MEMORY;
    }
    int error;
    remotes_.find(handle, error)->handle = handle;
    return RWAPI_OK;
}

// With an error also if its owner has given the memory back.
Remote* Engine::find_remote(uint64_t handle, int& error) {
    Remote* const remote = remotes_.find(handle, error);
    if (remote == nullptr || !remote->stale) return remote;
    error = RWAPI_ERR_STALE;
    return nullptr;
}

// The owner has given the memory back: from now on each use fails.
void Engine::mark_stale(Remote& remote) {
    remote.stale = true;
    // No check passes, so that uses need not look at `stale` before.
    remote.key.length = 0;
    remote.key.rights = 0;
    for (Operation* each = remote.peer->waiting.first(); each != nullptr; each = each->next) {
        if (each->remote == &remote) each->status = RWAPI_ERR_STALE;
    }
}

Mine* Engine::find_allocated(const void* memory) {
    const auto [begin, end] = by_address_.equal_range(static_cast<const std::byte*>(memory));
    for (auto at = begin; at != end; ++at) {
        if (at->second->allocated) return at->second;
    }
    return nullptr;
}

// The region that has all of this memory; null: none was found. One that begins earlier than
// another may be missed, which costs time only.
Mine* Engine::find_local(const std::byte* memory, size_t length) {
    const auto holds = [=](const Mine& mine) {
        return memory >= mine.address &&
               within(static_cast<uint64_t>(memory - mine.address), length, mine.length);
    };
    if (recent_ != nullptr && holds(*recent_)) return recent_;
    auto at = by_address_.upper_bound(memory);
    if (at == by_address_.begin() || !holds(*(--at)->second)) return nullptr;
    return recent_ = at->second;
}

}  // namespace rwapi
