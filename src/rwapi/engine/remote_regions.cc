// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/engine/remote_regions.h"

#include "rwapi/base/log.h"

namespace rwapi {
namespace {

constexpr uint64_t kGeneration = uint64_t{Handle::kMaxGeneration} << 20;  // of a region's name

bool is_of(const Key& key, const NetAddress& address) {
    return key.node == address.node && key.index == address.index &&
           key.generation == address.generation;
}

}  // namespace

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

void RemoteRegions::pack_own_key(const rwapi_net& net, std::span<std::byte> packed) const {
    if (Key key; regions_of_self_.make_key(net.word[0], key)) key.pack(packed);
}

void RemoteRegions::keep(uint32_t node, const rwapi_net& net, std::span<const std::byte> packed) {
    Key key;
    const NetAddress address = NetAddress::unpack(net);
    if (address.node != node || !key.unpack(packed) || !is_of(key, address)) return;
    if (kept_.size() >= size_t{kMostKept} * self_.size) kept_.clear();  // they are asked for later
    kept_[net.word[0] & ~kGeneration].assign(packed.begin(), packed.end());
}

void RemoteRegions::use_kept(Peer& owner, const NetAddress& address) {
    const auto kept = kept_.find(address.name() & ~kGeneration);
    Key key;
    if (kept == kept_.end() || !key.unpack(kept->second) || !is_of(key, address)) return;
    kept_.erase(kept);
    add(owner, address, &key);
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

void RemoteRegions::request(Peer& peer, uint64_t name) {
    if (!peer.keys.awaited && peers_.send(peer, kKeyRequest, 0, &name, sizeof name))
        peer.keys.awaited = name;
}

void RemoteRegions::on_request(std::span<const std::byte> message) {
    Header header;
    uint64_t name;
    Peer* const peer = peers_.sender_of(message, header, name);
    if (peer == nullptr) return;
    peer->keys.requested = name;
    peers_.add_work(*peer);
}

bool RemoteRegions::send_answer(Peer& peer) {
    if (!peer.keys.requested) return true;
    const Header header{self_.rank, 0, 0, 0};
    const uint64_t name = *peer.keys.requested;
    Key key;
    std::array<std::byte, Key::kMaxBytes> packed;
    const size_t length = regions_of_self_.make_key(name, key) ? key.pack(packed) : 0;
    const std::span<const std::byte> parts[] = {bytes_of(header), bytes_of(name),
                                                std::span(packed).first(length)};
    if (!peers_.send_long(peer, kKeyAnswer, parts)) return false;
    peer.keys.requested.reset();
    return true;
}

void RemoteRegions::on_answer(std::span<const std::byte> message) {
    Header header;
    uint64_t name;
    constexpr size_t kFixed = sizeof header + sizeof name;
    if (message.size() < kFixed) return;
    Peer* const peer = peers_.sender_of(message.first(kFixed), header, name);
    if (peer == nullptr || peer->keys.awaited != name) return;
    peer->keys.awaited.reset();
    const NetAddress address = NetAddress::of_name(name);
    Key key;
    bool has_key = message.size() > kFixed;
    if (has_key && (address.node != peer->node || !key.unpack(message.subspan(kFixed)) ||
                    !is_of(key, address) || add(*peer, address, &key) != RWAPI_OK)) {
        peers_.report_dropped(peer->node, "an invalid key");
        has_key = false;
    }
    if (!has_key) add(*peer, address, nullptr);
    peers_.add_work(*peer);
}

void RemoteRegions::remove_all() {
    for (auto& [name, region] : regions_) {
        if (region.has_key) uct_rkey_release(transport_.component(), &region.rkey);
    }
}

}  // namespace rwapi
