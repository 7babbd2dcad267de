// SPDX-License-Identifier: BSD-3-Clause
#include "tern/uct/device_memory.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <new>
#include <span>

#include "tern/base/trace.h"
#include "tern/base/tunables.h"
#include "tern/uct/dma_buffer.h"
#include "tern/uct/md.h"
#include "tern/uct/rma.h"
#include "tern/uct/send.h"

namespace tern {

namespace {

// The pieces of an operation that are not empty.
struct DevicePieces {
    DevicePieces(const uct_iov_t* iov, size_t count) {
        for (size_t i = 0; i < count; ++i) {
            const size_t length = uct_iov_get_length(&iov[i]);
            if (length == 0) continue;
            const ibv_mr* const registered = registration(iov[i].memh);
            short_and_registered &= registered != nullptr && length <= kLongestInPlace;
            user[used] = {static_cast<std::byte*>(iov[i].buffer), length};
            device[used++] = {.addr = address_of(iov[i].buffer),
                              .length = static_cast<uint32_t>(length),
                              .lkey = registered != nullptr ? registered->lkey : 0};
        }
    }

    // Whether work requests can move the pieces, if the peer's memory has this rkey.
    bool posts(uint32_t rkey) const { return rkey != 0 && short_and_registered; }
    std::span<const ibv_sge> registered() const { return {device, used}; }

    Buffers::Piece user[Buffers::kMost];
    ibv_sge device[Buffers::kMost];
    size_t used = 0;
    bool short_and_registered = true;
};

// Transfers move one piece of such memory, because they know by its address that it is a device's.
ucs_status_t refuse_pieces(const char* operation) {
    static std::atomic<bool> told{false};
    ucs_log(told.exchange(true) ? UCS_LOG_LEVEL_DEBUG : UCS_LOG_LEVEL_ERROR,
            "tern: a %s of several pieces of a device's memory is not possible: pieces must be "
            "registered and at most %zu bytes long, and the peer's memory must be mapped for "
            "one-sided access (ucp_mem_map); use one piece for each operation",
            operation, kLongestInPlace);
    return UCS_ERR_UNSUPPORTED;
}

// `operate(iface, channel, pieces)`, if there is a channel and any byte to move.
template <class Operate>
ucs_status_t with_device_pieces(uct_ep_h ep, const uct_iov_t* iov, size_t count,
                                Operate&& operate) {
    ucs_status_t status = UCS_OK;
    Channel* const channel = channel_for(ep_of(ep), status);
    if (channel == nullptr) return status;
    const DevicePieces pieces(iov, count);
    return pieces.used == 0 ? UCS_OK : operate(iface_of(ep), *channel, pieces);
}

}  // namespace

ucs_status_t put_from_device(uct_ep_h ep, const uct_iov_t* iov, size_t count, uint64_t to,
                             const RemoteKey& key, uct_completion_t* completion) {
    return with_device_pieces(
        ep, iov, count, [&](TernIface& iface, Channel& channel, const DevicePieces& pieces) {
            if (pieces.posts(key.rkey))
                if (const auto put = iface.rma->put_pieces(channel, pieces.registered(),
                                                           {to, key.rkey}, completion))
                    return to_ucs(*put);
            if (pieces.used != 1) return refuse_pieces("put");
            return to_ucs(iface.rendezvous->put(channel, {pieces.user, 1}, to, key.region, key.rkey,
                                                {completion, &ep_of(ep)}));
        });
}

ucs_status_t get_to_device(uct_ep_h ep, const uct_iov_t* iov, size_t count, uint64_t from,
                           const RemoteKey& key, uct_completion_t* completion) {
    return with_device_pieces(
        ep, iov, count, [&](TernIface& iface, Channel& channel, const DevicePieces& pieces) {
            const uint32_t rkey =
                pieces.used == 1 ? key.to_read(*iface.rendezvous, {pieces.user, 1}) : key.read_rkey;
            if (pieces.posts(rkey))
                if (const auto get = iface.rma->get_pieces(channel, pieces.registered(),
                                                           {from, rkey}, completion))
                    return to_ucs(*get);
            if (pieces.used != 1) return refuse_pieces("get");
            return to_ucs(iface.rendezvous->get(channel, {pieces.user, 1}, from, key.region, rkey,
                                                key.source, {completion, &ep_of(ep)}));
        });
}

// Asks the device as UCX's own transport does: one that takes DMA buffers says that the descriptor
// -1 is bad.
bool takes_dma_buffers(const verbs::Device& device) {
    const verbs::MemoryRegion region(ibv_reg_dmabuf_mr(device.pd.get(), 0,
                                                       static_cast<size_t>(sysconf(_SC_PAGESIZE)),
                                                       0, -1, IBV_ACCESS_LOCAL_WRITE));
    return region != nullptr || errno == EBADF;
}

ucs_status_t register_device_memory(MemoryDomain& domain, void* address, size_t length,
                                    unsigned access, const compat::DmaBuffer& buffer,
                                    uct_mem_h* memh) {
    if (!domain.dma_buffers) return UCS_ERR_UNSUPPORTED;
    if (domain.fork.inherited()) return UCS_ERR_IO_ERROR;
    verbs::MemoryRegion region(ibv_reg_dmabuf_mr(domain.device.pd.get(), buffer.offset, length,
                                                 reinterpret_cast<uint64_t>(address), buffer.fd,
                                                 open_access(domain.device.attributes)));
    if (region == nullptr) {
        ucs_log(buffer.hides_errors ? UCS_LOG_LEVEL_DEBUG : UCS_LOG_LEVEL_ERROR,
                "tern: %s: cannot register %zu bytes at %p, a DMA buffer: %s: check that the "
                "kernel's driver of the HCA and that of the GPU support DMA buffers, or set "
                "UCX_TERN_DMA_BUFFERS=n, so that UCX copies such memory",
                domain.device.name().c_str(), length, address, strerror(errno));
        return errno == ENOMEM ? UCS_ERR_NO_MEMORY : UCS_ERR_IO_ERROR;
    }
    MemoryHandle* const handle = declare(domain, address, length, access);
    if (handle == nullptr) return UCS_ERR_NO_MEMORY;
    try {
        handle->of_device = domain.pins->adopt(region.get(), address, length,
                                               kLocalRead | kLocalWrite | kRemoteAll);
    } catch (const std::bad_alloc&) {
        (void)domain.regions.undeclare(handle->region);
        throw;
    }
    handle->published.store(true, std::memory_order_relaxed);
    handle->open.store(region.release(), std::memory_order_release);
    *memh = handle;
    TERN_DEBUG("memory %p: %zu bytes at %p of a device are registered", static_cast<void*>(handle),
               length, address);
    return UCS_OK;
}

}  // namespace tern

ucs_status_t tern_uct_md_mem_reg_dma_buffer(uct_md_h md, void* address, size_t length, int fd,
                                            size_t offset, uct_mem_h* memh) try {
    using namespace tern;
    return register_device_memory(memory_domain(md), address, length,
                                  kLocalRead | kLocalWrite | kRemoteAll,
                                  {.fd = fd, .offset = offset, .hides_errors = false}, memh);
} catch (const std::bad_alloc&) {
    return tern::no_memory("register a DMA buffer");
}
