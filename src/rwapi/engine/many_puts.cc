// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/engine/many_puts.h"

#include <cstring>
#include <utility>

namespace rwapi {
namespace {

Piece piece_of(const Transfer& what) {
    return {{nullptr, what.name, what.offset},
            {what.local, what.length, 0, nullptr, nullptr},
            nullptr,
            1,
            0,
            0};
}

}  // namespace

// The pieces of a put that has not begun, which are given back unless the operation gets them.
class ManyPuts::Pieces {
  public:
    explicit Pieces(Operations& operations) : operations_(operations) {}
    ~Pieces() { operations_.release(first_); }
    Pieces(const Pieces&) = delete;
    Pieces& operator=(const Pieces&) = delete;

    Piece& append(const Piece& piece) {
        Piece* const added = operations_.pieces().take();
        *added = piece;
        (first_ == nullptr ? first_ : last_->next) = added;
        last_ = added;
        bytes_ += piece.blocks * piece.local.length;
        return *added;
    }
    Piece* first() const { return first_; }
    const Piece& last() const { return *last_; }
    uint64_t bytes() const { return bytes_; }
    Piece* release() { return std::exchange(first_, nullptr); }

  private:
    Operations& operations_;
    Piece* first_ = nullptr;
    Piece* last_ = nullptr;
    uint64_t bytes_ = 0;
};

rwapi_id ManyPuts::put_list(std::span<const rwapi_element> elements, const Notify& notify,
                            bool has_id) {
    if (elements.size() > operations_.pieces().capacity()) return RWAPI_ERR_RANGE;
    if (!operations_.pieces().reserve(elements.size())) return RWAPI_ERR_AGAIN;
    Pieces pieces(operations_);
    const uint32_t node = NetAddress::unpack(elements[0].net).node;
    for (const rwapi_element& each : elements) {
        if (NetAddress::unpack(each.net).node != node) return RWAPI_ERR_NODE;
        if (each.local == nullptr && each.length > 0) return RWAPI_ERR_INVALID;
        auto* const local = static_cast<std::byte*>(const_cast<void*>(each.local));
        Piece& piece = pieces.append(piece_of(
            {each.net.word[0], NetAddress::offset_of(each.net, each.offset), local, each.length}));
        if (const int error = check(each.net, piece, notify)) return error;
    }
    return begin(pieces, notify, has_id);
}

rwapi_id ManyPuts::put_blocks(const rwapi_net& net, const Transfer& first,
                              const rwapi_blocks& blocks, const Notify& notify, bool has_id) {
    if (!operations_.pieces().reserve(1)) return RWAPI_ERR_AGAIN;
    Pieces pieces(operations_);
    Piece piece = piece_of(first);
    piece.blocks = blocks.count;
    piece.stride = blocks.stride;
    piece.local_stride = blocks.local_stride;
    if (const int error = check(net, pieces.append(piece), notify)) return error;
    return begin(pieces, notify, has_id);
}

// Whether the piece may be written. Sets its region, if it is of a peer whose key has come.
int ManyPuts::check(const rwapi_net& net, Piece& piece, const Notify& notify) {
    Transfer what{piece.target.name, piece.target.offset, piece.local.memory, piece.extent()};
    what.kind = notify.kind;
    what.place = notify.place;
    what.value = notify.value;
    RemoteRegion* region = remotes_.find_recent(net);
    if (region == nullptr) {
        int error = connector_.check(net);
        if (error != RWAPI_OK) return error;
        const NetAddress address = NetAddress::unpack(net);
        if (address.node == self_.rank) {
            const OwnRegion* const own = regions_.find(net, error);
            return own != nullptr ? check_access(regions_.rights_of(*own), Task::kPut, what)
                                  : error;
        }
        error = RemoteRegions::find(peers_.at(address.node), address, region);
        if (error != RWAPI_OK || region == nullptr) return error;
        remotes_.remember(*region);
    }
    const int error = check_access(region->key, Task::kPut, what);
    if (error != RWAPI_OK) return region->stale ? RWAPI_ERR_STALE : error;
    piece.target.region = region;
    RemoteRegions::use(*region);
    return region->peer->failed ? RWAPI_ERR_PEER : RWAPI_OK;
}

rwapi_id ManyPuts::begin(Pieces& pieces, const Notify& notify, bool has_id) {
    const NetAddress target = NetAddress::of_name(pieces.last().target.name);
    const Notification notification{Notification::region_of(target.index, target.generation),
                                    pieces.bytes(), notify.place, notify.value};
    if (target.node == self_.rank) {
        for (const Piece* each = pieces.first(); each != nullptr; each = each->next)
            copy_locally(*each);
        if (notify.kind != NotificationKind::kNone) notifications_.apply(notify.kind, notification);
        sleeper_.wake();
        return 0;
    }
    bool all_known = true;
    for (Piece* each = pieces.first(); each != nullptr; each = each->next) {
        all_known = all_known && each->target.region != nullptr;
        if (const int error = prepare(*each)) return error;
    }
    Operation* const operation = operations_.allocate(Task::kPut, peers_.at(target.node), has_id);
    if (operation == nullptr) return RWAPI_ERR_AGAIN;
    operation->pieces.first = pieces.release();
    begin_piece(*operation, *operation->pieces.first);
    if (!all_known) operation->target.region = nullptr;
    operation->kind = notify.kind;
    operation->notification = notification;
    return sequencer_.start(*operation);
}

// Finds the registration of the local memory, or makes one if it is needed. Later this could fail
// when other pieces have been sent.
int ManyPuts::prepare(Piece& piece) {
    Operation::Local& local = piece.local;
    if (local.length == 0) return RWAPI_OK;
    local.region = regions_.find_containing(local.memory, piece.local_extent());
    if (local.region != nullptr) Regions::use(*local.region);
    return error_of(posting_.prepare(piece));
}

// Writes a piece to memory of this process, which has been checked.
void ManyPuts::copy_locally(const Piece& piece) {
    if (piece.local.length == 0) return;
    const NetAddress target = NetAddress::of_name(piece.target.name);
    int error;
    std::byte* to =
        regions_.find_own(target.index, target.generation, error)->address + piece.target.offset;
    const std::byte* from = piece.local.memory;
    for (uint64_t left = piece.blocks; left > 0; --left) {
        std::memmove(to, from, piece.local.length);
        to += piece.stride;
        from += piece.local_stride;
    }
}

}  // namespace rwapi
