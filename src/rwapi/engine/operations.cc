// SPDX-License-Identifier: BSD-3-Clause

// How operations begin. If the peer is connected and nothing waits before it, an operation is
// posted in the call that begins it; otherwise it waits in the peer's list, in order.

#include <algorithm>
#include <cstring>

#include "rwapi/engine/engine.h"

namespace rwapi {
Operation* Engine::take(Task task, Peer& peer, bool known) {
    Operation* const operation = operations_.take();
    if (operation == nullptr) return nullptr;
    *operation = {};
    operation->completion.func = on_done;
    operation->engine = this;
    operation->peer = &peer;
    operation->task = task;
    operation->known = known;
    return operation;
}

int Engine::check_remote(Task task, const Remote& remote, const Transfer& transfer) const {
    const Key& key = remote.key;
    const bool notified = transfer.kind != NoticeKind::kNone;
    if (!within(transfer.offset, transfer.length, key.length)) return RWAPI_ERR_RANGE;
    if (task == Task::kGet && !(key.rights & RWAPI_READ)) return RWAPI_ERR_RIGHTS;
    if (task == Task::kPut && (transfer.length > 0 || notified) && !(key.rights & RWAPI_WRITE))
        return RWAPI_ERR_RIGHTS;
    if (transfer.kind == NoticeKind::kSet || transfer.kind == NoticeKind::kAdd) {
        if (!(key.rights & RWAPI_SIGNAL)) return RWAPI_ERR_RIGHTS;
        if (!within(transfer.place, sizeof(uint64_t), key.length)) return RWAPI_ERR_RANGE;
        if ((key.address + transfer.place) % sizeof(uint64_t) != 0) return RWAPI_ERR_INVALID;
    }
    if (transfer.kind == NoticeKind::kSlot && transfer.place >= key.slots) return RWAPI_ERR_RANGE;
    return RWAPI_OK;
}

rwapi_id Engine::put(const Transfer& what, bool known) {
    return transfer(Task::kPut, what, known);
}

rwapi_id Engine::get(const Transfer& what, bool known) {
    return transfer(Task::kGet, what, known);
}

rwapi_id Engine::transfer(Task task, const Transfer& what, bool known) {
    int error;
    Remote* const remote = remotes_.find(what.region, error);
    if (remote == nullptr) {
        if (error == RWAPI_ERR_STALE) return error;
        Mine* const mine = mine_.find(what.region, error);
        return mine != nullptr ? transfer_here(task, what, *mine) : error;
    }
    error = check_remote(task, *remote, what);
    if (error != RWAPI_OK) return remote->stale ? RWAPI_ERR_STALE : error;
    if (what.length == 0 && what.kind == NoticeKind::kNone) return 0;
    if (remote->peer->failed) return RWAPI_ERR_PEER;
    if (task == Task::kPut && remote->peer->takes_now() && post_short(*remote, what)) return 0;
    Operation* const operation = take(task, *remote->peer, known);
    if (operation == nullptr) return RWAPI_ERR_AGAIN;
    operation->remote = remote;
    ++remote->users;
    operation->offset = what.offset;
    operation->local = what.local;
    operation->length = what.length;
    operation->mine = what.length > 0 ? find_local(what.local, what.length) : nullptr;
    if (operation->mine != nullptr) ++operation->mine->users;
    operation->kind = what.kind;
    operation->notice = notice_of(*remote, what);
    return start(*operation);
}

// To or from a region of this process.
rwapi_id Engine::transfer_here(Task task, const Transfer& what, Mine& mine) {
    const Handle handle = Handle::unpack(mine.handle);
    Remote self;
    self.key = {};
    self.key.address = reinterpret_cast<uintptr_t>(mine.address);
    self.key.length = mine.length;
    self.key.rights = static_cast<uint8_t>(mine.rights);
    self.key.slots = settings_.slots;
    if (const int error = check_remote(task, self, what)) return error;
    std::byte* const memory = mine.address + what.offset;
    if (what.length > 0) {
        if (task == Task::kPut) std::memmove(memory, what.local, what.length);
        if (task == Task::kGet) std::memmove(what.local, memory, what.length);
    }
    if (what.kind != NoticeKind::kNone)
        apply(what.kind, {handle.index, handle.generation, what.length, what.place, what.value});
    return 0;
}

// Whether a network address was made by the context that its node has.
int Engine::check_net(const rwapi_net& net) {
    const uint32_t node = NetAddress::unpack(net).node;
    if (node >= size_) return RWAPI_ERR_FOREIGN;
    uint64_t incarnation = incarnation_;
    if (node != rank_) {
        Peer& peer = peer_of(node);
        if (peer.failed || !greet(peer)) return RWAPI_ERR_PEER;
        incarnation = peer.greeting.incarnation;
    }
    return NetAddress::made_by(incarnation, net) ? RWAPI_OK : RWAPI_ERR_FOREIGN;
}

rwapi_id Engine::write(uint32_t node, const rwapi_net& source, const rwapi_net& target,
                       size_t length) {
    int error = RWAPI_OK;
    const NetAddress from = NetAddress::unpack(source), to = NetAddress::unpack(target);
    if (from.node != rank_ || to.node != node || node >= size_) [[unlikely]] {
        error = check_net(source);
        if (error == RWAPI_OK) error = check_net(target);
        return error != RWAPI_OK ? error : RWAPI_ERR_NODE;
    }
    if (!NetAddress::made_by(incarnation_, source)) return RWAPI_ERR_FOREIGN;
    Mine* const mine = mine_.find(from.index, from.generation, error);
    if (mine == nullptr) return error;
    if (!within(from.offset, length, mine->length)) return RWAPI_ERR_RANGE;
    Transfer what{0, to.offset, mine->address + from.offset, length};
    if (node == rank_) {
        if (!NetAddress::made_by(incarnation_, target)) return RWAPI_ERR_FOREIGN;
        Mine* const here = mine_.find(to.index, to.generation, error);
        return here != nullptr ? transfer_here(Task::kPut, what, *here) : error;
    }
    Peer& peer = peer_of(node);
    if (peer.failed) return RWAPI_ERR_PEER;
    // The incarnation is 0 until the greeting is known.
    if (!NetAddress::made_by(peer.greeting.incarnation, target)) [[unlikely]] {
        error = check_net(target);
        if (error != RWAPI_OK) return error;
    }
    const auto found = peer.keys.find(to.index);
    if (found != peer.keys.end() && found->second.generation == to.generation) {
        what.region = found->second.region;
        if (what.region == 0) return RWAPI_ERR_STALE;
        return transfer(Task::kPut, what, true);
    }
    Operation* const operation = take(Task::kPut, peer, true);
    if (operation == nullptr) return RWAPI_ERR_AGAIN;
    operation->name = to.name();
    operation->offset = to.offset;
    operation->local = what.local;
    operation->length = length;
    operation->mine = mine;
    ++mine->users;
    return start(*operation);
}

rwapi_id Engine::flush(uint32_t node, bool known) {
    if (node >= size_) return RWAPI_ERR_NODE;
    const auto found = peers_.find(node);
    if (found == peers_.end()) return 0;
    Peer& peer = *found->second;
    if (peer.failed) return RWAPI_ERR_PEER;
    if (peer.unused()) return 0;
    Operation* const operation = take(Task::kFlush, peer, known);
    if (operation == nullptr) return RWAPI_ERR_AGAIN;
    return start(*operation);
}

rwapi_id Engine::flush_all(bool known) {
    FlushAll all;
    int status = RWAPI_OK;
    for (const auto& [node, peer] : peers_) {
        if (peer->failed)
            status = RWAPI_ERR_PEER;
        else if (!peer->unused())
            all.nodes.push_back(node);
    }
    if (all.nodes.empty()) return status;
    // A place is left for the parts of those that have not begun them all.
    if (flushing_.size() + 2 > operations_.capacity()) return RWAPI_ERR_AGAIN;
    Operation* const whole = take(Task::kFlushAll, *peers_.begin()->second, known);
    if (whole == nullptr) return RWAPI_ERR_AGAIN;
    const rwapi_id id = operations_.id(whole);
    whole->status = status;
    whole->children = 1;  // begin_flushes()
    all.whole = whole;
    flushing_.push_back(std::move(all));
    begin_flushes();
    const int result = operations_.test(id);
    if (result == 0) return id;
    return result == 1 ? 0 : result;
}

// Begins the parts of flushes of all peers, as long as there are places for operations. What is
// left is begun by progress().
void Engine::begin_flushes() {
    for (; !flushing_.empty(); flushing_.pop_front()) {
        FlushAll& all = flushing_.front();
        Operation& whole = *all.whole;
        for (; !all.nodes.empty(); all.nodes.pop_back()) {
            Peer& peer = peer_of(all.nodes.back());
            if (peer.failed) {
                whole.status = RWAPI_ERR_PEER;
                continue;
            }
            Operation* const part = take(Task::kFlush, peer, false);
            if (part == nullptr) {
                make_busy(peer);
                return;
            }
            part->parent = &whole;
            ++whole.children;
            start(*part);  // its end is counted by finish()
        }
        if (--whole.children == 0) operations_.finish(&whole, whole.status);
    }
}

int Engine::fence(uint32_t node) {
    if (node >= size_) return RWAPI_ERR_NODE;
    const auto found = peers_.find(node);
    if (found == peers_.end()) return RWAPI_OK;
    Peer& peer = *found->second;
    if (peer.failed) return RWAPI_ERR_PEER;
    if (peer.unused()) return RWAPI_OK;
    Operation* const operation = take(Task::kFence, peer, false);
    if (operation == nullptr) return RWAPI_ERR_AGAIN;
    const rwapi_id id = start(*operation);
    return id < 0 ? static_cast<int>(id) : RWAPI_OK;
}

int Engine::send(uint32_t node, const rwapi_small& small) {
    if (node >= size_) return RWAPI_ERR_NODE;
    Peer& peer = peer_of(node);
    if (node == rank_) {
        if (!peer.sends) inbox_.add_sender(settings_.credit);
        peer.sends = true;
        if (!peer.receiver.came()) return RWAPI_ERR_AGAIN;
        inbox_.push({node, small});
        return RWAPI_OK;
    }
    if (peer.failed || !greet(peer)) return RWAPI_ERR_PEER;
    if (peer.sender.left() == 0) return RWAPI_ERR_AGAIN;
    if (peer.takes_now() && post_small(peer, small) == UCS_OK) {
        peer.sender.take();
        return RWAPI_OK;
    }
    Operation* const operation = take(Task::kSmall, peer, false);
    if (operation == nullptr) return RWAPI_ERR_AGAIN;
    peer.sender.take();
    operation->small = small;
    const rwapi_id id = start(*operation);
    return id < 0 ? static_cast<int>(id) : RWAPI_OK;
}

bool Engine::receive(uint32_t& node, rwapi_small& small) {
    Inbox::Message message;
    if (!inbox_.pop(message)) return false;
    node = message.node;
    small = message.small;
    Peer& peer = peer_of(node);
    const bool due = peer.receiver.received();
    if (node == rank_)
        peer.receiver.gave(peer.receiver.owed());
    else if (due)
        make_busy(peer);
    return true;
}

// Returns the id, 0 if the operation is over, or its error.
rwapi_id Engine::start(Operation& operation) {
    Peer& peer = *operation.peer;
    const rwapi_id id = operations_.id(&operation);
    if (peer.state == PeerState::kNew) connect(peer);
    if (peer.failed) {
        finish(operation, RWAPI_ERR_PEER);
        return RWAPI_ERR_PEER;
    }
    peer.waiting.append(&operation);
    const bool known = operation.known;
    operation.known = false;
    starting_ = &operation;
    if (peer.waiting.first() != &operation || peer.state != PeerState::kReady ||
        advance(operation) == Step::kBlocked)
        make_busy(peer);
    starting_ = nullptr;
    const int result = operations_.test(id);
    if (result != 0) return result == 1 ? 0 : result;
    operation.known = known;
    return id;
}

}  // namespace rwapi
