// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/transport/xrc_domain.h"

#include <cerrno>

namespace softhca {

namespace {

using ProcessSet = std::atomic<uint64_t>[kMaxProcesses / 64];

class ControlLock {
  public:
    explicit ControlLock(Host& host) : lock_(host.header().control) {
        lock_.lock(host, [] {});
    }
    ~ControlLock() { lock_.unlock(); }
    ControlLock(const ControlLock&) = delete;
    ControlLock& operator=(const ControlLock&) = delete;

  private:
    RobustLock& lock_;
};

// Whether a living process is in the set.
bool in_use(Host& host, const ProcessSet& processes) {
    for (uint32_t slot = 0; slot < kMaxProcesses; ++slot) {
        const uint64_t word = processes[slot / 64].load(std::memory_order_relaxed);
        if ((word >> slot % 64 & 1) != 0 && host.alive(slot)) return true;
    }
    return false;
}

void clear(XrcDomain& domain) {
    domain.id.store(0, std::memory_order_relaxed);
    for (auto& word : domain.users) word.store(0, std::memory_order_relaxed);
}

uint64_t own_bit(const Host& host) {
    return uint64_t{1} << host.slot() % 64;
}

void add_self(const Host& host, ProcessSet& processes) {
    processes[host.slot() / 64].fetch_or(own_bit(host), std::memory_order_relaxed);
}

void remove_self(const Host& host, ProcessSet& processes) {
    processes[host.slot() / 64].fetch_and(~own_bit(host), std::memory_order_relaxed);
}

// Removes one handle. True if it was this process's last.
bool drop_reference(std::map<uint32_t, uint32_t>& references, uint32_t id) {
    const auto it = references.find(id);
    if (it == references.end() || --it->second != 0) return false;
    references.erase(it);
    return true;
}

// Under the control lock: finds the domain of a file, and a free entry. Clears domains without a
// living process.
void find_domain(Host& host, uint32_t device, const DomainFile& file, XrcDomain** found,
                 XrcDomain** unused) {
    *found = nullptr;
    *unused = nullptr;
    for (XrcDomain& domain : host.header().domains) {
        if (domain.id.load(std::memory_order_relaxed) != 0 && !in_use(host, domain.users))
            clear(domain);
        if (domain.id.load(std::memory_order_relaxed) == 0) {
            if (*unused == nullptr) *unused = &domain;
        } else if (file.named && domain.named && domain.device == device &&
                   domain.file_device == file.device && domain.file_inode == file.inode) {
            *found = &domain;
        }
    }
}

}  // namespace

int open_xrc_domain(Host& host, uint32_t device, const DomainFile& file, bool create,
                    bool exclusive, uint32_t* id) {
    const ControlLock lock(host);
    XrcDomain* found;
    XrcDomain* unused;
    find_domain(host, device, file, &found, &unused);
    if (found != nullptr) {
        if (create && exclusive) return EEXIST;
    } else {
        if (!create) return ENOENT;
        if (unused == nullptr) return ENOMEM;
        found = unused;
        found->device = device;
        found->named = file.named ? 1 : 0;
        found->file_device = file.device;
        found->file_inode = file.inode;
        add_self(host, found->users);
        found->id.store(host.header().next_domain.fetch_add(1, std::memory_order_relaxed),
                        std::memory_order_release);
    }
    add_self(host, found->users);
    *id = found->id.load(std::memory_order_relaxed);
    ++host.domain_references[*id];
    return 0;
}

void close_xrc_domain(Host& host, uint32_t id) {
    const ControlLock lock(host);
    if (drop_reference(host.domain_references, id)) {
        for (XrcDomain& domain : host.header().domains)
            if (domain.id.load(std::memory_order_relaxed) == id) remove_self(host, domain.users);
    }
}

void open_xrc_receiver(Host& host, QpShared& qp, uint32_t number) {
    const ControlLock lock(host);
    ++host.receiver_references[number];
    add_self(host, qp.openers);
}

bool close_xrc_receiver(Host& host, QpShared& qp, uint32_t number) {
    const ControlLock lock(host);
    if (drop_reference(host.receiver_references, number)) remove_self(host, qp.openers);
    return !in_use(host, qp.openers);
}

}  // namespace softhca
