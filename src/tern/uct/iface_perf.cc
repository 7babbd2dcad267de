// SPDX-License-Identifier: BSD-3-Clause

// What each operation costs. UCP chooses its protocols by this.

#include "tern/uct/compat.h"
#include "tern/uct/iface.h"

namespace tern {

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

ucs_status_t iface_estimate_perf(uct_iface_h iface, uct_perf_attr_t* attributes) {
    const ucs_status_t status = uct_base_iface_estimate_perf(iface, attributes);
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
    const TernIface& tern = iface_of(iface);
    if (costs.frames)
        compat::each_bandwidth(*attributes, [&](double bandwidth) {
            return with_gaps(bandwidth, tern.engine->settings().segment_size,
                             tern.rendezvous->model().costs().network.gap);
        });
    if (costs.copies) compat::each_bandwidth(*attributes, with_copy);
    return UCS_OK;
}

}  // namespace tern
