// SPDX-License-Identifier: BSD-3-Clause
// Mappings of other processes' registered shared memory, so that reaching it costs a copy and no
// system call.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "fabric/host.h"

namespace softhca {

class IovList;

/// A cache without validation would deliver into memory that is gone; here an entry is named by the
/// registration's share_id, which never comes back, and is used only while the registration is
/// valid (the caller has checked it under an AccessGuard).
class PeerMaps {
  public:
    explicit PeerMaps(Host& host) : host_(host) {}
    ~PeerMaps();
    PeerMaps(const PeerMaps&) = delete;
    PeerMaps& operator=(const PeerMaps&) = delete;

    /// Local addresses for pieces of a registration of process `slot`; false if they can't be
    /// mapped here.
    bool translate(uint32_t slot, const KeyEntry& key, const iovec* remote, uint32_t count,
                   IovList* mapped);
    /// Unmaps what was replaced. Only from a thread that holds no AccessGuard.
    void collect();

  private:
    struct Mapping {
        uint64_t share_id;
        uint64_t host;  ///< the owner's address of `local`
        char* local;    ///< nullptr: can't be mapped; don't try again
        void* base;
        uint64_t base_length;
    };
    const Mapping* find(uint32_t slot, const KeyEntry& key);
    Mapping* map(uint32_t slot, const KeyEntry& key);
    static void release(Mapping* mapping);

    static constexpr uint32_t kEntries = 1024;
    Host& host_;
    std::mutex mutex_;
    std::atomic<Mapping*> entries_[kEntries] = {};
    std::vector<Mapping*> replaced_;
};

}  // namespace softhca
