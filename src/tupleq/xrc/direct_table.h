// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "pinning/regions/regions.h"
#include "tupleq/core/tuple_posted.h"

namespace tern {

class Direct;

// A receive with the memory that its message may be placed in.
struct DirectReceive : PostedReceive {
    std::byte* buffer = nullptr;
    size_t room = 0;
    RegionKey region;  // that the memory was declared as; none, if the generation is 0
};

// The receives that are posted, all of them DirectReceive, as TupleReceivers looks at them.
class DirectTable : public TuplePosted {
  public:
    DirectTable(PostedReceives& posted, Direct& direct) : TuplePosted(posted), direct_(direct) {}

    static DirectReceive& receive(ReceiveHandle handle) {
        return *static_cast<DirectReceive*>(TuplePosted::receive(handle));
    }
    static uint64_t capacity(ReceiveHandle of) { return receive(of).room; }
    bool prepare(ReceiveHandle of);
    void remove(ReceiveHandle of);

  private:
    Direct& direct_;
};

}  // namespace tern
