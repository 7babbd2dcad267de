// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/transport/xrc_domain.h"

#include <cerrno>

namespace softhca {

namespace {

using ProcessSet = std::atomic<uint64_t>[kMaxProcesses / 64];

// Whether a living process is in the set.
bool in_use(Host& host, const ProcessSet& processes) {
    for (uint32_t word = 0; word < kMaxProcesses / 64; ++word) {
        uint64_t bits = processes[word].load(std::memory_order_relaxed);
        while (bits != 0) {
            const auto bit = static_cast<uint32_t>(__builtin_ctzll(bits));
            bits &= bits - 1;
            if (host.alive(word * 64 + bit)) return true;
        }
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
    RobustLock& lock = host.header().control;
    lock.lock(host, [] {});
    XrcDomain* found;
    XrcDomain* unused;
    find_domain(host, device, file, &found, &unused);
    int status = 0;
    if (found != nullptr) {
        status = create && exclusive ? EEXIST : 0;
    } else if (!create) {
        status = ENOENT;
    } else if (unused == nullptr) {
        status = ENOMEM;
    } else {
        found = unused;
        found->device = device;
        found->named = file.named ? 1 : 0;
        found->file_device = file.device;
        found->file_inode = file.inode;
        add_self(host, found->users);
        found->id.store(host.header().next_domain.fetch_add(1, std::memory_order_relaxed),
                        std::memory_order_release);
    }
    if (status == 0) {
        add_self(host, found->users);
        *id = found->id.load(std::memory_order_relaxed);
        ++host.domain_references[*id];
    }
    lock.unlock();
    return status;
}

void close_xrc_domain(Host& host, uint32_t id) {
    RobustLock& lock = host.header().control;
    lock.lock(host, [] {});
    if (drop_reference(host.domain_references, id)) {
        for (XrcDomain& domain : host.header().domains)
            if (domain.id.load(std::memory_order_relaxed) == id) remove_self(host, domain.users);
    }
    lock.unlock();
}

void open_xrc_receiver(Host& host, QpShared& qp, uint32_t number) {
    RobustLock& lock = host.header().control;
    lock.lock(host, [] {});
    ++host.receiver_references[number];
    add_self(host, qp.openers);
    lock.unlock();
}

bool close_xrc_receiver(Host& host, QpShared& qp, uint32_t number) {
    RobustLock& lock = host.header().control;
    lock.lock(host, [] {});
    if (drop_reference(host.receiver_references, number)) remove_self(host, qp.openers);
    const bool unused = !in_use(host, qp.openers);
    lock.unlock();
    return unused;
}

}  // namespace softhca
