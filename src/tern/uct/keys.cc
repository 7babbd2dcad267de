// SPDX-License-Identifier: BSD-3-Clause

// The contents of a key, the memory that it gives access to, and the requests of UCP that carry
// keys.

#include <dlfcn.h>
#include <string.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <string_view>

#include "common/assert.h"
#include "common/clock.h"
#include "tern/base/trace.h"
#include "tern/rendezvous/progress_budget.h"
#include "tern/uct/key_owner.h"
#include "tern/uct/md.h"
#include "tern/uct/send.h"
#include "tern/verbs/port.h"

namespace tern {

// Without relaxed ordering: a program may poll a word in this memory, and take the bytes before it,
// and those of earlier puts, for written. The one rkey is for atomic operations, too.
int open_access(const ibv_device_attr& device) {
    return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
           (device.atomic_cap != IBV_ATOMIC_NONE ? IBV_ACCESS_REMOTE_ATOMIC : 0);
}

namespace {

// Keeps a pin until the declaration ends, and takes over its reference. Under
// MemoryDomain::opening. False: no memory.
bool lend(MemoryDomain& domain, MemoryHandle& handle, Pin* pin) {
    if (std::ranges::find(handle.lent, pin) != handle.lent.end()) {
        domain.pins->release(pin);
        return true;
    }
    try {
        handle.lent.push_back(pin);
    } catch (const std::bad_alloc&) {
        return false;
    }
    domain.lent_bytes += pin->end() - pin->start();
    return true;
}

// Whether memory of this range has been lent several times, and has lost its pages each time. Peers
// may still read the old pages, so these stay pinned.
bool has_lost_lent(const MemoryHandle& handle, const void* address, size_t length) {
    constexpr auto kMost = 2;
    const uint64_t start = to_word(address);
    return std::ranges::count_if(handle.lent, [&](const Pin* pin) {
               return pin->stale() && pin->overlaps(start, start + length);
           }) >= kMost;
}

// A pin of memory that stays pinned after its use, with a reference, or null. Registers the memory
// if need be. Lent pins cannot be evicted, so half of the room is left to others. Under
// MemoryDomain::opening.
Pin* pin_to_lend(const MemoryDomain& domain, void* address, size_t length) {
    PinCache& pins = *domain.pins;
    if (Pin* pin = pins.find(address, length, kRemoteGet); pin != nullptr) return pin;
    if (!pins.keeps(address, length) || domain.lent_bytes + length > pins.most_bytes() / 2)
        return nullptr;
    Pin* pin = pins.pin(address, length, kRemoteGet);
    if (pin == nullptr || pins.keeps(address, length)) return pin;
    pins.release(pin);
    return nullptr;
}

// The rkey by which a peer may read a message in memory that is used again, or 0. All of the
// declared memory gets one pin, if that can be registered without delaying the program. A longer
// message is pinned in pieces, by its transfer.
uint32_t rkey_of_message(MemoryDomain& domain, MemoryHandle& handle, void* address, size_t length) {
    const Region& region = *handle.region;
    const uint64_t most =
        std::min(longest_pin(*domain.pins), ProgressBudget::longest_registration(domain.costs));
    if (length > most) return 0;
    if (region.length() <= most) {
        address = reinterpret_cast<void*>(region.address());
        length = region.length();
    }
    const std::lock_guard lock(domain.opening);  // threads that pack at once share a pin
    if (has_lost_lent(handle, address, length)) return 0;
    Pin* pin = pin_to_lend(domain, address, length);
    if (pin == nullptr) return 0;
    const uint32_t rkey = pin->rkey();
    if (lend(domain, handle, pin)) return rkey;
    domain.pins->release(pin);
    return 0;
}

// Whether a message in this memory has been fetched before. UCP may fetch a long one in parts, by a
// lane for each path, and then only the parts count as used buffers. The first one is not much
// shorter than that of as many lanes as an endpoint may have.
bool is_reused(PinCache& pins, const std::byte* start, size_t bytes) {
    return pins.uses(start, bytes) > 1 || pins.uses(start, bytes / verbs::kMostPaths) > 1;
}

// Gives up pins only if `may`: each packing of a key asks for what was refused.
struct RarelyGivingUp {
    PinCache& pins;
    bool may;
    bool give_up(uint64_t bytes) const { return may && pins.give_up(bytes); }
};

}  // namespace

constinit thread_local Packer packer __attribute__((tls_model("initial-exec"))) = Packer::kNone;
constinit thread_local PackedKeys packed_keys;

void open_memory(MemoryDomain& domain, MemoryHandle& handle) {
    if (registration(&handle) != nullptr || domain.fork.inherited()) return;
    const std::lock_guard lock(domain.opening);
    if (registration(&handle) != nullptr) return;
    const Region& region = *handle.region;
    auto* const at = reinterpret_cast<void*>(region.address());
    ibv_mr* open = nullptr;
    const auto attempt = [&](uint64_t) {
        open = ibv_reg_mr(domain.device.pd.get(), at, region.length(),
                          open_access(domain.device.attributes));
        return open != nullptr;
    };
    // If the device cannot register the memory, peers access it by transfers, as long as they have
    // the key. So the next memory is tried at once.
    const uint64_t length = std::max(region.length(), uint64_t{1});
    const uint64_t now = base::monotonic_ns();
    RarelyGivingUp pins{*domain.pins, domain.shortage.may_try(now)};
    const uint64_t got = scarce::kOpenMemory.take(length, length, attempt, pins);
    if (got != 0 || is_full(errno)) domain.shortage.note(got, length, now);
    domain.shortage.tell(*domain.pins);
    handle.open.store(open, std::memory_order_release);
    TERN_DEBUG("memory %p: %zu bytes at %p %s", static_cast<void*>(&handle),
               static_cast<size_t>(region.length()), at,
               registration(&handle) != nullptr ? "are open to peers"
                                                : "cannot be registered: peers use transfers");
}

void take_back(MemoryDomain& domain, MemoryHandle& handle) {
    if (handle.lent.empty() || domain.fork.inherited()) return;
    const std::lock_guard lock(domain.opening);
    for (Pin* pin : handle.lent) {
        TERN_ASSERT(domain.lent_bytes >= static_cast<uint64_t>(pin->end() - pin->start()));
        domain.lent_bytes -= pin->end() - pin->start();
        domain.pins->release(pin);
    }
    handle.lent.clear();
}

void note_use(const Packing& packed) {
    if (packed.key.has(PackedKey::kReadOnly))
        (void)packed.domain->pins->note(packed.buffer.data(), packed.buffer.size());
}

Packing pack_key(MemoryDomain& domain, MemoryHandle& handle, const void* address, size_t length) {
    Region& region = *handle.region;
    // Before `published` is read: of a program's packing and a message's, at least one sees the
    // other.
    const uint64_t packing = region.pack();
    const ibv_mr* open = registration(&handle);
    Packing packed{.key = {.region = {region.key().index, region.key().generation},
                           .rkey = open != nullptr ? open->rkey : 0,
                           .flags = PackedKey::kReplies},
                   .domain = &domain,
                   .message = {},
                   .published = handle.published.load(std::memory_order_relaxed)};
    const auto from = reinterpret_cast<uint64_t>(address);
    const bool known = covers(region, from, length, 0);
    auto* const start = reinterpret_cast<void*>(known ? from : region.address());
    const size_t bytes = known ? length : region.length();
    if (packed.published) return packed;
    // Memory that is used again is pinned, or will be soon: the peer counts on it.
    packed.buffer = {static_cast<std::byte*>(start), bytes};
    const bool reused = is_reused(*domain.pins, packed.buffer.data(), bytes);
    if (reused) packed.key.flags |= PackedKey::kPinned;
    if (reused && domain.publishes && open == nullptr && packer != Packer::kOtherMessage) {
        packed.key.rkey = rkey_of_message(domain, handle, start, bytes);
        if (packed.key.rkey != 0) packed.key.flags |= PackedKey::kReadOnly;
    }
    if (known)
        packed.message = {.region = &region,
                          .packing = packing,
                          .address = from,
                          .length = length,
                          .reused = reused,
                          .readable = packed.key.rkey != 0};
    return packed;
}

namespace {

// Whether a function is of UCP's library.
bool of_ucp(uct_am_callback_t function) {
    Dl_info info{};
    if (dladdr(reinterpret_cast<void*>(function), &info) == 0 || info.dli_fname == nullptr)
        return false;
    std::string_view file = info.dli_fname;
    file.remove_prefix(file.rfind('/') + 1);  // npos + 1 is 0
    return file.starts_with("libucp.") || file.starts_with("libucp-");
}

// Other users of UCT may use the id for something else, and change the memory. Whoever sends
// requests also receives them: UCP if the handler is UCP's.
bool sent_by_ucp(TernIface& iface) {
    const uct_am_callback_t handler = iface.super.am[compat::kUcpRequestToSend].cb;
    if (handler != iface.requests.handler) {
        iface.requests.handler = handler;
        iface.requests.of_ucp = of_ucp(handler);
    }
    return iface.requests.of_ucp;
}

void copy_early(TernIface& iface, Channel& channel) {
    const Packing& packed = packed_keys.last;
    if (packed.domain == &memory_domain(iface.super.md) && packed.copyable() && sent_by_ucp(iface))
        (void)iface.rendezvous->make_early_copy(channel, packed.message);
}

}  // namespace

void request_begins() {
    packed_keys.count = 0;
}

void request_sent(TernIface& iface, Channel& channel) {
    transfers_on(channel).readable = false;
    if (packed_keys.count != 0) note_use(packed_keys.last);
    if (packed_keys.count == 1) copy_early(iface, channel);
}

void request_sent(TernIface& iface, Channel& channel, std::span<const std::byte> message) {
    transfers_on(channel).readable = false;
    const PackedKey& key = packed_keys.last.key;
    if (packed_keys.count != 0 &&
        memmem(message.data(), message.size(), &key, sizeof(key)) != nullptr) {
        note_use(packed_keys.last);
        copy_early(iface, channel);
    }
    packed_keys.count = 0;
}

}  // namespace tern
