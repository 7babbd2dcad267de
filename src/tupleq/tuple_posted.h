// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "matching/posted_receives.h"
#include "tupleq/tuple_receivers.h"

namespace tern {

// Most of a PostedTable, over the transport's table of posted receives. What is left to a binding
// is what depends on the memory of a receive: capacity() and prepare().
class TuplePosted {
  public:
    explicit TuplePosted(PostedReceives& table) : table_(table) {}

    static ReceiveHandle handle(const PostedReceive* receive) {
        return reinterpret_cast<ReceiveHandle>(receive);
    }
    static PostedReceive* receive(ReceiveHandle handle) {
        return reinterpret_cast<PostedReceive*>(handle);
    }

    ReceiveHandle first(uint64_t tag) const { return handle(table_.first(tag)); }
    static ReceiveHandle next(ReceiveHandle of) {
        return handle(PostedReceives::next(*receive(of)));
    }
    bool behind_wildcard(ReceiveHandle of) const {
        const PostedReceive& posted = *receive(of);
        const PostedReceive* wildcard = table_.wildcard(posted.tag);
        return wildcard != nullptr && wildcard->order < posted.order;
    }
    TakenReceive take(uint64_t tag) {
        const PostedReceive* posted = table_.match(tag);
        if (posted == nullptr) return {};
        return {handle(posted), posted->mask != PostedReceive::kFullMask};
    }
    void remove(ReceiveHandle of) { table_.remove(*receive(of)); }

  private:
    PostedReceives& table_;
};

}  // namespace tern
