// SPDX-License-Identifier: BSD-3-Clause
// Modifies queue pairs: checks the attributes, and applies them to the device.
#include "softhca/core/qp_state.h"
#include "softhca/transport/notice.h"
#include "softhca/transport/responder.h"
#include "softhca/verbs/address.h"
#include "softhca/verbs/process_adapter.h"
#include "softhca/verbs/wr_api.h"

namespace softhca {

namespace {

constexpr uint32_t kMaxQpn = 0xffffff;
constexpr uint32_t kQpAccess = access_flag::kLocalWrite | access_flag::kRemoteWrite |
                               access_flag::kRemoteRead | access_flag::kRemoteAtomic;

bool valid_address(const FabricConfig& config, const ibv_ah_attr& address, uint32_t port) {
    if (address.is_global == 0 && grh_required(config)) return false;
    if (address.is_global != 0 && address.grh.sgid_index >= gids_of(config)) return false;
    return valid_path_bits(config, address) && address.port_num == port;
}

// An XRC queue pair has one half. Attributes of the other half are accepted and ignored, so that
// programs can treat both ends like RC.
uint32_t own_half(ibv_qp_type type, uint32_t mask) {
    switch (type) {
        case IBV_QPT_XRC_SEND:
            return mask & ~(qp_attr::kMaxDestRdAtomic | qp_attr::kMinRnrTimer);
        case IBV_QPT_XRC_RECV:
            return mask & ~(qp_attr::kMaxQpRdAtomic | qp_attr::kRetryCnt | qp_attr::kRnrRetry);
        default:
            return mask;
    }
}

// Checks the values that `mask` names.
bool values_valid(ibv_context* context, const ibv_qp_attr& attr, uint32_t mask, uint32_t port) {
    const FabricConfig& config = config_of(context);
    const auto has = [mask](uint32_t bit) { return (mask & bit) != 0; };
    return (!has(qp_attr::kPort) || (attr.port_num >= 1 && attr.port_num <= config.ports)) &&
           (!has(qp_attr::kPkeyIndex) || attr.pkey_index == 0) &&
           (!has(qp_attr::kPathMtu) ||
            (attr.path_mtu >= IBV_MTU_256 && attr.path_mtu <= IBV_MTU_4096)) &&
           (!has(qp_attr::kDestQpn) || attr.dest_qp_num <= kMaxQpn) &&
           (!has(qp_attr::kRqPsn) || attr.rq_psn <= kMaxQpn) &&
           (!has(qp_attr::kSqPsn) || attr.sq_psn <= kMaxQpn) &&
           (!has(qp_attr::kTimeout) || attr.timeout < 32) &&
           (!has(qp_attr::kRetryCnt) || attr.retry_cnt <= 7) &&
           (!has(qp_attr::kRnrRetry) || attr.rnr_retry <= 7) &&
           (!has(qp_attr::kMinRnrTimer) || attr.min_rnr_timer < 32) &&
           (!has(qp_attr::kMaxQpRdAtomic) ||
            attr.max_rd_atomic <= personality_of(context).limits.rd_atomic) &&
           (!has(qp_attr::kMaxDestRdAtomic) ||
            attr.max_dest_rd_atomic <= personality_of(context).limits.rd_atomic) &&
           (!has(qp_attr::kAv) || valid_address(config, attr.ah_attr, port));
}

// Stores the attributes for ibv_query_qp().
void store_attributes(ibv_qp_attr& record, const ibv_qp_attr& given, uint32_t mask) {
    const auto keep = [&](uint32_t bit, auto... members) {
        if ((mask & bit) != 0) ((record.*members = given.*members), ...);
    };
    keep(qp_attr::kAccessFlags, &ibv_qp_attr::qp_access_flags);
    keep(qp_attr::kPkeyIndex, &ibv_qp_attr::pkey_index);
    keep(qp_attr::kPort, &ibv_qp_attr::port_num);
    keep(qp_attr::kQkey, &ibv_qp_attr::qkey);
    keep(qp_attr::kAv, &ibv_qp_attr::ah_attr);
    keep(qp_attr::kPathMtu, &ibv_qp_attr::path_mtu);
    keep(qp_attr::kTimeout, &ibv_qp_attr::timeout);
    keep(qp_attr::kRetryCnt, &ibv_qp_attr::retry_cnt);
    keep(qp_attr::kRnrRetry, &ibv_qp_attr::rnr_retry);
    keep(qp_attr::kRqPsn, &ibv_qp_attr::rq_psn);
    keep(qp_attr::kMaxQpRdAtomic, &ibv_qp_attr::max_rd_atomic);
    keep(qp_attr::kMinRnrTimer, &ibv_qp_attr::min_rnr_timer);
    keep(qp_attr::kSqPsn, &ibv_qp_attr::sq_psn);
    keep(qp_attr::kMaxDestRdAtomic, &ibv_qp_attr::max_dest_rd_atomic);
    keep(qp_attr::kDestQpn, &ibv_qp_attr::dest_qp_num);
    keep(qp_attr::kPathMigState, &ibv_qp_attr::path_mig_state);
    keep(qp_attr::kAltPath, &ibv_qp_attr::alt_ah_attr, &ibv_qp_attr::alt_pkey_index,
         &ibv_qp_attr::alt_port_num, &ibv_qp_attr::alt_timeout);
}

QpChange device_change(ibv_context* context, const ibv_qp_attr& attr, uint32_t mask,
                       uint32_t port) {
    const uint32_t place = place_of_address(config_of(context), attr.ah_attr);
    const uint32_t process = process_of_place(config_of(context), place);
    const bool wrong = (mask & qp_attr::kDestQpn) != 0 && process != kAnyProcess &&
                       process != ObjectNumber::process(attr.dest_qp_num);
    QpChange change;
    change.mask = mask;
    change.state = static_cast<QpState>(attr.qp_state);
    change.responder.link = Context::of(context)->device->index * kMaxPorts + port - 1;
    change.responder.access = attr.qp_access_flags & kQpAccess;
    change.responder.qkey = attr.qkey;
    change.responder.peer_number = attr.dest_qp_num;
    change.responder.peer_link = wrong ? Destination::kNoLink : link_of_place(place);
    if (config_of(context).link_layer != LinkLayer::kEthernet) {
        change.responder.paths.own = attr.ah_attr.src_path_bits;
        change.responder.paths.peer =
            static_cast<uint8_t>(path_bits_of_lid(config_of(context), attr.ah_attr.dlid));
    }
    change.responder.receive_psn = attr.rq_psn;
    change.responder.send_psn = attr.sq_psn;
    change.responder.min_rnr_timer = attr.min_rnr_timer;
    change.requester.retry_count = attr.retry_cnt;
    change.requester.rnr_retry = attr.rnr_retry;
    change.requester.timeout = attr.timeout;
    change.responder.path_mtu = static_cast<uint8_t>(attr.path_mtu);
    change.requester.max_rd_atomic = attr.max_rd_atomic;
    change.responder.max_dest_rd_atomic = attr.max_dest_rd_atomic;
    change.requester.drained_event = attr.en_sqd_async_notify != 0;
    return change;
}

// Checks a modification against the queue pair's state. 0, with *change set, or EINVAL.
int check_change(QpObject& object, const QpShared& shared, const ibv_qp_attr& attr, uint32_t mask,
                 QpChange* change) {
    const ibv_qp& ibv = object.ibv.qp_base;
    const QpState from = shared.state.load(std::memory_order_acquire);
    const QpState to = (mask & qp_attr::kState) != 0 ? static_cast<QpState>(attr.qp_state) : from;
    if ((mask & qp_attr::kCurState) != 0 && static_cast<QpState>(attr.cur_qp_state) != from)
        return EINVAL;
    const uint32_t port =
        (mask & qp_attr::kPort) != 0 ? attr.port_num : std::max<uint32_t>(object.attr.port_num, 1);
    if (!qp_transition_allowed(static_cast<QpType>(ibv.qp_type), from, to, mask) ||
        !values_valid(ibv.context, attr, mask, port))
        return EINVAL;
    *change = device_change(ibv.context, attr, mask, port);
    return 0;
}

void store_modification(QpObject& object, const ibv_qp_attr& attr, uint32_t mask) {
    store_attributes(object.attr, attr, mask);
    if ((mask & qp_attr::kState) == 0) return;
    object.ibv.qp_base.state = attr.qp_state;
    if (attr.qp_state == IBV_QPS_RESET) {
        const ibv_qp_cap cap = object.attr.cap;
        object.attr = {};
        object.attr.cap = cap;
    }
}

// Modifies an opened XRC queue pair of another process, which has only a responder.
int modify_opened(QpObject& object, const ibv_qp_attr& attr, uint32_t mask) {
    Host& host = adapter_of(object.ibv.qp_base.context).host();
    const AccessGuard guard(host, ObjectNumber::process(object.ibv.qp_base.qp_num));
    QpShared* shared = shared_part(object);
    QpChange change;
    if (shared == nullptr || check_change(object, *shared, attr, mask, &change) != 0) return EINVAL;
    {
        const ResponderLock lock(host, *shared);
        set_responder_fields(*shared, change);
    }
    if (shared->state.load(std::memory_order_relaxed) == QpState::kErr) {
        raise_qp_notice(host, *shared, object.ibv.qp_base.qp_num,
                        Notice::kQpError);  // its owner flushes it
    }
    store_modification(object, attr, mask);
    return 0;
}

}  // namespace

SOFTHCA_EXPORT int ibv_modify_qp(ibv_qp* ibv, ibv_qp_attr* attr, int attr_mask) try {
    auto* object = object_of<QpObject>(ibv);
    if (inherited(ibv->context)) return error_of(EINVAL);
    const uint32_t mask = own_half(ibv->qp_type, static_cast<uint32_t>(attr_mask));
    const std::lock_guard lock(object->modify_mutex);
    if (object->qp == nullptr) return modify_opened(*object, *attr, mask);
    QpChange change;
    if (check_change(*object, object->qp->shared(), *attr, mask, &change) != 0)
        return error_of(EINVAL);
    if ((mask & qp_attr::kAv) != 0) {
        Host& host = adapter_of(ibv->context).host();
        if (const int error = resolve_neighbor(host, attr->ah_attr)) return error_of(error);
    }
    store_modification(*object, *attr, mask);
    object->qp->modify(change);
    return 0;
} catch (const std::bad_alloc&) {
    return ENOMEM;
}

}  // namespace softhca
