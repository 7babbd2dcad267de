// SPDX-License-Identifier: BSD-3-Clause
// Moves bytes between this process and another one's memory: by copy where the memory is shared and
// mapped here, by process_vm_writev and process_vm_readv otherwise.
#pragma once

#include <sys/uio.h>

#include <cstdint>

#include "fabric/host.h"
#include "fabric/peer_maps.h"

namespace softhca {

constexpr uint32_t kMaxSge = 32;

enum class CopyResult : uint8_t { ok, local_fault, remote_fault, gone };

/// A list of memory pieces with a slice taken out of it. Room for every element of a work request.
class IovList {
  public:
    IovList() = default;
    IovList(const IovList& other) { *this = other; }
    IovList& operator=(
        const IovList& other)  // the room is large and mostly unused: copy what is there
    {
        count_ = other.count_;
        for (uint32_t i = 0; i < count_; ++i) {
            entries_[i] = other.entries_[i];
        }
        return *this;
    }
    void add(uint64_t addr, uint64_t length) {
        if (length != 0 && count_ < kMaxSge + 2) {
            entries_[count_++] = {reinterpret_cast<void*>(addr), length};
        }
    }
    uint32_t count() const { return count_; }
    const iovec* data() const { return entries_; }
    uint64_t length() const;
    /// The pieces of [offset, offset + length).
    IovList slice(uint64_t offset, uint64_t length) const;
    /// Cuts the last `tail` bytes off into pieces of their own.
    void split_tail(uint64_t tail);

  private:
    iovec entries_[kMaxSge + 3];
    uint32_t count_ = 0;
};

class ProcessMemory {
  public:
    explicit ProcessMemory(Host& host) : host_(host), maps_(host) {}

    /// Copies local to remote memory of process `slot`, in ascending order of address, the last 8
    /// bytes last. `key`: what the remote memory is registered under, if it is one region; may be
    /// nullptr.
    CopyResult write(uint32_t slot, const KeyEntry* key, const IovList& local,
                     const IovList& remote);
    /// Copies remote memory of process `slot` to local.
    CopyResult read(uint32_t slot, const KeyEntry* key, const IovList& remote,
                    const IovList& local);

    PeerMaps& maps() { return maps_; }

  private:
    /// Whether the remote memory is mapped here; then where.
    bool map_peer(uint32_t slot, const KeyEntry* key, const IovList& remote, IovList* mapped);
    CopyResult diagnose(uint32_t slot, int error, const IovList& local, bool local_is_source);
    Host& host_;
    PeerMaps maps_;
};

}  // namespace softhca
