// SPDX-License-Identifier: BSD-3-Clause

// How the engine begins puts, gets, writes and small messages.

#include <cstring>

#include "rwapi/engine/engine.h"

namespace rwapi {

rwapi_id Engine::transfer(Task task, const rwapi_net& net, const Transfer& what, bool has_id) {
    RemoteRegion* const region = remotes_.find_recent(net);
    if (region == nullptr) [[unlikely]]
        return find_and_transfer(task, net, what, has_id);
    return transfer_to(task, *region, what, has_id);
}

// To or from an address that has not been used lately.
rwapi_id Engine::find_and_transfer(Task task, const rwapi_net& net, const Transfer& what,
                                   bool has_id) {
    const OwnRegion* own;
    RemoteRegion* region;
    if (const int error = find(net, own, region)) return error;
    if (own != nullptr) return transfer_locally(task, what, *own);
    if (region != nullptr) return transfer_to(task, *region, what, has_id);
    // The key is requested; all else is checked when it has come.
    return begin(task, peers_.at(NetAddress::unpack(net).node), nullptr, what, has_id);
}

// Finds the memory of an address: in this process, or at a peer; neither, if its key has not come.
int Engine::find(const rwapi_net& net, const OwnRegion*& own, RemoteRegion*& region) {
    own = nullptr;
    region = nullptr;
    int error = connector_.check(net);
    if (error != RWAPI_OK) return error;
    const NetAddress address = NetAddress::unpack(net);
    if (address.node == self_.rank) {
        own = regions_.find(net, error);
        return error;
    }
    Peer& owner = peers_.at(address.node);
    remotes_.use_kept(owner, address);
    error = RemoteRegions::find(owner, address, region);
    if (region != nullptr) remotes_.remember(*region);
    return error;
}

rwapi_id Engine::transfer_to(Task task, RemoteRegion& region, const Transfer& what, bool has_id) {
    const int error = check_access(region.key, task, what);
    if (error != RWAPI_OK) return region.stale ? RWAPI_ERR_STALE : error;
    if (what.length == 0 && what.kind == NotificationKind::kNone) return 0;
    Peer& peer = *region.peer;
    if (peer.failed) return RWAPI_ERR_PEER;
    if (task == Task::kPut && peer.can_post() && posting_.post_short(region, what)) return 0;
    return begin(task, peer, &region, what, has_id);
}

// The device executes them, also in this process's own memory: the processor's atomic operations
// need not be atomic with respect to the device's.
rwapi_id Engine::atomic(Task task, const rwapi_net& net, const Transfer& what, bool has_id) {
    if (!transport_.limits().atomics) return RWAPI_ERR_UNSUPPORTED;
    if (NetAddress::unpack(net).node != self_.rank) return transfer(task, net, what, has_id);
    RemoteRegion* region = nullptr;
    const int error = find_at_self(net, region);
    return region != nullptr ? transfer_to(task, *region, what, has_id) : error;
}

// A region of this process as that of a peer. It is not remembered as such: puts and gets copy.
int Engine::find_at_self(const rwapi_net& net, RemoteRegion*& region) {
    int error;
    if (regions_.find(net, error) == nullptr) return error;
    Peer& self = peers_.at(self_.rank);
    error = connector_.look_up(self);
    if (error != RWAPI_OK) return error;
    const NetAddress address = NetAddress::unpack(net);
    error = RemoteRegions::find(self, address, region);
    if (error != RWAPI_OK || region != nullptr) return error;
    Key key;
    if (!regions_.make_key(address.name(), key)) return RWAPI_ERR_TRANSPORT;
    error = remotes_.add(self, address, &key);
    return error == RWAPI_OK ? RemoteRegions::find(self, address, region) : error;
}

// Begins an operation. region: null until its key has come.
rwapi_id Engine::begin(Task task, Peer& peer, RemoteRegion* region, const Transfer& what,
                       bool has_id) {
    Operation* const operation = operations_.allocate(task, peer, has_id);
    if (operation == nullptr) return RWAPI_ERR_AGAIN;
    operation->target = {region, what.name, what.offset};
    if (region != nullptr) RemoteRegions::use(*region);
    operation->local.memory = what.local;
    operation->local.length = what.length;
    if (what.length > 0)
        operation->local.region = regions_.find_containing(what.local, what.length);
    if (operation->local.region != nullptr) Regions::use(*operation->local.region);
    operation->kind = what.kind;
    operation->notification = {NetAddress::of_name(what.name).region(), what.length, what.place,
                               what.value};
    const rwapi_id id = sequencer_.start(*operation);
    refill(peer);
    return id;
}

// An operation has begun. If it waits, the send queue is full, most likely: without progress, a
// program that calls nothing but puts would leave it empty when it has drained.
void Engine::refill(const Peer& peer) {
    if (!peer.can_post() && peer.is_blocked() && progress() != 0) [[unlikely]]
        sleeper_.wake();
}

// To or from a region of this process.
rwapi_id Engine::transfer_locally(Task task, const Transfer& what, const OwnRegion& region) {
    if (const int error = check_access(regions_.rights_of(region), task, what)) return error;
    std::byte* const memory = region.address + what.offset;
    if (what.length > 0) {
        if (task == Task::kPut) std::memmove(memory, what.local, what.length);
        if (task == Task::kGet) std::memmove(what.local, memory, what.length);
    }
    if (what.kind != NotificationKind::kNone)
        notifications_.apply(what.kind, {region.handle, what.length, what.place, what.value});
    sleeper_.wake();
    return 0;
}

rwapi_id Engine::write(uint32_t node, const rwapi_net& source, const rwapi_net& target,
                       size_t length) {
    int error = RWAPI_OK;
    const NetAddress from = NetAddress::unpack(source), to = NetAddress::unpack(target);
    if (from.node != self_.rank || to.node != node || node >= self_.size) [[unlikely]] {
        error = connector_.check(source);
        if (error == RWAPI_OK) error = connector_.check(target);
        return error != RWAPI_OK ? error : RWAPI_ERR_NODE;
    }
    OwnRegion* const own = regions_.find(source, error);
    if (own == nullptr) return error;
    if (!within(from.offset, length, own->length)) return RWAPI_ERR_RANGE;
    regions_.prefer(*own);
    return transfer(Task::kPut, target,
                    {target.word[0], to.offset, own->address + from.offset, length}, true);
}

int Engine::send(uint32_t node, const rwapi_small& small) {
    if (node >= self_.size) return RWAPI_ERR_NODE;
    if (node == self_.rank) return small_.send_to_self(small) ? RWAPI_OK : RWAPI_ERR_AGAIN;
    Peer& peer = peers_.at(node);
    if (peer.left) return RWAPI_ERR_PEER;
    if (const int error = connector_.look_up(peer)) return error;
    if (peer.sender.left() == 0) return RWAPI_ERR_AGAIN;
    if (peer.can_post() && !posting_.flushes() && small_.post(peer, small) == UCS_OK) {
        peer.sender.spend();
        return RWAPI_OK;
    }
    Operation* const operation = operations_.allocate(Task::kSmall, peer, false);
    if (operation == nullptr) return RWAPI_ERR_AGAIN;
    peer.sender.spend();
    operation->small = small;
    if (posting_.flushes()) operation->stage = Stage::kOrder;
    const rwapi_id id = sequencer_.start(*operation);
    return id < 0 ? static_cast<int>(id) : RWAPI_OK;
}

}  // namespace rwapi
