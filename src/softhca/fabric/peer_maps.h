// SPDX-License-Identifier: BSD-3-Clause
// Mappings of other processes' registered shared memory: access costs a copy and no system call.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "softhca/fabric/host.h"

namespace softhca {

class IovList;

// A cache of mappings. An entry is named by the registration's share_id, which is never used
// again, and is used only while the caller holds an AccessGuard and has checked the key: so nobody
// writes to memory that was deregistered. A mapping keeps the memory in existence, so those of
// deregistered memory are dropped each time that kSlack bytes have been mapped.
class PeerMaps {
  public:
    explicit PeerMaps(Host& host) : host_(host) {}
    ~PeerMaps();
    PeerMaps(const PeerMaps&) = delete;
    PeerMaps& operator=(const PeerMaps&) = delete;

    // Converts addresses in a registration of process `slot` to addresses in this process. False
    // if the memory cannot be mapped.
    bool translate(uint32_t slot, const KeyEntry& key, const iovec* remote, uint32_t count,
                   IovList* mapped);
    // Unmaps mappings that were replaced or dropped. The calling thread holds no AccessGuard.
    void collect();

    static constexpr uint64_t kSlack = 64 << 20;

  private:
    struct Mapping {
        const KeyEntry* key;  // in the owner's arena, which stays mapped
        uint64_t share_id;
        uint64_t host;  // address of `local` in the owner's process
        char* local;    // nullptr: the mapping failed and is not tried again
        void* base;
        uint64_t base_length;  // 0: the mapping failed
    };
    const Mapping* find(uint32_t slot, const KeyEntry& key);
    Mapping* map(uint32_t slot, const KeyEntry& key);
    static void release(Mapping* mapping);
    std::atomic<Mapping*>* entry_for(std::atomic<Mapping*>* ways);
    void replace(std::atomic<Mapping*>& entry, Mapping* fresh);
    bool is_dead(const Mapping& mapping);
    void drop_dead();

    static constexpr uint32_t kEntries = 1024;
    static constexpr uint32_t kWays = 8;  // entries, side by side, that a registration may have
    Host& host_;
    std::mutex mutex_;  // guards all below; readers of entries_ do without
    std::atomic<Mapping*> entries_[kEntries] = {};
    uint64_t mapped_bytes_ = 0;  // since drop_dead()
    std::vector<Mapping*> replaced_;
    uint32_t next_way_ = 0;  // the one to replace if all are in use
};

}  // namespace softhca
