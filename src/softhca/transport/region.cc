// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/transport/region.h"

#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "softhca/transport/adapter.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace softhca {

namespace {

int advise(uint64_t begin, uint64_t length, int advice) {
    int status;
    do {
        status = madvise(reinterpret_cast<void*>(begin), length, advice);
    } while (status != 0 && (errno == EINTR || errno == EAGAIN));
    return status == 0 ? 0 : errno;
}

// Whether the kernel (5.14 or newer) has MADV_POPULATE_READ and MADV_POPULATE_WRITE.
bool can_populate() {
    static const bool can = [] {
        int on_stack = 0;
        const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
        return advise(reinterpret_cast<uint64_t>(&on_stack) & ~(page - 1), page,
                      MADV_POPULATE_READ) == 0;
    }();
    return can;
}

// Faults the pages in, as pinning would. EFAULT if they do not exist or cannot be written as
// asked.
int populate(const RegionAttributes& attributes) {
    const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    const uint64_t begin = attributes.address & ~(page - 1);
    const uint64_t length = attributes.address + attributes.length - begin;
    if (!can_populate())  // checks only that the memory exists
        return msync(reinterpret_cast<void*>(begin), length, MS_ASYNC) == 0 ? 0 : EFAULT;
    const bool writes = (attributes.access & access_flag::kLocalWrite) != 0;
    return advise(begin, length, writes ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0 ? 0
                                                                                         : EFAULT;
}

// Whether the process may lock any amount of memory.
bool may_lock_all() {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
    return syscall(SYS_capget, &header, data) == 0 && (data[0].effective >> CAP_IPC_LOCK & 1) != 0;
}

// Whether a registration of `bytes` keeps the registered memory within the limit of locked memory.
bool within_locked_limit(Host& host, uint64_t bytes) {
    rlimit limit;
    if (host.personality().memory.locked == 0 || getrlimit(RLIMIT_MEMLOCK, &limit) != 0 ||
        limit.rlim_cur == RLIM_INFINITY)
        return true;
    const uint64_t registered =
        host.self().counters.registered_bytes.load(std::memory_order_relaxed);
    return registered + bytes <= limit.rlim_cur || may_lock_all();
}

// A null region's length is not memory, and on-demand paging locks none.
uint64_t registered_bytes(const KeyEntry& entry) {
    return entry.kind == KeyKind::kNullRegion || entry.paged != 0 ? 0 : entry.length;
}

}  // namespace

uint32_t allocate_key(Adapter& adapter) {
    return adapter.host().key_indices.allocate().value_or(0);
}

void release_key(Adapter& adapter, uint32_t index) {
    adapter.host().key_indices.release(index);
}

uint32_t next_key(Adapter& adapter, uint32_t index) {
    return KeyNumber::make(adapter.host().slot(), index,
                           static_cast<uint8_t>(adapter.next_generation()));
}

uint32_t region_key(Adapter& adapter, uint32_t index) {
    const bool again = adapter.host().personality().numbers.keys != rule::kOldestFirst;
    return again ? KeyNumber::make(adapter.host().slot(), index, 0) : next_key(adapter, index);
}

int check_registration(Adapter& adapter, const RegionAttributes& attributes) {
    Host& host = adapter.host();
    if (take_failure(host.header().faults.reg_fail)) return ENOMEM;
    if ((attributes.access & access_flag::kOnDemand) != 0) return 0;  // its accesses may fail
    if (!within_locked_limit(host, attributes.length)) return ENOMEM;
    return populate(attributes);
}

namespace {

void delay_until(Adapter& adapter, uint64_t end) {
    if (is_virtual_time()) virtual_clock->now = std::max(virtual_clock->now, end);
    while (now_ns() < end) {
        adapter.engine().progress();  // the model's delay occupies this thread, not the device
        cpu_relax();
    }
}

}  // namespace

void delay_registration(Adapter& adapter, uint64_t begun, uint64_t bytes) {
    Host& host = adapter.host();
    if (!host.models_time()) return;
    delay_until(adapter, begun + host.header().config.nic.registration.time_ns(bytes));
}

namespace {

// A device that does not have relaxed ordering ignores the flag.
uint32_t effective_access(const Personality& personality, uint32_t access) {
    return personality.memory.relaxed != 0 ? access : access & ~access_flag::kRelaxedOrdering;
}

}  // namespace

uint32_t publish_region(Adapter& adapter, uint32_t key, const RegionAttributes& attributes,
                        const BackingFile& file) {
    Host& host = adapter.host();
    KeyEntry& entry = host.tables().keys[KeyNumber::index(key)];
    entry.pd = attributes.pd;
    entry.access = effective_access(host.personality(), attributes.access);
    entry.kind = attributes.kind;
    entry.bound_qp = 0;
    entry.region_key = 0;
    entry.start = (attributes.access & access_flag::kZeroBased) != 0 ? 0 : attributes.iova;
    entry.length = attributes.length;
    entry.host = attributes.address;
    entry.file_fd = file.fd;
    entry.file_inode = file.inode;
    entry.file_offset = file.offset;
    entry.share_id = file.fd < 0 ? 0 : adapter.next_share_id();
    entry.paged = (attributes.access & access_flag::kOnDemand) != 0 ? adapter.next_share_id() : 0;
    entry.key.store(key, std::memory_order_release);
    host.self().counters.registered_bytes.fetch_add(registered_bytes(entry),
                                                    std::memory_order_relaxed);
    host.self().counters.registrations.fetch_add(1, std::memory_order_relaxed);
    host.self().objects.memory_regions.fetch_add(1, std::memory_order_relaxed);
    return key;
}

bool withdraw_region(Adapter& adapter, uint32_t index, const std::function<bool()>& bound) {
    Host& host = adapter.host();
    const uint64_t begun = host.models_time() ? now_ns() : 0;
    KeyEntry& entry = host.tables().keys[index];
    {
        const std::lock_guard lock(adapter.bind_mutex);
        if (bound()) return false;
        entry.key.store(0, std::memory_order_seq_cst);
    }
    host.wait_for_accesses();
    host.self().counters.registered_bytes.fetch_sub(registered_bytes(entry),
                                                    std::memory_order_relaxed);
    host.self().objects.memory_regions.fetch_sub(1, std::memory_order_relaxed);
    if (host.models_time()) {
        const uint64_t bytes = entry.paged != 0 ? 0 : entry.length;
        delay_until(adapter, begun + host.header().config.nic.deregistration.time_ns(bytes));
    }
    return true;
}

void lose_private_regions(Adapter& adapter) {
    Host& host = adapter.host();
    const uint32_t end = host.key_indices.end();
    for (uint32_t index = 1; index < end; ++index) {
        KeyEntry& entry = host.tables().keys[index];
        if (entry.kind == KeyKind::kRegion && entry.file_fd < 0 && entry.paged == 0)
            entry.key.store(0, std::memory_order_seq_cst);
    }
}

}  // namespace softhca
