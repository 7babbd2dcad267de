// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "rwapi/core/operation_pool.h"
#include "rwapi/engine/operation.h"
#include "rwapi/engine/peers.h"
#include "rwapi/engine/pieces.h"
#include "rwapi/engine/regions.h"
#include "rwapi/engine/remote_regions.h"

namespace rwapi {

// The operations of a context, their results, and how they end.
class Operations {
  public:
    Operations(IdRanges& ids, uint32_t capacity, const Transport& transport, RemoteRegions& remotes,
               Peers& peers)
        : transport_(transport),
          remotes_(remotes),
          peers_(peers),
          pool_(ids, capacity),
          pieces_(capacity) {}

    // A new operation. has_id: the user gets its id. Null: all places are in use.
    Operation* allocate(Task task, Peer& peer, bool has_id);
    // Ends an operation, which is in no list.
    void finish(Operation& operation, int result);
    // Ends all operations of a peer whose endpoints have been destroyed.
    void finish_all(Peer& peer);
    // An error of a peer for a kFlushAll, which returns the first; the next flush returns others.
    static void tell(Operation& whole, Peer& peer, int error);
    // Counts a part of a kFlushAll, or the time in which parts may begin, as ended.
    void finish_part(Operation& whole);

    // Gives back a list of pieces and what they use. Null: an empty one.
    void release(Piece* first);
    PiecePool& pieces() { return pieces_; }

    rwapi_id id(const Operation& operation) const { return pool_.id(&operation); }
    // 1: complete; 0: not yet; negative: the operation's error, or that of a wrong id.
    int test(rwapi_id id) { return pool_.test(id); }
    // What test() returns; but the error is still to be asked for.
    int look(rwapi_id id) const { return pool_.look(id); }
    // The error of an operation to a peer that lives, if its id is known but nobody has asked.
    int lost_error() const;
    uint32_t capacity() const { return pool_.capacity(); }
    bool full() const { return pool_.in_use() == pool_.capacity(); }
    bool has_ids() const { return pool_.has_ids(); }

  private:
    static void on_completion(uct_completion_t* completion);
    void complete(Operation& operation, ucs_status_t status);
    void release(Operation::Local& local, Operation::Target& target);

    const Transport& transport_;
    RemoteRegions& remotes_;
    Peers& peers_;
    OperationPool<Operation> pool_;
    PiecePool pieces_;
};

// The error of an operation that has failed in UCT with this status.
int error_of(ucs_status_t status);

}  // namespace rwapi
