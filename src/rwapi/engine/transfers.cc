// SPDX-License-Identifier: BSD-3-Clause

// How the engine begins puts, gets, writes and small messages.

#include <cstring>

#include "rwapi/engine/engine.h"

namespace rwapi {

int Engine::unpack_region(std::span<const std::byte> bytes, uint64_t& handle) {
    Key key;
    if (!key.unpack(bytes) || key.node >= self_.size) return RWAPI_ERR_FOREIGN;
    if (key.node == self_.rank) {
        // The handle of this process's own memory.
        if (key.incarnation != self_.incarnation) return RWAPI_ERR_FOREIGN;
        int error;
        const OwnRegion* const own = regions_.find_own(key.index, key.generation, error);
        if (own != nullptr) handle = own->handle;
        return error;
    }
    Peer& peer = peers_.at(key.node);
    if (peer.failed || !connector_.look_up(peer)) return RWAPI_ERR_PEER;
    return regions_.add_remote(key, peer, handle);
}

rwapi_id Engine::put(const Transfer& what, bool has_id) {
    return transfer(Task::kPut, what, has_id);
}

rwapi_id Engine::get(const Transfer& what, bool has_id) {
    return transfer(Task::kGet, what, has_id);
}

rwapi_id Engine::transfer(Task task, const Transfer& what, bool has_id) {
    int error;
    RemoteRegion* const region = regions_.find_remote(what.region, error);
    if (region == nullptr) {
        if (error == RWAPI_ERR_STALE) return error;
        const OwnRegion* const own = regions_.find_own(what.region, error);
        return own != nullptr ? transfer_locally(task, what, *own) : error;
    }
    error = check_access(region->key, task == Task::kGet, what);
    if (error != RWAPI_OK) return region->stale ? RWAPI_ERR_STALE : error;
    if (what.length == 0 && what.kind == NotificationKind::kNone) return 0;
    Peer& peer = *region->peer;
    if (peer.failed) return RWAPI_ERR_PEER;
    if (task == Task::kPut && peer.can_post() && posting_.post_short(*region, what)) return 0;
    Operation* const operation = operations_.allocate(task, peer, has_id);
    if (operation == nullptr) return RWAPI_ERR_AGAIN;
    operation->target = {region, 0, what.offset};
    Regions::use(*region);
    operation->local.memory = what.local;
    operation->local.length = what.length;
    if (what.length > 0)
        operation->local.region = regions_.find_containing(what.local, what.length);
    if (operation->local.region != nullptr) Regions::use(*operation->local.region);
    operation->kind = what.kind;
    operation->notification = Posting::notification_of(*region, what);
    return sequencer_.start(*operation);
}

// To or from a region of this process.
rwapi_id Engine::transfer_locally(Task task, const Transfer& what, const OwnRegion& region) {
    Key key{};
    key.address = reinterpret_cast<uintptr_t>(region.address);
    key.length = region.length;
    key.rights = static_cast<uint8_t>(region.rights);
    key.slots = self_.slots;
    if (const int error = check_access(key, task == Task::kGet, what)) return error;
    std::byte* const memory = region.address + what.offset;
    if (what.length > 0) {
        if (task == Task::kPut) std::memmove(memory, what.local, what.length);
        if (task == Task::kGet) std::memmove(what.local, memory, what.length);
    }
    if (what.kind != NotificationKind::kNone) {
        const Handle handle = Handle::unpack(region.handle);
        notifications_.apply(
            what.kind, {handle.index, handle.generation, what.length, what.place, what.value});
    }
    return 0;
}

// Whether a network address was made by the current context of its node.
int Engine::check_net(const rwapi_net& net) {
    const uint32_t node = NetAddress::unpack(net).node;
    if (node >= self_.size) return RWAPI_ERR_FOREIGN;
    uint64_t incarnation = self_.incarnation;
    if (node != self_.rank) {
        Peer& peer = peers_.at(node);
        if (peer.failed || !connector_.look_up(peer)) return RWAPI_ERR_PEER;
        incarnation = peer.connection.incarnation;
    }
    return NetAddress::made_by(incarnation, net) ? RWAPI_OK : RWAPI_ERR_FOREIGN;
}

rwapi_id Engine::write(uint32_t node, const rwapi_net& source, const rwapi_net& target,
                       size_t length) {
    int error = RWAPI_OK;
    const NetAddress from = NetAddress::unpack(source), to = NetAddress::unpack(target);
    if (from.node != self_.rank || to.node != node || node >= self_.size) [[unlikely]] {
        error = check_net(source);
        if (error == RWAPI_OK) error = check_net(target);
        return error != RWAPI_OK ? error : RWAPI_ERR_NODE;
    }
    if (!NetAddress::made_by(self_.incarnation, source)) return RWAPI_ERR_FOREIGN;
    OwnRegion* const own = regions_.find_own(from.index, from.generation, error);
    if (own == nullptr) return error;
    if (!within(from.offset, length, own->length)) return RWAPI_ERR_RANGE;
    Transfer what{0, to.offset, own->address + from.offset, length};
    if (node == self_.rank) {
        if (!NetAddress::made_by(self_.incarnation, target)) return RWAPI_ERR_FOREIGN;
        const OwnRegion* const here = regions_.find_own(to.index, to.generation, error);
        return here != nullptr ? transfer_locally(Task::kPut, what, *here) : error;
    }
    Peer& peer = peers_.at(node);
    if (peer.failed) return RWAPI_ERR_PEER;
    // The incarnation is 0 until the peer's address has been looked up.
    if (!NetAddress::made_by(peer.connection.incarnation, target)) [[unlikely]] {
        error = check_net(target);
        if (error != RWAPI_OK) return error;
    }
    const PeerKeys::Known* const known = KeyExchange::find(peer, to);
    if (known == nullptr) return write_by_name(peer, to, what, *own);
    if (known->region == 0) return RWAPI_ERR_STALE;
    what.region = known->region;
    return transfer(Task::kPut, what, true);
}

// A write to a region whose key must first be requested.
rwapi_id Engine::write_by_name(Peer& peer, const NetAddress& to, const Transfer& what,
                               OwnRegion& from) {
    Operation* const operation = operations_.allocate(Task::kPut, peer, true);
    if (operation == nullptr) return RWAPI_ERR_AGAIN;
    operation->target = {nullptr, to.name(), to.offset};
    operation->local.memory = what.local;
    operation->local.length = what.length;
    operation->local.region = &from;
    Regions::use(from);
    return sequencer_.start(*operation);
}

int Engine::send(uint32_t node, const rwapi_small& small) {
    if (node >= self_.size) return RWAPI_ERR_NODE;
    if (node == self_.rank) return small_.send_to_self(small) ? RWAPI_OK : RWAPI_ERR_AGAIN;
    Peer& peer = peers_.at(node);
    if (peer.failed || peer.left || !connector_.look_up(peer)) return RWAPI_ERR_PEER;
    if (peer.sender.left() == 0) return RWAPI_ERR_AGAIN;
    if (peer.can_post() && small_.post(peer, small) == UCS_OK) {
        peer.sender.spend();
        return RWAPI_OK;
    }
    Operation* const operation = operations_.allocate(Task::kSmall, peer, false);
    if (operation == nullptr) return RWAPI_ERR_AGAIN;
    peer.sender.spend();
    operation->small = small;
    const rwapi_id id = sequencer_.start(*operation);
    return id < 0 ? static_cast<int>(id) : RWAPI_OK;
}

}  // namespace rwapi
