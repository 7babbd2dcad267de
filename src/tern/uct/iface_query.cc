// SPDX-License-Identifier: BSD-3-Clause

// Capabilities, performance and addresses of an interface.

#include <algorithm>
#include <bit>

#include "tern/base/trace.h"
#include "tern/connection/address.h"
#include "tern/uct/compat.h"
#include "tern/uct/tag.h"

namespace tern {

namespace {

constexpr double kLatencyPerEndpoint = 1e-9;
constexpr size_t kMostBytes = size_t{1} << 46;  // of a put or get

}  // namespace

ucs_status_t iface_query(uct_iface_h uct_iface, uct_iface_attr_t* attributes) {
    TernIface& iface = iface_of(uct_iface);
    const Engine& engine = *iface.engine;
    const verbs::Port& port = port_of(iface);
    const uint32_t mtu = 128u << port.mtu;
    uct_base_iface_query(&iface.super, attributes);

    attributes->cap.flags =
        UCT_IFACE_FLAG_AM_SHORT | UCT_IFACE_FLAG_AM_BCOPY | UCT_IFACE_FLAG_AM_ZCOPY |
        UCT_IFACE_FLAG_PUT_SHORT | UCT_IFACE_FLAG_PUT_BCOPY | UCT_IFACE_FLAG_PUT_ZCOPY |
        UCT_IFACE_FLAG_GET_BCOPY | UCT_IFACE_FLAG_GET_ZCOPY | UCT_IFACE_FLAG_PENDING |
        UCT_IFACE_FLAG_CONNECT_TO_IFACE | UCT_IFACE_FLAG_CB_SYNC |
        UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE | UCT_IFACE_FLAG_EP_CHECK | compat::kInterNode;
    attributes->cap.event_flags =
        UCT_IFACE_FLAG_EVENT_SEND_COMP | UCT_IFACE_FLAG_EVENT_RECV | UCT_IFACE_FLAG_EVENT_FD;

    attributes->cap.am.max_short = engine.max_short() + sizeof(uint64_t);
    attributes->cap.am.max_bcopy = engine.settings().segment_size;
    attributes->cap.am.max_zcopy = engine.settings().segment_size;
    attributes->cap.am.max_hdr = engine.settings().max_header();
    attributes->cap.am.max_iov = engine.max_pieces();
    attributes->cap.am.opt_zcopy_align = UCS_SYS_PCI_MAX_PAYLOAD;
    attributes->cap.am.align_mtu = mtu;
    attributes->cap.put.max_short = engine.max_inline();
    attributes->cap.put.max_bcopy = engine.settings().segment_size;
    attributes->cap.put.max_zcopy = kMostBytes;
    attributes->cap.put.max_iov = Buffers::kMost;
    attributes->cap.put.opt_zcopy_align = 1;
    attributes->cap.put.align_mtu = 1;
    attributes->cap.get.max_bcopy = engine.settings().segment_size;
    attributes->cap.get.max_zcopy = kMostBytes;
    attributes->cap.get.max_iov = Buffers::kMost;
    attributes->cap.get.opt_zcopy_align = 1;
    attributes->cap.get.align_mtu = 1;

    if (port.atomics) {
        attributes->cap.flags |= UCT_IFACE_FLAG_ATOMIC_DEVICE;
        attributes->cap.atomic64.op_flags = UCS_BIT(UCT_ATOMIC_OP_ADD);
        attributes->cap.atomic64.fop_flags =
            UCS_BIT(UCT_ATOMIC_OP_ADD) | UCS_BIT(UCT_ATOMIC_OP_CSWAP);
    }

    iface.matching->query(engine, *attributes);

    attributes->device_addr_len = engine.address().port.packed_size();
    attributes->iface_addr_len = InterfaceAddress::kPacked;
    const NetworkCosts& network = iface.rendezvous->model().costs().network;
    // The costs are those of one connection, which uses one link of a bond.
    attributes->dev_num_paths = port.paths;
    attributes->bandwidth.dedicated = 0;
    attributes->bandwidth.shared = network.bandwidth * std::min(port.paths, port.bonded);
    attributes->latency = ucs_linear_func_make(network.latency, kLatencyPerEndpoint);
    attributes->overhead = kOverhead;
    return UCS_OK;
}

double payload_bandwidth(const verbs::Port& port) {
    // Each packet carries the headers of the link, the transport and an RDMA write.
    const double headers = (port.global ? 40 : 0) + 8 + 12 + 16 + 4 + 2;
    const double mtu = 128u << port.mtu;
    return port.bandwidth() * mtu / (mtu + headers);
}

ucs_status_t iface_get_device_address(uct_iface_h iface, uct_device_addr_t* address) {
    iface_of(iface).engine->address().port.pack(reinterpret_cast<std::byte*>(address));
    return UCS_OK;
}

ucs_status_t iface_get_address(uct_iface_h iface, uct_iface_addr_t* address) {
    iface_of(iface).engine->address().interface.pack(reinterpret_cast<std::byte*>(address));
    return UCS_OK;
}

int iface_is_reachable(uct_iface_h iface, const uct_device_addr_t* device,
                       const uct_iface_addr_t*) {
    const PortAddress& own = iface_of(iface).engine->address().port;
    if (device == nullptr) return 0;
    const auto peer = read_device_address(reinterpret_cast<const std::byte*>(device));
    const char* why = peer ? own.unreachable(*peer) : "its address is malformed";
    if (why == nullptr && !has_way(iface_of(iface), *peer))
        why = "the device finds no way to its subnet";
    if (why == nullptr) return 1;
    TERN_DEBUG("%s is not reachable: %s", peer ? peer->to_string().c_str() : "a port", why);
    return 0;
}

bool valid_alignment(const uct_iface_params_t& params) {
    const bool has_alignment = (params.field_mask & UCT_IFACE_PARAM_FIELD_AM_ALIGNMENT) != 0;
    const bool has_offset = (params.field_mask & UCT_IFACE_PARAM_FIELD_AM_ALIGN_OFFSET) != 0;
    if (has_alignment && !std::has_single_bit(params.am_alignment)) {
        ucs_error("tern: am_alignment is %zu: it must be a power of 2", params.am_alignment);
        return false;
    }
    if (has_offset && !has_alignment) {
        ucs_error("tern: am_align_offset is %zu, and am_alignment is not set",
                  params.am_align_offset);
        return false;
    }
    return true;
}

}  // namespace tern
