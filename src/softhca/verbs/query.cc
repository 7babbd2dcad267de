// SPDX-License-Identifier: BSD-3-Clause
// Queries of the device and its ports.
#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "softhca/verbs/address.h"
#include "softhca/verbs/limits.h"
#include "softhca/verbs/operations.h"
#include "softhca/verbs/process_adapter.h"

namespace softhca {

namespace {

bool valid_port(ibv_context* context, uint32_t port) {
    return !inherited(context) && port >= 1 && port <= config_of(context).ports;
}

uint32_t link_of(ibv_context* context, uint32_t port) {
    return Context::of(context)->device->index * kMaxPorts + port - 1;
}

uint32_t own_place(ibv_context* context, uint32_t port) {
    return place_of(config_of(context), adapter_of(context).host().slot(), link_of(context, port));
}

// To a caller whose structure may be shorter, or longer: what is new in it is zero.
template <typename Type>
void copy_out(void* to, size_t size, const Type& all) {
    const size_t known = std::min(size, sizeof all);
    std::memcpy(to, &all, known);
    std::memset(static_cast<char*>(to) + known, 0, size - known);
}

int gid_count(ibv_context* context) {
    return gids_of(config_of(context));
}

// The lowest InfiniBand rate that reaches the modeled bandwidth, as active_speed for four lanes.
uint32_t active_speed(const NicParameters& nic) {
    struct Rate {
        double bytes_per_ns;
        uint32_t speed;
    };
    // SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR.
    static constexpr Rate kRates[] = {{1.0, 1},  {2.0, 2},   {4.0, 4},   {5.0, 8},
                                      {7.0, 16}, {12.5, 32}, {25.0, 64}, {50.0, 128}};
    if (nic.bandwidth == 0) return 32;
    for (const Rate& rate : kRates)
        if (nic.bandwidth <= rate.bytes_per_ns) return rate.speed;
    return 256;
}

// XDR does not fit into 8 bits: without active_speed_ex, the fastest rate that fits.
template <typename Attributes>
void set_speed(Attributes* attributes, uint32_t speed) {
    attributes->active_speed = static_cast<uint8_t>(std::min<uint32_t>(speed, 128));
    if constexpr (requires { attributes->active_speed_ex; })
        attributes->active_speed_ex = speed > 128 ? speed : 0;
}

bool shows_grh_required(const FabricConfig& config) {
    return config.personality.ports.grh_required == rule::kGrhAlways ||
           (config.personality.ports.grh_required == rule::kGrhOnEthernet &&
            config.link_layer == LinkLayer::kEthernet);
}

unsigned int capabilities(const Personality& personality) {
    unsigned int flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
                         IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |
                         IBV_DEVICE_MEM_MGT_EXTENSIONS;
    if (personality.has.srq_resize != 0) flags |= IBV_DEVICE_SRQ_RESIZE;
    if (personality.has.xrc != 0) flags |= IBV_DEVICE_XRC;
    if (personality.has.windows != 0)
        flags |= IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
    return flags;
}

void fill_device(ibv_context* context, ibv_device_attr* attributes) {
    const Personality& personality = personality_of(context);
    std::memset(attributes, 0, sizeof *attributes);
    const uint64_t guid = port_guid(Context::of(context)->device->index * kMaxPorts);
    std::strncpy(attributes->fw_ver, "1.0.0", sizeof attributes->fw_ver - 1);
    attributes->node_guid = guid;
    attributes->sys_image_guid = guid;
    attributes->max_mr_size = ~uint64_t{0};
    attributes->page_size_cap = 0xfffffffffffff000;
    attributes->vendor_id = 0x7366;
    attributes->vendor_part_id = 1;
    attributes->hw_ver = 1;
    attributes->max_qp = personality.limits.qps;
    attributes->max_qp_wr = personality.limits.queue_entries;
    attributes->device_cap_flags = capabilities(personality);
    attributes->max_sge = std::min(personality.limits.send_sge, personality.limits.recv_sge);
    attributes->max_sge_rd = personality.limits.read_sge;
    attributes->max_cq = limits::kObjects;
    attributes->max_cqe = personality.limits.cqe;
    attributes->max_mr = limits::kKeys;
    attributes->max_pd = limits::kDomains;
    attributes->max_qp_rd_atom = personality.limits.rd_atomic;
    attributes->max_res_rd_atom = personality.limits.rd_atomic * personality.limits.qps;
    attributes->max_qp_init_rd_atom = personality.limits.rd_atomic;
    attributes->atomic_cap = personality.has.atomics != 0 ? IBV_ATOMIC_HCA : IBV_ATOMIC_NONE;
    attributes->max_mw = personality.has.windows != 0 ? static_cast<int>(limits::kKeys) : 0;
    attributes->max_ah = limits::kAddressHandles;
    if (personality.has.srq != 0) {
        attributes->max_srq = personality.limits.srqs;
        attributes->max_srq_wr = personality.limits.srq_entries;
        attributes->max_srq_sge = personality.limits.srq_sge;
    }
    if (personality.has.multicast != 0) {
        attributes->max_mcast_grp = limits::kAttachments;
        attributes->max_mcast_qp_attach = limits::kAttachments;
        attributes->max_total_mcast_qp_attach = limits::kAttachments;
    }
    attributes->max_pkeys = 1;
    attributes->local_ca_ack_delay = 1;
    attributes->phys_port_cnt = static_cast<uint8_t>(config_of(context).ports);
}

void fill_paging(const Personality& personality, ibv_device_attr_ex* all) {
    uint32_t connected =
        IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
    if (personality.has.srq != 0) connected |= IBV_ODP_SUPPORT_SRQ_RECV;
    if (personality.has.atomics != 0) connected |= IBV_ODP_SUPPORT_ATOMIC;
    all->odp_caps.general_caps = IBV_ODP_SUPPORT;
    all->odp_caps.per_transport_caps.rc_odp_caps = connected;
    all->odp_caps.per_transport_caps.ud_odp_caps = IBV_ODP_SUPPORT_SEND;
    all->xrc_odp_caps = personality.has.xrc != 0 && personality.has.odp == 1 ? connected : 0;
}

}  // namespace

SOFTHCA_EXPORT int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
    fill_device(context, attributes);
    return 0;
}

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attributes, size_t size) {
    if (input != nullptr && input->comp_mask != 0) return EINVAL;
    ibv_device_attr_ex all{};
    fill_device(context, &all.orig_attr);
    if (personality_of(context).has.timestamps != 0) {
        all.completion_timestamp_mask = ~uint64_t{0};
        all.hca_core_clock = 1'000'000;  // kHz: time stamps are in ns
    }
    if (personality_of(context).has.device_memory != 0) all.max_dm_size = limits::kDeviceMemory;
    if (personality_of(context).has.odp != 0) fill_paging(personality_of(context), &all);
    all.phys_port_cnt_ex = config_of(context).ports;
    copy_out(attributes, size, all);
    return 0;
}

int query_rt_values(ibv_context*, ibv_values_ex* values) {
    if ((values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) != 0)
        clock_gettime(CLOCK_MONOTONIC, &values->raw_clock);
    values->comp_mask &= IBV_VALUES_MASK_RAW_CLOCK;
    return 0;
}

int query_port(ibv_context* context, uint8_t port, ibv_port_attr* attributes, size_t size) {
    if (!valid_port(context, port)) return EINVAL;
    const FabricHeader& header = adapter_of(context).host().header();
    const bool up = !port_down(header.faults, Context::of(context)->device->index, port);
    const bool ethernet = header.config.link_layer == LinkLayer::kEthernet;
    ibv_port_attr all{};
    all.state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
    all.flags = shows_grh_required(header.config) ? IBV_QPF_GRH_REQUIRED : 0;
    all.max_mtu = IBV_MTU_4096;
    all.active_mtu = IBV_MTU_4096;
    all.gid_tbl_len = gid_table_of(config_of(context));
    all.max_msg_sz = static_cast<uint32_t>(personality_of(context).limits.message);
    all.pkey_tbl_len = 1;
    all.lid = ethernet ? 0 : lid_of_place(header.config, own_place(context, port));
    all.lmc = ethernet ? 0 : static_cast<uint8_t>(header.config.personality.ports.lmc);
    all.sm_lid = ethernet ? 0 : 1;
    all.max_vl_num = 1;
    all.subnet_timeout = 18;
    all.active_width = 2;  // 4X
    set_speed(&all, active_speed(header.config.nic));
    all.phys_state = up ? 5 : 3;  // link up, or disabled
    all.link_layer = ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
    copy_out(attributes, size, all);
    return 0;
}

SOFTHCA_EXPORT int ibv_query_port(ibv_context* context, uint8_t port,
                                  _compat_ibv_port_attr* attributes) {
    return query_port(context, port, reinterpret_cast<ibv_port_attr*>(attributes),
                      offsetof(ibv_port_attr, port_cap_flags2));
}

SOFTHCA_EXPORT int ibv_query_gid(ibv_context* context, uint8_t port, int index,
                                 union ibv_gid* gid) {
    if (!valid_port(context, port) || index < 0 || index >= gid_table_of(config_of(context)))
        return fail_call(EINVAL);
    *gid = index < gid_count(context)
               ? port_gid(config_of(context), own_place(context, port), index)
               : (union ibv_gid){};
    return 0;
}

SOFTHCA_EXPORT int _ibv_query_gid_ex(ibv_context* context, uint32_t port, uint32_t index,
                                     ibv_gid_entry* entry, uint32_t flags, size_t size) {
    if (flags != 0 || !valid_port(context, port) ||
        index >= static_cast<uint32_t>(gid_table_of(config_of(context))))
        return EINVAL;
    if (index >= static_cast<uint32_t>(gid_count(context))) return ENODATA;
    ibv_gid_entry all{};
    all.gid = port_gid(config_of(context), own_place(context, port), static_cast<int>(index));
    all.gid_index = index;
    all.port_num = port;
    all.gid_type = IBV_GID_TYPE_IB;
    if (config_of(context).link_layer == LinkLayer::kEthernet)
        all.gid_type = is_roce_v2(config_of(context), static_cast<int>(index))
                           ? IBV_GID_TYPE_ROCE_V2
                           : IBV_GID_TYPE_ROCE_V1;
    copy_out(entry, size, all);
    return 0;
}

SOFTHCA_EXPORT ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries,
                                            size_t max_entries, uint32_t flags, size_t size) {
    if (flags != 0 || inherited(context)) return -EINVAL;
    size_t count = 0;
    for (uint32_t port = 1; port <= config_of(context).ports; ++port) {
        for (int index = 0; index < gid_count(context); ++index) {
            if (count == max_entries) return -EINVAL;
            auto* entry =
                reinterpret_cast<ibv_gid_entry*>(reinterpret_cast<char*>(entries) + count * size);
            _ibv_query_gid_ex(context, port, static_cast<uint32_t>(index), entry, 0, size);
            ++count;
        }
    }
    return static_cast<ssize_t>(count);
}

SOFTHCA_EXPORT int ibv_query_gid_type(ibv_context* context, uint8_t port, unsigned int index,
                                      int* type) {
    ibv_gid_entry entry{};
    const int error = _ibv_query_gid_ex(context, port, index, &entry, 0, sizeof entry);
    if (error == EINVAL) return fail_call(EINVAL);
    // RoCE v2; or InfiniBand, RoCE v1 and entries that are not set.
    *type = error == 0 && entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? 1 : 0;
    return 0;
}

SOFTHCA_EXPORT int ibv_query_pkey(ibv_context* context, uint8_t port, int index, __be16* pkey) {
    if (!valid_port(context, port) || index != 0) return fail_call(EINVAL);
    *pkey = 0xffff;
    return 0;
}

SOFTHCA_EXPORT int ibv_get_pkey_index(ibv_context* context, uint8_t port, __be16 pkey) {
    if (!valid_port(context, port) || pkey != 0xffff) return fail_call(EINVAL);
    return 0;
}

}  // namespace softhca
