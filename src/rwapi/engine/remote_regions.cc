// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/engine/remote_regions.h"

#include "rwapi/base/log.h"

namespace rwapi {

int RemoteRegions::find(const Peer& owner, const NetAddress& address, RemoteRegion*& region) {
    region = nullptr;
    const auto known = owner.regions.find(address.index);
    if (known == owner.regions.end()) return RWAPI_OK;
    RemoteRegion& latest = *known->second;
    if (latest.key.generation < address.generation) return RWAPI_OK;
    if (latest.key.generation > address.generation || latest.stale) return RWAPI_ERR_STALE;
    region = &latest;
    return RWAPI_OK;
}

int RemoteRegions::add(Peer& owner, const NetAddress& address, const Key* key) {
    const auto known = owner.regions.find(address.index);
    RemoteRegion* const before = known != owner.regions.end() ? known->second : nullptr;
    if (before != nullptr && before->key.generation >= address.generation) return RWAPI_OK;
    RemoteRegion added{};
    added.peer = &owner;
    added.name = address.name();
    added.origin = address.begin(owner.connection.incarnation).word[1];
    added.has_key = key != nullptr;
    if (key != nullptr) {
        if (key->incarnation != owner.connection.incarnation ||
            key->rkey_length != transport_.rkey_length() ||
            uct_rkey_unpack(transport_.component(), key->rkey.data(), &added.rkey) != UCS_OK)
            return RWAPI_ERR_FOREIGN;
        added.key = *key;
        added.permit();
    } else {
        added.key.generation = address.generation;
        added.stale = true;
    }
    RemoteRegion& region = regions_.emplace(added.name, added).first->second;
    owner.regions[address.index] = &region;
    log_debug("node %u: region %llx has %llu bytes", owner.node,
              static_cast<unsigned long long>(region.name),
              static_cast<unsigned long long>(region.key.length));
    if (before != nullptr) {
        before->make_stale();
        release(*before);
    }
    return RWAPI_OK;
}

void RemoteRegions::mark_stale(const Peer& owner, const NetAddress& address) {
    RemoteRegion* region;
    find(owner, address, region);
    if (region == nullptr) return;
    region->make_stale();
    log_debug("node %u: region %llx: the memory has been deregistered", owner.node,
              static_cast<unsigned long long>(region->name));
}

void RemoteRegions::release(RemoteRegion& region) {
    TERN_ASSERT(region.users > 0);
    if (--region.users != 0) return;
    RemoteRegion*& recent = recent_[place_of(region.name)];
    if (recent == &region) recent = &none_;
    if (region.has_key) uct_rkey_release(transport_.component(), &region.rkey);
    log_debug("node %u: region %llx: its key is released", region.peer->node,
              static_cast<unsigned long long>(region.name));
    regions_.erase(region.name);
}

void RemoteRegions::remove_all() {
    for (auto& [name, region] : regions_) {
        if (region.has_key) uct_rkey_release(transport_.component(), &region.rkey);
    }
}

}  // namespace rwapi
