// SPDX-License-Identifier: BSD-3-Clause
// Memory keys: what an lkey or rkey gives access to, and the check that every access passes.
#pragma once

#include <atomic>
#include <cstdint>

#include "softhca/core/types.h"

namespace softhca {

enum class KeyKind : uint8_t { kRegion, kWindowType1, kWindowType2, kNullRegion };

// A null region reads as zeros and discards writes, at every address. At its host address are
// kNullBytes of zeros (the longest message), and then kNullBytes for writes.
constexpr uint64_t kNullBytes = uint64_t{1} << 30;

// One memory region or window. The owner writes the fields before it publishes `key`. The owner
// changes the fields only after it has withdrawn `key` and all accesses have ended.
struct KeyEntry {
    // the valid key; 0: none. The owner stores with release, users load with acquire.
    std::atomic<uint32_t> key{0};
    uint32_t pd = 0;  // protection domain in the owner's process
    uint32_t access = 0;
    KeyKind kind = KeyKind::kRegion;
    uint32_t region_key = 0;  // of a bound window: the region it is bound to
    uint32_t bound_qp = 0;    // of a type 2 window: the only queue pair that may use it
    uint64_t start = 0;       // the address (iova) that users of the key name
    uint64_t length = 0;
    uint64_t host = 0;  // virtual address of `start` in the owner's process
    // of a registration of shared memory, never used again; 0: private memory
    uint64_t share_id = 0;
    uint64_t file_offset = 0;  // of `host` in the backing file
    uint64_t file_inode = 0;   // of the backing file
    int32_t file_fd = -1;      // the owner's descriptor of the backing file
    // of a region with on-demand paging, never used again; 0: pinned
    std::atomic<uint64_t> paged{0};

    // Whether the device may make the lines of what it writes there visible in any order.
    bool relaxed() const { return (access & access_flag::kRelaxedOrdering) != 0; }
};

// Whether `key` allows the access rights `need` on [addr, addr + length) to protection domain `pd`
// and queue pair `qp`. If so, *host is the address in the owner's process. A zero-length access
// needs no key; the caller does not check it.
inline bool check_key(const KeyEntry& entry, uint32_t key, uint32_t pd, uint32_t qp, uint64_t addr,
                      uint64_t length, uint32_t need, uint64_t* host) {
    // Pairs with the owner, which withdraws the key and then waits for accesses to end.
    if (key == 0 || entry.key.load(std::memory_order_seq_cst) != key) return false;
    if (entry.pd != pd || (entry.kind == KeyKind::kWindowType2 && entry.bound_qp != qp))
        return false;
    if (addr < entry.start || length > entry.length || addr - entry.start > entry.length - length)
        return false;
    if ((entry.access & need) != need) return false;
    *host = entry.host + (addr - entry.start);
    return true;
}

// Like check_key() for local memory of a work request: a region or a null region, not a window. If
// so, *host is valid for `length` bytes; of a null region, for kNullBytes.
inline bool check_local_key(const KeyEntry& entry, uint32_t key, uint32_t pd, uint32_t qp,
                            uint64_t addr, uint64_t length, uint32_t need, uint64_t* host) {
    if (entry.kind != KeyKind::kRegion && entry.kind != KeyKind::kNullRegion) return false;
    if (!check_key(entry, key, pd, qp, addr, length, need, host)) return false;
    if (entry.kind == KeyKind::kNullRegion)
        *host = entry.host + ((need & access_flag::kLocalWrite) != 0 ? kNullBytes : 0);
    return true;
}

// The specification forbids remote write and remote atomic rights without local write.
inline bool access_flags_valid(uint32_t access) {
    using namespace access_flag;
    constexpr uint32_t kKnown = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic | kMwBind |
                                kZeroBased | kOnDemand | kHugetlb | kOptional;
    if ((access & ~kKnown) != 0) return false;
    return (access & (kRemoteWrite | kRemoteAtomic)) == 0 || (access & kLocalWrite) != 0;
}

}  // namespace softhca
