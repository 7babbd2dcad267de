// SPDX-License-Identifier: BSD-3-Clause

// How the engine begins puts and gets of many pieces, all of one node.

#include <cstring>
#include <utility>

#include "rwapi/engine/engine.h"

namespace rwapi {
// The pieces of an operation that has not begun, which are given back unless it gets them. All of
// them are checked before anything is posted.
class Engine::Pieces {
  public:
    Pieces(Engine& engine, Task task) : engine_(engine), task_(task) {}
    ~Pieces() { engine_.operations_.release(first_); }
    Pieces(const Pieces&) = delete;
    Pieces& operator=(const Pieces&) = delete;

    // Adds a piece for which there is a reserved place. RWAPI_OK or an error.
    int append(const rwapi_element& one, const rwapi_blocks& blocks = {0, 1, 0, 0}) {
        const Transfer what = Transfer::of(one.net, one.offset, one.local, one.length);
        Piece* const added = engine_.operations_.pieces().take();
        *added = {{nullptr, what.name, what.offset},
                  {what.local, what.length, 0, nullptr, nullptr},
                  nullptr,
                  blocks.count,
                  blocks.stride,
                  blocks.local_stride};
        (first_ == nullptr ? first_ : last_->next) = added;
        last_ = added;
        return check(one.net, *added);
    }
    rwapi_id begin(bool has_id);

  private:
    int check(const rwapi_net& net, Piece& piece);
    int prepare(Piece& piece);
    void copy_locally(const Piece& piece);

    Engine& engine_;
    const Task task_;
    Piece* first_ = nullptr;
    Piece* last_ = nullptr;
};

rwapi_id Engine::transfer_list(Task task, std::span<const rwapi_element> elements, bool has_id) {
    if (elements.size() > operations_.pieces().capacity()) return RWAPI_ERR_RANGE;
    if (!operations_.pieces().reserve(elements.size())) return RWAPI_ERR_AGAIN;
    Pieces pieces(*this, task);
    const uint32_t node = NetAddress::unpack(elements[0].net).node;
    for (const rwapi_element& each : elements) {
        if (NetAddress::unpack(each.net).node != node) return RWAPI_ERR_NODE;
        if (each.local == nullptr && each.length > 0) return RWAPI_ERR_INVALID;
        if (const int error = pieces.append(each)) return error;
    }
    return pieces.begin(has_id);
}

rwapi_id Engine::transfer_blocks(Task task, const rwapi_element& first, const rwapi_blocks& blocks,
                                 bool has_id) {
    if (!operations_.pieces().reserve(1)) return RWAPI_ERR_AGAIN;
    Pieces pieces(*this, task);
    if (const int error = pieces.append(first, blocks)) return error;
    return pieces.begin(has_id);
}

// Whether the piece is permitted. Sets its region, if it is of a peer whose key has come.
int Engine::Pieces::check(const rwapi_net& net, Piece& piece) {
    const Transfer what{piece.target.name, piece.target.offset, piece.local.memory, piece.extent()};
    const OwnRegion* own = nullptr;
    RemoteRegion* region = engine_.remotes_.find_recent(net);
    if (region == nullptr) {
        if (const int error = engine_.find(net, own, region)) return error;
    }
    if (own != nullptr) return check_access(engine_.regions_.rights_of(*own), task_, what);
    if (region == nullptr) return RWAPI_OK;
    const int error = check_access(region->key, task_, what);
    if (error != RWAPI_OK) return region->stale ? RWAPI_ERR_STALE : error;
    piece.target.region = region;
    RemoteRegions::use(*region);
    return region->peer->failed ? RWAPI_ERR_PEER : RWAPI_OK;
}

rwapi_id Engine::Pieces::begin(bool has_id) {
    const NetAddress target = NetAddress::of_name(last_->target.name);
    if (target.node == engine_.self_.rank) {
        for (const Piece* each = first_; each != nullptr; each = each->next) copy_locally(*each);
        engine_.sleeper_.wake();
        return 0;
    }
    // An attempt that fails for want of a place registers nothing.
    if (engine_.operations_.full()) return RWAPI_ERR_AGAIN;
    bool all_known = true;
    for (Piece* each = first_; each != nullptr; each = each->next) {
        all_known = all_known && each->target.region != nullptr;
        if (const int error = prepare(*each)) return error;
    }
    Peer& peer = engine_.peers_.at(target.node);
    Operation* const operation = engine_.operations_.allocate(task_, peer, has_id);
    if (operation == nullptr) return RWAPI_ERR_AGAIN;
    operation->pieces.first = std::exchange(first_, nullptr);
    begin_piece(*operation, *operation->pieces.first);
    if (!all_known) operation->target.region = nullptr;
    const rwapi_id id = engine_.sequencer_.start(*operation);
    if (id > 0) engine_.refill(peer);
    return id;
}

// Finds the registration of the local memory, or makes one if it is needed. Later this could fail
// when other pieces have been sent.
int Engine::Pieces::prepare(Piece& piece) {
    Operation::Local& local = piece.local;
    if (local.length == 0) return RWAPI_OK;
    local.region = engine_.regions_.find_containing(local.memory, piece.local_extent());
    if (local.region != nullptr) Regions::use(*local.region);
    return error_of(engine_.posting_.prepare(piece, task_));
}

// A piece to or from memory of this process, which has been checked.
void Engine::Pieces::copy_locally(const Piece& piece) {
    if (piece.local.length == 0) return;
    const NetAddress target = NetAddress::of_name(piece.target.name);
    std::byte* there = engine_.regions_.find(target.region())->address + piece.target.offset;
    std::byte* here = piece.local.memory;
    for (uint64_t left = piece.blocks; left > 0; --left) {
        std::memmove(task_ == Task::kPut ? there : here, task_ == Task::kPut ? here : there,
                     piece.local.length);
        there += piece.stride;
        here += piece.local_stride;
    }
}

}  // namespace rwapi
