// SPDX-License-Identifier: BSD-3-Clause
// Reads and writes the memory of processes: with a copy if the memory is shared and mapped here,
// with process_vm_readv() and process_vm_writev() otherwise.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstdint>

#include "softhca/fabric/host.h"
#include "softhca/fabric/peer_maps.h"

namespace softhca {

// A fault is an address that cannot be accessed; kGone: the other process has died.
enum class CopyResult : uint8_t { kOk, kLocalFault, kRemoteFault, kGone };

// In which order bytes become visible. kPages: the pages in ascending order, and the last 8 bytes
// last. kAscending: all of them in ascending order, which takes three to four times as long in
// memory that is not shared. Bytes in shared memory always do the latter.
enum class Order : uint8_t { kPages, kAscending };

// A scatter-gather list with room for all elements of a work request. In one that is relaxed, the
// lines of a copy become visible in an order of their own (core/line_order.h), whatever the Order.
class IovList {
  public:
    IovList() = default;
    IovList(const IovList& other) { *this = other; }
    // Copies only used entries: most of the room is unused.
    IovList& operator=(const IovList& other) {
        if (this == &other) return *this;
        count_ = other.count_;
        relaxed_ = other.relaxed_;
        for (uint32_t i = 0; i < count_; ++i) entries_[i] = other.entries_[i];
        return *this;
    }
    void add(uint64_t addr, uint64_t length, bool relaxed = false) {
        relaxed_ |= relaxed;
        if (length != 0 && count_ < kMaxSge + 2)
            entries_[count_++] = {reinterpret_cast<void*>(addr), length};
    }
    uint32_t count() const { return count_; }
    bool relaxed() const { return relaxed_; }
    const iovec* data() const { return entries_; }
    uint64_t length() const;
    // The part [offset, offset + length) of the list.
    IovList slice(uint64_t offset, uint64_t length) const;
    // Puts the last `tail` bytes into an entry of their own, so that they are copied last.
    void split_tail(uint64_t tail);

  private:
    iovec entries_[kMaxSge + 3];
    uint32_t count_ = 0;
    bool relaxed_ = false;
};

class ProcessMemory {
  public:
    explicit ProcessMemory(Host& host) : host_(host), maps_(host) {}

    // Writes `local` to `remote` memory of process `slot`. `key`: the registration that holds all
    // of `remote`; may be nullptr.
    CopyResult write(uint32_t slot, const KeyEntry* key, const IovList& local,
                     const IovList& remote, Order order = Order::kPages) {
        return copy(slot, key, {local, remote, true}, order);
    }
    // Reads `remote` memory of process `slot` into `local`.
    CopyResult read(uint32_t slot, const KeyEntry* key, const IovList& remote, const IovList& local,
                    Order order = Order::kPages) {
        return copy(slot, key, {local, remote, false}, order);
    }

    // Says, once, if the kernel refuses copies to or from a member that lives, and what to do.
    void try_members();

    PeerMaps& maps() { return maps_; }

  private:
    struct Sides {
        const IovList& local;
        const IovList& remote;
        bool writes;  // to the remote one
    };
    CopyResult copy(uint32_t slot, const KeyEntry* key, const Sides& sides, Order order);
    // Whether the remote memory is mapped here. If so, adds its addresses in this process to
    // *mapped.
    bool map_peer(uint32_t slot, const KeyEntry* key, const IovList& remote, IovList* mapped);
    CopyResult finish(uint32_t slot, ssize_t copied, uint64_t length, const IovList& local,
                      bool local_is_source);
    void explain_refusal(uint32_t slot, int error);

    Host& host_;
    PeerMaps maps_;
    std::atomic_flag explained_;  // why the kernel refuses a copy
};

}  // namespace softhca
