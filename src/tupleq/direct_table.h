// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "matching/posted_receives.h"
#include "tupleq/tuple_receivers.h"

namespace tern {

class Direct;

// A receive with the memory that its message may be placed in.
struct DirectReceive : PostedReceive {
    std::byte* buffer = nullptr;
    size_t room = 0;
};

// The receives that are posted, all of them DirectReceive, as TupleReceivers looks at them.
class DirectTable {
  public:
    DirectTable(PostedReceives& posted, Direct& direct) : posted_(posted), direct_(direct) {}

    static ReceiveHandle handle(const PostedReceive* receive) {
        return reinterpret_cast<ReceiveHandle>(receive);
    }
    static DirectReceive& receive(ReceiveHandle handle) {
        return *static_cast<DirectReceive*>(reinterpret_cast<PostedReceive*>(handle));
    }

    ReceiveHandle first(uint64_t tag) const { return handle(posted_.first(tag)); }
    static ReceiveHandle next(ReceiveHandle of) {
        return handle(PostedReceives::next(receive(of)));
    }
    bool behind_wildcard(ReceiveHandle of) const {
        const DirectReceive& it = receive(of);
        const PostedReceive* wildcard = posted_.wildcard(it.tag);
        return wildcard != nullptr && wildcard->order < it.order;
    }
    static uint64_t capacity(ReceiveHandle of) { return receive(of).room; }
    bool prepare(ReceiveHandle of);
    TakenReceive take(uint64_t tag) {
        const PostedReceive* receive = posted_.match(tag);
        return {handle(receive), receive != nullptr && receive->mask != PostedReceive::kFullMask};
    }
    void remove(ReceiveHandle of) { posted_.remove(receive(of)); }

  private:
    PostedReceives& posted_;
    Direct& direct_;
};

}  // namespace tern
