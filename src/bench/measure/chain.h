// SPDX-License-Identifier: BSD-3-Clause
// RDMA writes that tell the target that they have come, in the way that is least on the wire: each
// is a chain of two writes, of the message and then of its number, into a word that the target
// polls. The word is in shared memory, as what a transport polls is.
#pragma once

#include "bench/measure/link.h"
#include "bench/measure/machine.h"
#include "bench/measure/order.h"
#include "bench/measure/statistics.h"

namespace bench {

// The word. Both processes construct it at the same time.
class Flag {
  public:
    Flag(Device& device, Peer& peer);

    // The write of a number into the peer's word.
    Link::Write write(uint64_t number);
    // This process's word.
    char* word() { return memory_.data(); }

  private:
    struct Address {
        uint64_t word;
        uint32_t key;
    };
    static constexpr size_t kSize = 4096;

    Memory memory_;
    tern::verbs::MemoryRegion mr_;
    Address theirs_;
};

// Half round trips and exchanges.
Samples chain_trips(Peer& peer, Link& link, Flag& flag, const Order& order);
Samples chain_exchanges(Peer& peer, Link& link, Flag& flag, const Order& order);
// The time between two chains of a burst, whose words nobody looks at. Only the process that
// measures takes part.
Samples chain_bursts(Link& link, Flag& flag, const Order& order);

}  // namespace bench
