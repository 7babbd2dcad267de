// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/transport/paging.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "softhca/core/qp_state.h"
#include "softhca/transport/adapter.h"
#include "softhca/transport/qp.h"

namespace softhca {

namespace {

uint64_t page_bytes() {
    static const auto bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    return bytes;
}

// Names a page of a region in the table, which holds one page in each entry. A page that another
// one has displaced faults again, as it may on a device.
struct PageName {
    uint64_t value;
    uint32_t entry;

    PageName(const KeyEntry& key, uint64_t page) {
        constexpr uint64_t kSpread = 0x9e3779b97f4a7c15;
        value = (key.paged * kSpread + page) * kSpread | 1;
        entry = static_cast<uint32_t>((page + key.paged) % ArenaTables::kDevicePages);
    }
};

// Whether the process still has these pages: what it has unmapped, given back or never touched, the
// device has not either. True if the kernel does not tell.
bool present(Host& host, uint32_t slot, uint64_t first, uint64_t end) {
    char path[48];
    std::snprintf(path, sizeof path, "/proc/%d/pagemap", static_cast<int>(host.pid(slot)));
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return true;
    constexpr uint64_t kChunk = 128;
    bool all = true;
    for (uint64_t page = first; page < end && all;) {
        uint64_t entries[kChunk];
        const uint64_t count = std::min(kChunk, end - page);
        const ssize_t bytes = pread(file, entries, count * sizeof *entries,
                                    static_cast<off_t>(page * sizeof *entries));
        if (bytes <= 0) break;
        const uint64_t read = static_cast<uint64_t>(bytes) / sizeof *entries;
        all = std::all_of(entries, entries + read, [](uint64_t entry) { return entry >> 63 != 0; });
        page += read;
    }
    close(file);
    return all;
}

// Whether the device lacks a page of the range. It has all of them afterwards.
bool map_pages(Host& host, uint32_t slot, const KeyEntry& key, uint64_t address, uint64_t length) {
    ArenaTables* tables = host.segment().arena(slot);
    if (key.paged == 0 || length == 0 || tables == nullptr) return false;
    const NoCancellation no_cancellation;  // the caller may hold locks of the fabric
    const uint64_t first = address / page_bytes();
    const uint64_t end = (address + length - 1) / page_bytes() + 1;
    bool lacks = false;
    for (uint64_t page = first; page < end; ++page) {
        const PageName name(key, page);
        if (tables->device_pages[name.entry].exchange(name.value, std::memory_order_relaxed) !=
            name.value)
            lacks = true;
    }
    return lacks || !present(host, slot, first, end);
}

uint64_t fault_ns(Host& host) {
    return static_cast<uint64_t>(host.personality().times.odp_faults) * 1000;
}

bool paged(Host& host, uint32_t key) {
    const KeyEntry* entry = host.key(key);
    return entry != nullptr && entry->key.load(std::memory_order_acquire) == key &&
           entry->paged != 0;
}

bool may_fault(Qp& qp, const Wqe& wqe) {
    return qp.adapter().host().personality().times.odp_faults != 0 && !wqe.state.faulted_remote &&
           is_reliable(qp.attributes().type);
}

Outcome refuse_for_fault(Qp& qp, Wqe& wqe, const Target& target) {
    wqe.state.faulted_remote = true;
    return Outcome::rnr(
        std::max(rnr_timer_ns(target.qp->attributes.min_rnr_timer), fault_ns(qp.adapter().host())));
}

}  // namespace

bool pages_for(Qp& qp, const KeyEntry& key) {
    constexpr int32_t kNotXrc = 2;
    return qp.attributes().type != QpType::kXrcSend || key.paged == 0 ||
           qp.adapter().host().personality().has.odp != kNotXrc;
}

bool names_paged_region(Host& host, const Wqe& wqe) {
    if (host.personality().times.odp_faults == 0) return false;
    if (!wqe.sends() && !wqe.is_local() && wqe.length != 0 && paged(host, wqe.remote.rkey))
        return true;
    if (wqe.is_inline) return false;
    return std::any_of(wqe.sges(), wqe.sges() + wqe.num_sge,
                       [&](const Sge& sge) { return sge.length != 0 && paged(host, sge.lkey); });
}

std::optional<Outcome> fault_local(Qp& qp, Wqe& wqe) {
    Host& host = qp.adapter().host();
    if (host.personality().times.odp_faults == 0 || wqe.state.faulted_local || wqe.is_inline ||
        wqe.is_local())
        return std::nullopt;
    wqe.state.faulted_local = true;
    bool lacks = false;
    for (uint32_t i = 0; i < wqe.num_sge; ++i) {
        const Sge& sge = wqe.sges()[i];
        const KeyEntry* key = host.key(sge.lkey, host.slot());
        if (key != nullptr && key->key.load(std::memory_order_acquire) == sge.lkey)
            lacks |=
                map_pages(host, host.slot(), *key, key->host + (sge.addr - key->start), sge.length);
    }
    if (!lacks) return std::nullopt;
    return Outcome::again(now_ns() + fault_ns(host));
}

std::optional<Outcome> fault_remote(Qp& qp, Wqe& wqe, const Target& target, const KeyEntry& key,
                                    uint64_t address, uint64_t length) {
    if (key.paged == 0 || !may_fault(qp, wqe)) return std::nullopt;
    if (under_way(qp, wqe)) return Outcome::again(wqe.arrival_end());
    if (!map_pages(qp.adapter().host(), target.slot, key, address, length)) return std::nullopt;
    return refuse_for_fault(qp, wqe, target);
}

std::optional<Outcome> fault_receive(Qp& qp, Wqe& wqe, const Target& target,
                                     const RecvWqe& receive) {
    if (!may_fault(qp, wqe)) return std::nullopt;
    Host& host = qp.adapter().host();
    uint64_t rest = wqe.length;
    bool lacks = false;
    for (const Sge& sge : receive.elements()) {
        if (rest == 0) break;
        const uint64_t length = std::min<uint64_t>(rest, sge.length);
        rest -= length;
        const KeyEntry* key = host.key(sge.lkey);
        if (key == nullptr || key->paged == 0) continue;
        if (under_way(qp, wqe)) return Outcome::again(wqe.arrival_end());
        lacks |= map_pages(host, target.slot, *key, key->host + (sge.addr - key->start), length);
    }
    if (!lacks) return std::nullopt;
    return refuse_for_fault(qp, wqe, target);
}

}  // namespace softhca
