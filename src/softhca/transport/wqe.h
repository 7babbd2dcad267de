// SPDX-License-Identifier: BSD-3-Clause
// Send work requests of the device, and the ring that holds them. Private to the process.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>

#include "softhca/core/nic_model.h"
#include "softhca/core/types.h"

namespace softhca {

// The destination of a datagram; set when the address handle is created.
struct Destination {
    uint32_t link = kNoLink;
    uint32_t process = ~uint32_t{0};  // the only one with the address; all bits set: any
    uint16_t slid = 0;
    uint8_t path_bits = 0;   // of the LID that it addresses
    bool global = false;     // has a GRH
    bool multicast = false;  // `target_gid` is a group's, and `link` the sender's
    uint8_t source_gid[16] = {};
    uint8_t target_gid[16] = {};
    uint8_t traffic_class = 0;
    uint8_t hop_limit = 0;
    uint32_t flow_label = 0;
    static constexpr uint32_t kNoLink = 0xffffffff;  // no port: datagrams vanish
};

struct WindowBind {
    uint32_t region_key;
    uint32_t access;
    uint64_t address;
    uint64_t length;
    uint32_t window_key;  // the window's key before
    uint32_t new_key;     // the window's key after
};

// Of a datagram.
struct DatagramAddress {
    Destination path;
    uint32_t qp;
    uint32_t qkey;
};

struct AtomicOperands {
    uint64_t compare_add;
    uint64_t swap;  // and, when the responder has acted, the value from before
};

// How far a work request has come.
struct RequestState {
    uint64_t progress;                  // bytes placed so far
    std::optional<WcStatus> delivered;  // executed ahead of its turn
    bool attempted;                     // an attempt to start it ahead of its turn has failed
    bool spared;                        // a datagram that the fault `lose` leaves alone
    bool acted;                         // a read or atomic: the responder has
    bool faulted_local;                 // its pages there have been looked at or faulted in, which
    bool faulted_remote;                // a work request does once, so that it gets on
    bool backwards;  // by a fault, placed from the end; set before the first byte
};

struct Wqe {
    uint64_t wr_id;
    WrOpcode opcode;
    uint8_t flags;  // send_flag bits
    uint8_t num_sge;
    bool is_inline;   // the data is in the entry
    uint32_t length;  // of the message in bytes
    uint32_t imm;     // immediate data or the rkey to invalidate
    uint32_t srq;     // XRC: the SRQ that the message addresses
    RemoteAddress remote;
    AtomicOperands atomic;
    DatagramAddress datagram;
    WindowBind bind;
    RequestState state;
    // With the timing model, else zero:
    uint64_t posted_at;   // ns
    uint64_t acted_late;  // ns; of a read or atomic at the responder
    Booking booking;
    // How many bytes of the message, or of the answer, have left; nothing: in virtual time, it
    // waits for its turn at the port. Then the booking is unknown, and later a part of it.
    std::optional<uint64_t> departed;

    Sge* sges() { return reinterpret_cast<Sge*>(this + 1); }
    const Sge* sges() const { return reinterpret_cast<const Sge*>(this + 1); }
    char* inline_data() { return reinterpret_cast<char*>(this + 1); }
    const char* inline_data() const { return reinterpret_cast<const char*>(this + 1); }

    // Whether the message sends local memory (reads and atomics receive into it).
    bool gathers() const {
        return sends() || opcode == WrOpcode::kRdmaWrite || opcode == WrOpcode::kRdmaWriteImm;
    }
    bool has_left() const { return departed == length; }
    // When the first `end` bytes have arrived; kNever: they have not left.
    uint64_t arrival_at(const NicParameters& nic, uint64_t end) const {
        return end > *departed ? kNever : softhca::arrival_at(booking, nic, length, end);
    }
    uint64_t arrival_end() const { return has_left() ? booking.arrival_end : kNever; }
    static constexpr uint64_t kNever = ~uint64_t{0};
    // Whether no peer is involved.
    bool is_local() const {
        return opcode == WrOpcode::kBindMw || opcode == WrOpcode::kLocalInvalidate;
    }
    bool sends() const {
        return opcode == WrOpcode::kSend || opcode == WrOpcode::kSendImm ||
               opcode == WrOpcode::kSendInvalidate;
    }
    bool reads() const {
        return opcode == WrOpcode::kRdmaRead || opcode == WrOpcode::kCompareSwap ||
               opcode == WrOpcode::kFetchAdd;
    }
};

// A program's allocator for memory of queues; without functions, the heap.
struct QueueAllocator {
    // False if there is no memory. If *memory is nullptr, the caller takes memory from the heap.
    bool (*allocate)(void* user, size_t bytes, size_t alignment, void** memory) = nullptr;
    void (*release)(void* user, void* memory) = nullptr;
    void* user = nullptr;
};

// Entries of one size. Indices only grow: those released are below those executed, and these below
// those posted.
class SendQueue {
  public:
    // Throws std::bad_alloc.
    SendQueue(uint32_t entries, uint32_t max_sge, uint32_t max_inline,
              const QueueAllocator& allocator) {
        const uint32_t payload = std::max<uint32_t>(max_sge * sizeof(Sge), max_inline);
        stride_ = (sizeof(Wqe) + payload + 63) & ~uint64_t{63};
        capacity_ = entries;
        const uint32_t slots = std::bit_ceil(entries);
        mask_ = slots - 1;
        void* memory = nullptr;
        if (allocator.allocate != nullptr &&
            !allocator.allocate(allocator.user, stride_ * slots, kAlignment, &memory))
            throw std::bad_alloc();
        if (memory != nullptr)
            bytes_ = {static_cast<char*>(memory), Free{allocator}};
        else
            bytes_.reset(new (std::align_val_t{kAlignment}) char[stride_ * slots]);
    }
    // The most entries in use at a time.
    uint32_t capacity() const { return capacity_; }
    Wqe& at(uint64_t index) {
        return *reinterpret_cast<Wqe*>(bytes_.get() + (index & mask_) * stride_);
    }
    // The free entry at distance `ahead` from the next one, cleared; nullptr if the queue is full.
    Wqe* reserve(uint64_t ahead = 0) {
        const uint64_t index = posted() + ahead;
        if (index - released_.load(std::memory_order_acquire) >= capacity_) return nullptr;
        Wqe* wqe = &at(index);
        *wqe = Wqe{};
        return wqe;
    }
    // Posts the reserved entry.
    void commit() { posted_.store(posted() + 1, std::memory_order_release); }
    uint64_t posted() const { return posted_.load(std::memory_order_acquire); }
    // Frees the entries below `position`, whose completions were polled.
    void release(uint64_t position) { released_.store(position, std::memory_order_release); }

  private:
    static constexpr size_t kAlignment = 64;
    struct Free {
        QueueAllocator allocator;  // without functions: memory from the heap

        void operator()(char* bytes) const {
            if (allocator.release != nullptr)
                allocator.release(allocator.user, bytes);
            else
                ::operator delete[](bytes, std::align_val_t{kAlignment});
        }
    };
    uint64_t stride_;
    uint64_t mask_;
    uint32_t capacity_;
    std::unique_ptr<char[], Free> bytes_;
    std::atomic<uint64_t> posted_{0};
    std::atomic<uint64_t> released_{0};  // stored by the thread that polls
};

}  // namespace softhca
