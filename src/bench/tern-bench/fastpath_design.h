// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace bench {

// One way of keeping room for messages at a receiver, for one sender.
class Design {
  public:
    virtual ~Design() = default;

    // Whether there is room for the message now; if so, it is there.
    virtual bool send(uint32_t size) = 0;
    // The receiver takes all that is there. What is free again the sender learns if the receiver
    // answers, or else if it is a quarter of all.
    virtual void consume(bool answered) = 0;
    // Memory of the channel, at both ends.
    virtual uint32_t bytes() const = 0;
};

// Slots of one size, filled from the top; the sender keeps a copy of them (paper, section 4.3).
std::unique_ptr<Design> fixed_slots(uint32_t slot_size, uint32_t slots);
// The transport's own BlockWriter and BlockReader over memory of that size. Throws Failure
// if a frame does not come out as it went in.
std::unique_ptr<Design> veloblock(uint32_t size);

}  // namespace bench
