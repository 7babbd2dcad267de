// SPDX-License-Identifier: BSD-3-Clause
// Attaches queue pairs to multicast groups. No subnet manager has to be asked: who is attached gets
// the group's messages.
#include "softhca/transport/multicast.h"

#include "softhca/verbs/address.h"
#include "softhca/verbs/process_adapter.h"

namespace softhca {

namespace {

// Ethernet ignores the LID.
int check_group(const ibv_qp& qp, const union ibv_gid& gid, uint16_t lid) {
    if (personality_of(qp.context).has.multicast == 0) return EOPNOTSUPP;
    const bool lid_counts = config_of(qp.context).link_layer == LinkLayer::kInfiniband;
    const bool valid = !inherited(qp.context) && qp.qp_type == IBV_QPT_UD && is_multicast(gid) &&
                       (!lid_counts || is_multicast(lid));
    return valid ? 0 : EINVAL;
}

}  // namespace

SOFTHCA_EXPORT int ibv_attach_mcast(ibv_qp* qp, const union ibv_gid* gid, uint16_t lid) {
    if (const int error = check_group(*qp, *gid, lid)) return error;
    return attach(adapter_of(qp->context), qp->qp_num, GroupName(gid->raw), lid);
}

SOFTHCA_EXPORT int ibv_detach_mcast(ibv_qp* qp, const union ibv_gid* gid, uint16_t lid) {
    if (const int error = check_group(*qp, *gid, lid)) return error;
    return detach(adapter_of(qp->context), qp->qp_num, GroupName(gid->raw), lid) ? 0 : EINVAL;
}

}  // namespace softhca
