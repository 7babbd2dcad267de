// SPDX-License-Identifier: BSD-3-Clause
#include "transport/domain.h"

#include <cerrno>

namespace softhca {

namespace {

bool in_use(Host &host, const XrcDomain &domain)
{
    for (uint32_t word = 0; word < kMaxProcesses / 64; ++word) {
        uint64_t bits = domain.users[word].load(std::memory_order_relaxed);
        while (bits != 0) {
            const auto bit = static_cast<uint32_t>(__builtin_ctzll(bits));
            bits &= bits - 1;
            if (host.alive(word * 64 + bit)) {
                return true;
            }
        }
    }
    return false;
}

void clear(XrcDomain &domain)
{
    domain.id.store(0, std::memory_order_relaxed);
    for (auto &word : domain.users) {
        word.store(0, std::memory_order_relaxed);
    }
}

void use(Host &host, XrcDomain &domain)
{
    domain.users[host.slot() / 64].fetch_or(uint64_t{1} << host.slot() % 64, std::memory_order_relaxed);
}

/// Under the control lock: the domain of a file, and a free entry.
void search(Host &host, uint32_t device, const DomainFile &file, XrcDomain **found, XrcDomain **unused)
{
    *found = nullptr;
    *unused = nullptr;
    for (XrcDomain &domain : host.header().domains) {
        if (domain.id.load(std::memory_order_relaxed) != 0 && !in_use(host, domain)) {
            clear(domain);
        }
        if (domain.id.load(std::memory_order_relaxed) == 0) {
            if (*unused == nullptr) {
                *unused = &domain;
            }
        } else if (file.named && domain.named && domain.device == device && domain.file_device == file.device &&
                   domain.file_inode == file.inode) {
            *found = &domain;
        }
    }
}

}  // namespace

int open_domain(Host &host, uint32_t device, const DomainFile &file, bool create, bool exclusive, uint32_t *id)
{
    OwnedLock &lock = host.header().control;
    lock.lock(host, [] {});
    XrcDomain *found;
    XrcDomain *unused;
    search(host, device, file, &found, &unused);
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
        use(host, *found);
        found->id.store(host.header().next_domain.fetch_add(1, std::memory_order_relaxed), std::memory_order_release);
    }
    if (status == 0) {
        use(host, *found);
        *id = found->id.load(std::memory_order_relaxed);
        ++host.domain_references[*id];
    }
    lock.unlock();
    return status;
}

void close_domain(Host &host, uint32_t id)
{
    OwnedLock &lock = host.header().control;
    lock.lock(host, [] {});
    if (--host.domain_references[id] == 0) {
        host.domain_references.erase(id);
        for (XrcDomain &domain : host.header().domains) {
            if (domain.id.load(std::memory_order_relaxed) == id) {
                domain.users[host.slot() / 64].fetch_and(~(uint64_t{1} << host.slot() % 64), std::memory_order_relaxed);
            }
        }
    }
    lock.unlock();
}

}  // namespace softhca
