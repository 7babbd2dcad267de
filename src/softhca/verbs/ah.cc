// SPDX-License-Identifier: BSD-3-Clause
// Address handles.
#include <endian.h>

#include <cstring>
#include <memory>

#include "softhca/verbs/address.h"
#include "softhca/verbs/process_adapter.h"

namespace softhca {

namespace {

bool valid(const ibv_ah_attr& address, const FabricConfig& config) {
    const bool global = address.is_global != 0;
    const bool multicast =
        config.link_layer == LinkLayer::kInfiniband && is_multicast(address.dlid);
    if (multicast && !(global && is_multicast(address.grh.dgid))) return false;
    return address.port_num >= 1 && address.port_num <= config.ports &&
           (global || !grh_required(config)) && valid_path_bits(config, address) &&
           (!global || address.grh.sgid_index < gids_of(config));
}

}  // namespace

SOFTHCA_EXPORT ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attributes) try {
    ibv_context* context = pd->context;
    if (inherited(context) || !valid(*attributes, config_of(context))) return fail(EINVAL);
    if (take_failure(faults_of(context).create_fail)) return fail(ENOMEM);
    auto ah = std::make_unique<AhObject>();
    ah->quota_use = take(Context::of(context)->device->address_handles);
    if (ah->quota_use == nullptr) return fail(personality_of(context).errors.limit);
    Host& host = adapter_of(context).host();
    if (const int error = resolve_neighbor(host, *attributes)) return fail(error);
    ah->ibv.context = context;
    ah->ibv.pd = pd;
    const uint32_t link =
        Context::of(context)->device->index * kMaxPorts + attributes->port_num - 1;
    const FabricConfig& config = config_of(context);
    ah->destination = make_destination(config, *attributes, place_of(config, host.slot(), link));
    ah->pd = use(object_of<PdObject>(pd));
    return &ah.release()->ibv;
} catch (const std::bad_alloc&) {
    return fail(ENOMEM);
}

SOFTHCA_EXPORT int ibv_destroy_ah(ibv_ah* ibv) {
    delete object_of<AhObject>(ibv);
    return 0;
}

SOFTHCA_EXPORT int ibv_init_ah_from_wc(ibv_context* context, uint8_t port, ibv_wc* wc, ibv_grh* grh,
                                       ibv_ah_attr* attributes) {
    std::memset(attributes, 0, sizeof *attributes);
    attributes->dlid = wc->slid;
    attributes->sl = wc->sl;
    attributes->src_path_bits = wc->dlid_path_bits;
    attributes->port_num = port;
    if ((wc->wc_flags & IBV_WC_GRH) == 0) return 0;
    // The answer is sent from the GID that received the message.
    union ibv_gid local;
    int index = 0;
    while (ibv_query_gid(context, port, index, &local) == 0 &&
           std::memcmp(&local, &grh->dgid, sizeof local) != 0)
        ++index;
    if (index >= gids_of(config_of(context))) return -1;
    const uint32_t version_class_flow = be32toh(grh->version_tclass_flow);
    attributes->is_global = 1;
    attributes->grh.dgid = grh->sgid;
    attributes->grh.sgid_index = static_cast<uint8_t>(index);
    attributes->grh.flow_label = version_class_flow & 0xfffff;
    attributes->grh.traffic_class = static_cast<uint8_t>(version_class_flow >> 20);
    attributes->grh.hop_limit = 0xff;
    return 0;
}

SOFTHCA_EXPORT ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, uint8_t port) {
    ibv_ah_attr attributes;
    if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &attributes) != 0) return fail(EINVAL);
    return ibv_create_ah(pd, &attributes);
}

SOFTHCA_EXPORT int ibv_resolve_eth_l2_from_gid(ibv_context* context, ibv_ah_attr* attributes,
                                               uint8_t mac[ETHERNET_LL_SIZE], uint16_t* vlan) {
    const uint32_t place = place_of_gid(config_of(context), attributes->grh.dgid);
    if (place == kNoPlace) return -1;
    const uint64_t guid = port_guid(place);
    uint8_t bytes[8];
    std::memcpy(bytes, &guid, sizeof bytes);
    for (int i = 0; i < ETHERNET_LL_SIZE; ++i) mac[i] = bytes[i < 3 ? i : i + 2];
    if (vlan != nullptr) *vlan = 0xffff;
    return 0;
}

}  // namespace softhca
