// SPDX-License-Identifier: BSD-3-Clause

// What UCX is told of an interface: capabilities, addresses, and what each operation costs, by
// which UCP chooses its protocols.

#include <algorithm>
#include <bit>

#include "tern/base/trace.h"
#include "tern/connection/address.h"
#include "tern/uct/compat.h"
#include "tern/uct/iface_state.h"
#include "tern/uct/tag_direct.h"

namespace tern {

namespace {

constexpr double kLatencyPerEndpoint = 1e-9;
constexpr size_t kMostBytes = size_t{1} << 46;  // of a put or get

}  // namespace

ucs_status_t iface_query(uct_iface_h uct_iface, uct_iface_attr_t* attributes) {
    TernIface& iface = iface_of(uct_iface);
    const Engine& engine = *iface.engine;
    const verbs::Port& port = iface.state->port;
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
    TernIface& self = iface_of(iface);
    const PortAddress& own = self.engine->address().port;
    if (device == nullptr) return 0;
    const auto peer = read_device_address(reinterpret_cast<const std::byte*>(device));
    const char* why = peer ? own.unreachable(*peer) : "its address is malformed";
    if (why == nullptr && !self.state->routes.reach(memory_domain(self.super.md).device.pd.get(),
                                                    self.state->port, *peer))
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

namespace {

// Times in seconds, measured on the software HCA, less the time that the device itself takes there.
// Copies for bcopy are not included: UCP adds them.
struct OperationCosts {
    double before = kOverhead;    // processor time until the device has the work request
    double after = 0;             // and then until the operation is over
    double receiver = kOverhead;  // processor time of the peer
    double latencies = 1;         // messages, one after the other, without the one that UCP adds
    bool frames = false;          // cut into frames, with gaps on the wire
    bool copies = false;          // Tern copies what UCP believes to go uncopied
};

constexpr double kBuffer = 20e-9;     // take a buffer of the send pool, and give it back
constexpr double kReport = 30e-9;     // call the completion
constexpr double kFrame = 400e-9;     // per frame of a stream: UCP's, the peer's credit, the queues
constexpr double kBeginPut = 200e-9;  // by the rendezvous
constexpr double kBeginGet = 350e-9;

// Memory of UCP's messages is only declared, so am_zcopy copies it, but for full frames whose
// memory happens to be pinned (send_in_place(), ep_send.cc). This is the slowest of UCX's own
// estimates of a copy. UCP assumes of a stream of messages that copies by bcopy overlap with the
// wire, so a further cost is needed for zcopy never to seem cheaper. This cost, and that of a
// frame, are named at the receiver: from the sender's costs of zcopy the older protocols of UCP
// derive the rendezvous threshold, as if a frame did not overlap with the wire.
constexpr double kCopyBandwidth = 5e9;
constexpr double kCopy = 100e-9;

constexpr OperationCosts costs_of(uct_ep_operation_t operation) {
    switch (operation) {
        case UCT_EP_OP_AM_BCOPY:
        case UCT_EP_OP_EAGER_BCOPY:
            return {.before = kOverhead + kBuffer, .after = kFrame, .frames = true};
        case UCT_EP_OP_AM_ZCOPY:
        case UCT_EP_OP_EAGER_ZCOPY:
            return {.before = kOverhead + kBuffer,
                    .receiver = kOverhead + kCopy + kFrame,
                    .frames = true,
                    .copies = true};
        case UCT_EP_OP_PUT_SHORT:
        case UCT_EP_OP_ATOMIC_POST:
            return {.receiver = 0};
        case UCT_EP_OP_PUT_BCOPY:
            return {.before = kOverhead + kBuffer, .receiver = 0};
        // A put to memory that is not open takes two more latencies, for an offer and its
        // acceptance, but the operation is the same for both. The puts of a program go to
        // open memory. The others are those of a rendezvous, to which UCP prefers gets: they need
        // one message less.
        case UCT_EP_OP_PUT_ZCOPY:
            return {.before = kBeginPut, .after = kReport};
        // A get takes two latencies. UCP adds the second one: as that of the answer or, in a
        // rendezvous, of the message that ends it, for which the receiver does not wait.
        case UCT_EP_OP_GET_SHORT:
        case UCT_EP_OP_GET_BCOPY:
        case UCT_EP_OP_GET_ZCOPY:
            return {.before = kBeginGet, .after = kReport};
        // The announcement, the request of the receiver, then the bytes.
        case UCT_EP_OP_RNDV_ZCOPY:
            return {.before = kBeginPut, .after = kReport, .latencies = 3};
        case UCT_EP_OP_ATOMIC_FETCH:
            return {.after = kReport, .receiver = 0};
        default:
            return {};
    }
}

// The bandwidth of frames of `size` bytes, one after the other, with a gap behind each.
double with_gaps(double bandwidth, double size, double gap) {
    return size / (size / bandwidth + gap);
}

double with_copy(double bandwidth) {
    return 1 / (1 / bandwidth + 1 / kCopyBandwidth);
}

}  // namespace

ucs_status_t iface_estimate_perf(uct_iface_h uct_iface, uct_perf_attr_t* attributes) try {
    TernIface& iface = iface_of(uct_iface);
    if (sends_tags_two_ways(*attributes) && iface.matching->stop())
        ucs_info(
            "tern: %s: no message is sent direct: UCX before 1.18 announces long messages by "
            "active messages with UCX_PROTO_ENABLE",
            iface.state->device.c_str());
    const ucs_status_t status = uct_base_iface_estimate_perf(uct_iface, attributes);
    if (status != UCS_OK) return status;
    const uint64_t asked = attributes->field_mask;
    if ((asked & UCT_PERF_ATTR_FIELD_OPERATION) == 0) return UCS_OK;
    const OperationCosts costs = costs_of(attributes->operation);
    if ((asked & UCT_PERF_ATTR_FIELD_SEND_PRE_OVERHEAD) != 0)
        attributes->send_pre_overhead = costs.before;
    if ((asked & UCT_PERF_ATTR_FIELD_SEND_POST_OVERHEAD) != 0)
        attributes->send_post_overhead = costs.after;
    if ((asked & UCT_PERF_ATTR_FIELD_RECV_OVERHEAD) != 0)
        attributes->recv_overhead = costs.receiver;
    if ((asked & UCT_PERF_ATTR_FIELD_LATENCY) != 0) attributes->latency.c *= costs.latencies;
    if (costs.frames)
        compat::each_bandwidth(*attributes, [&](double bandwidth) {
            return with_gaps(bandwidth, iface.engine->settings().segment_size,
                             iface.rendezvous->model().costs().network.gap);
        });
    if (costs.copies) compat::each_bandwidth(*attributes, with_copy);
    return UCS_OK;
} catch (const std::bad_alloc&) {
    return out_of_memory(uct_iface);
}

}  // namespace tern
