// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "pinning/regions/regions.h"
#include "tupleq/core/posted.h"

namespace tern {

class TupleQ;

// A receive with the memory that its message may be placed in.
struct TupleReceive : PostedReceive {
    std::byte* buffer = nullptr;
    size_t room = 0;
    RegionKey region;  // that the memory was declared as; none, if the generation is 0
};

// The receives that are posted, all of them TupleReceive, as TupleMatcher looks at them.
class TupleTable : public TuplePosted {
  public:
    TupleTable(PostedReceives& posted, TupleQ& tupleq) : TuplePosted(posted), tupleq_(tupleq) {}

    static TupleReceive& receive(ReceiveHandle handle) {
        return *static_cast<TupleReceive*>(TuplePosted::receive(handle));
    }
    static uint64_t capacity(ReceiveHandle of) { return receive(of).room; }
    bool prepare(ReceiveHandle of);
    void remove(ReceiveHandle of);

  private:
    TupleQ& tupleq_;
};

}  // namespace tern
