// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tern/matching/posted_receives.h"
#include "tern/tupleq/core/matcher.h"

namespace tern {

// Implements PostedTable over the transport's table of posted receives, except capacity() and
// prepare(), which depend on the memory of a receive and are left to a binding.
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
        return {handle(posted), !table_.is_keyed(*posted)};
    }
    bool is_keyed(const PostedReceive& receive) const { return table_.is_keyed(receive); }
    bool wants_other_key() const { return table_.wants_other_key(); }
    uint64_t key_mask() const { return table_.key_mask(); }
    void change_key() { table_.change_key(); }
    void remove(ReceiveHandle of) { table_.remove(*receive(of)); }

  private:
    PostedReceives& table_;
};

}  // namespace tern
