// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/fabric/peer_maps.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <string>

#include "common/descriptor.h"
#include "softhca/fabric/process_memory.h"
#include "softhca/fabric/raw_memory.h"

namespace softhca {

PeerMaps::~PeerMaps() {
    for (auto& entry : entries_) release(entry.load(std::memory_order_relaxed));
    for (Mapping* mapping : replaced_) release(mapping);
}

void PeerMaps::release(Mapping* mapping) {
    if (mapping != nullptr && mapping->base != nullptr)
        raw_munmap(mapping->base, mapping->base_length);
    delete mapping;
}

bool PeerMaps::translate(uint32_t slot, const KeyEntry& key, const iovec* remote, uint32_t count,
                         IovList* mapped) {
    const Mapping* mapping = find(slot, key);
    if (mapping == nullptr || mapping->local == nullptr) return false;
    for (uint32_t i = 0; i < count; ++i) {
        const uint64_t offset = reinterpret_cast<uint64_t>(remote[i].iov_base) - mapping->host;
        mapped->add(reinterpret_cast<uint64_t>(mapping->local) + offset, remote[i].iov_len);
    }
    return true;
}

const PeerMaps::Mapping* PeerMaps::find(uint32_t slot, const KeyEntry& key) {
    constexpr uint32_t kSets = kEntries / kWays;
    std::atomic<Mapping*>* const ways =
        &entries_[(key.share_id * 0x9e3779b97f4a7c15) / (~uint64_t{0} / kSets + 1) * kWays];
    const auto look = [&]() -> const Mapping* {
        for (uint32_t i = 0; i < kWays; ++i) {
            const Mapping* mapping = ways[i].load(std::memory_order_acquire);
            if (mapping != nullptr && mapping->share_id == key.share_id) return mapping;
        }
        return nullptr;
    };
    if (const Mapping* mapping = look()) return mapping;
    const std::lock_guard lock(mutex_);
    if (const Mapping* mapping = look()) return mapping;
    Mapping* fresh = map(slot, key);
    replace(*entry_for(ways), fresh);
    mapped_bytes_ += fresh->base_length;
    if (mapped_bytes_ >= kSlack) {
        drop_dead();
        mapped_bytes_ = 0;
        ring_doorbell(host_.self());  // the engine collects before it sleeps again
    }
    return fresh;
}

// A free entry of these, or one of them in turn.
std::atomic<PeerMaps::Mapping*>* PeerMaps::entry_for(std::atomic<Mapping*>* ways) {
    for (uint32_t i = 0; i < kWays; ++i)
        if (ways[i].load(std::memory_order_relaxed) == nullptr) return &ways[i];
    return &ways[next_way_++ % kWays];
}

void PeerMaps::replace(std::atomic<Mapping*>& entry, Mapping* fresh) {
    if (Mapping* old = entry.load(std::memory_order_relaxed)) replaced_.push_back(old);
    entry.store(fresh, std::memory_order_release);
}

// The owner may change the entry at the same time. A mapping that is dropped too early is made
// again when it is needed, and one that is kept too long is dropped by the next call.
bool PeerMaps::is_dead(const Mapping& mapping) {
    return mapping.key->key.load(std::memory_order_relaxed) == 0 ||
           __atomic_load_n(&mapping.key->share_id, __ATOMIC_RELAXED) != mapping.share_id ||
           host_.owner_dead(static_cast<uint32_t>(mapping.share_id >> 32));
}

void PeerMaps::drop_dead() {
    for (auto& entry : entries_) {
        const Mapping* mapping = entry.load(std::memory_order_relaxed);
        if (mapping != nullptr && is_dead(*mapping)) replace(entry, nullptr);
    }
}

// The page size of a file in memory: mappings of huge pages begin and end at one.
static uint64_t page_of(int fd) {
    constexpr long kHugetlbfsMagic = 0x958458f6;
    struct statfs file_system;
    if (::fstatfs(fd, &file_system) == 0 && file_system.f_type == kHugetlbfsMagic)
        return static_cast<uint64_t>(file_system.f_bsize);
    return static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

PeerMaps::Mapping* PeerMaps::map(uint32_t slot, const KeyEntry& key) {
    const NoCancellation no_cancellation;  // the caller may hold locks of the fabric
    auto* mapping = new Mapping{&key, key.share_id, key.host, nullptr, nullptr, 0};
    const std::string path =
        "/proc/" + std::to_string(host_.pid(slot)) + "/fd/" + std::to_string(key.file_fd);
    const tools::Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    const int fd = file.get();
    struct stat status;
    // The owner may have closed the descriptor, and opened another file with its number.
    if (fd < 0 || ::fstat(fd, &status) != 0 || status.st_ino != key.file_inode) return mapping;
    const uint64_t page = page_of(fd);
    const uint64_t head = key.file_offset % page;
    const uint64_t length = (head + key.length + page - 1) / page * page;
    mapping->base = raw_mmap(length, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_POPULATE,  // no page faults later, as registered
                             fd, key.file_offset - head);
    if (mapping->base != nullptr) {
        mapping->base_length = length;
        mapping->local = static_cast<char*>(mapping->base) + head;
    }
    return mapping;
}

void PeerMaps::collect() {
    std::vector<Mapping*> old;
    {
        const std::lock_guard lock(mutex_);
        if (replaced_.empty()) return;
        old.swap(replaced_);
    }
    // A thread that still uses an old mapping holds a guard that it took before now.
    host_.wait_for_own_accesses();
    for (Mapping* mapping : old) release(mapping);
}

}  // namespace softhca
