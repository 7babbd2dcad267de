// SPDX-License-Identifier: BSD-3-Clause
// The orders of workers, and the addresses of the messages that they exchange.
#pragma once

#include <cstdint>

namespace bench {

// Which buffers the messages of a ping-pong use.
enum class Buffers : uint8_t {
    kOne,     // always in the same buffer, with all that an order has sent before
    kReused,  // in one that was never used before, and then in that one again
    kFresh,   // each in one that was never used before
};

// One task for the two workers of a pair. Plain data.
struct Order {
    enum class Kind : uint8_t {
        kWrites,    // round trips of RDMA writes
        kSends,     // of sends and receives
        kMessages,  // of messages
        kGoes,      // UCP: of words that have nothing to do with messages
        kStream,    // bursts
        // Nonblocking messages that overlap with work (exchange.h):
        kAvailability,
        kOverhead,
        kArrivals,
        // Verbs: streams of requests, registrations without and with deregistration, posts, and the
        // arrival of the pieces of a long write.
        kSpacings,
        kRegistrations,
        kPinnings,
        kPosts,
        kPieces,
        // Without the device: copies from memory, process_vm_writev, and stores.
        kCopies,
        kCopyCalls,
        kCopyTrips,
        kCopySpacings,
        kStoreTrips,
        kQuit
    };
    enum class Request : uint8_t { kWrite, kRead, kSend };

    Kind kind = Kind::kMessages;
    uint32_t size = 8;
    uint64_t count = 0;
    uint64_t per_sample = 1;  // trips, or messages of a burst, behind one sample
    Buffers buffers = Buffers::kOne;
    bool sender = false;                // overlapped: who works is who sends
    bool one_sided = false;             // takes no processor of the worker that answers
    bool reaps = false;                 // kWrites: takes completions while it waits
    Request request = Request::kWrite;  // kSpacings, kCopySpacings
    uint32_t window = 8;                // the same: requests under way
    uint32_t bytes = 0;                 // kPieces: of the size, what is waited for

    // The number of round trips: whole samples only.
    uint64_t trips() const { return count / per_sample * per_sample; }
};

// The longest message that is measured, and the memory for the buffers of one direction.
constexpr uint64_t kLongest = uint64_t{16} << 20;
constexpr uint64_t kGround = uint64_t{96} << 20;

// The buffers in this memory, one behind the other. There is an unused page between two buffers,
// because a registration cache could merge adjacent ones. Both workers of a pair choose the same
// buffers.
class Walk {
  public:
    // To be called before the messages of an order. Returns true if the rest of the memory was too
    // short for them, so that the walk has started again at the beginning.
    bool begin(const Order& order) {
        stride_ = order.buffers == Buffers::kFresh ? stride(order.size) : 0;
        const uint64_t buffers = stride_ == 0 ? 1 : order.count;
        const bool again = next_ + buffers * stride(order.size) > kGround;
        at_ = again ? 0 : next_;
        next_ = at_ + buffers * stride(order.size);
        return again;
    }
    // The offset of the next message.
    uint64_t step() {
        const uint64_t at = at_;
        at_ += stride_;
        return at;
    }

    // How many messages of a size fit into the memory.
    static uint64_t most(uint32_t size) { return kGround / stride(size); }

  private:
    static constexpr uint64_t kPage = 4096;
    static uint64_t stride(uint32_t size) { return (size + kPage - 1) / kPage * kPage + kPage; }

    uint64_t stride_ = 0;
    uint64_t at_ = 0;
    uint64_t next_ = 0;
};

}  // namespace bench
