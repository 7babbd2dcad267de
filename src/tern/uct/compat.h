// SPDX-License-Identifier: BSD-3-Clause
// All differences between UCX versions, so that one source serves 1.13 to 1.23. A difference in
// members is detected by whether a table has the member, a difference in constants by the version.
// Types that differ between versions are template parameters.
//
// clang-format off
// | table                    | member or argument     | versions      | what Tern has    |
// |--------------------------|------------------------|---------------|------------------|
// | uct_component_t          | rkey_compare           | 1.16 on       | rkey_compare     |
// |                          | rkey_unpack: params    | 1.19 on       | not looked at    |
// | uct_md_ops_t             | query: attributes v2   | 1.14 on       | the same members |
// |                          | mem_reg: params        | 1.14 on       | its flags        |
// |                          | mem_reg: DMA buffers   | 1.14 on       | device_memory.h  |
// |                          | mkey_pack: range       | 1.16 on       | early copies     |
// |                          | is_sockaddr_accessible | up to 1.15    | no               |
// |                          | mem_attach             | 1.14 on       | unsupported      |
// |                          | mem_elem_pack          | 1.21 on       | unsupported      |
// |                          | mem_elem_release       | 1.22.x, 1.23  | nothing          |
// | uct_iface_internal_ops_t | ep_connect_to_ep_v2    | 1.14 on       | unsupported      |
// |                          | iface_is_reachable_v2  | 1.15 on       | is_reachable_v2  |
// |                          | ep_is_connected        | 1.16 on       | is_connected_v2  |
// |                          | ep_get_device_ep       | 1.20 on       | unsupported      |
// |                          | iface_mem_element_pack | 1.20          | unsupported      |
// |                          | iface_query_v2         | 1.20, 1.22 on | query_v2         |
// |                          | ep_put_sgl_zcopy       | 1.22 on       | unsupported      |
// |                          | ep_get_sgl_zcopy       | 1.23          | unsupported      |
// |                          | ep_outstanding_purge   | 1.23          | unsupported      |
// clang-format on
// uct_iface_ops_t and uct_base_iface_t are the same in all versions. docs/tern/ucx-versions.md
// lists the steps for the next version.
#pragma once

#include <array>
#include <tuple>
#include <utility>

#include "tern/uct/ucx_headers.h"

// Sets a member that only some versions' tables have.
#define TERN_SET_IF_PRESENT(table, member, value)                           \
    [&](auto& present) {                                                    \
        if constexpr (requires { present.member; }) present.member = value; \
    }(table)

namespace tern {

// Functions for entries of UCX's tables that the transport does not implement. UCX's own
// ucs_empty_function*() would have to be cast, and a table with casts is not initialised at compile
// time, before constructors run.
// Takes any parameters and returns `status`.
template <ucs_status_t status, typename... Arguments>
ucs_status_t stub(Arguments...) {
    return status;
}

template <typename... Arguments>
void void_stub(Arguments...) {}

// Takes any parameters and answers no.
template <typename... Arguments>
int no(Arguments...) {
    return 0;
}

}  // namespace tern

namespace tern::compat {

// A table of functions, padded. A stable branch of UCX may add members without a new version
// number; functions that UCX then calls in the padding return UCS_ERR_UNSUPPORTED.
template <typename Table>
struct Padded {
    static constexpr size_t kUnknown = 16;

    Table table;
    std::array<ucs_status_t (*)(), kUnknown> unknown;
};
template <typename Table>
constexpr Padded<Table> padded(const Table& table) {
    Padded<Table> all{.table = table, .unknown = {}};
    all.unknown.fill(stub<UCS_ERR_UNSUPPORTED>);
    return all;
}

// The id of UCP's messages that set up endpoints: UCP_AM_ID_WIREUP, UCP's first id in all
// releases.
inline constexpr uint32_t kUcpWireup = 1;
// The id of UCP's requests to send, of all kinds of rendezvous: UCP_AM_ID_RNDV_RTS, the same in
// all releases from 1.13 on. (Requests to receive, which also have keys, have the id 11.)
inline constexpr uint32_t kUcpRequestToSend = 9;

// --- Component and memory domain

// The argument that has `back` arguments after it: newer versions insert arguments in the middle.
template <size_t back, typename... Arguments>
constexpr auto from_end(Arguments... arguments) {
    return std::get<sizeof...(Arguments) - 1 - back>(std::tuple(arguments...));
}

// Whether the right to atomic operations distinguishes memory that a program maps; see
// uct/key_owner.h.
#if TERN_UCX_SINCE(15)
inline constexpr bool kAtomicRightMarksProgramMemory = false;
#else
inline constexpr bool kAtomicRightMarksProgramMemory = true;
#endif

// The memory that the caller of mkey_pack names, from the arguments after the memory handle; null
// and 0 if it names none. UCP names it from 1.16 on.
template <typename... More>
std::pair<const void*, size_t> named_memory([[maybe_unused]] More... more) {
    if constexpr (sizeof...(More) > 2)
        return {from_end<3>(more...), from_end<2>(more...)};
    else
        return {nullptr, 0};
}

// The memory that a key is packed for; null and 0 if it is not known. Up to 1.14, UCP registers
// just the memory of a message; 1.15 has a registration cache, which registers more.
template <typename Region, typename... More>
std::pair<const void*, size_t> memory_of_key([[maybe_unused]] const Region& region, More... more) {
    if constexpr (kAtomicRightMarksProgramMemory)
        return {reinterpret_cast<const void*>(region.address()), region.length()};
    else
        return named_memory(more...);
}

constexpr uct_md_ops_t with_new_members(uct_md_ops_t ops) {
    TERN_SET_IF_PRESENT(ops, is_sockaddr_accessible, no);
    TERN_SET_IF_PRESENT(ops, mem_attach, stub<UCS_ERR_UNSUPPORTED>);
    TERN_SET_IF_PRESENT(ops, mem_elem_pack, stub<UCS_ERR_UNSUPPORTED>);
    TERN_SET_IF_PRESENT(ops, mem_elem_release, void_stub);
    return ops;
}

// Initialises memory domain attributes, except the field mask; the caller has not done so.
template <typename Attributes>
void clear(Attributes* attributes) {
    if constexpr (requires { uct_md_base_md_query(attributes); }) {
        uct_md_base_md_query(attributes);
    } else if constexpr (requires { attributes->field_mask; }) {
        const auto asked = attributes->field_mask;
        *attributes = {};
        attributes->field_mask = asked;
    } else {
        *attributes = {};
    }
    memset(&attributes->local_cpus, 0xff, sizeof(attributes->local_cpus));
}

// The part of the attributes with flags and memory types: a member of its own before 1.14.
template <typename Attributes>
auto& capabilities(Attributes* attributes) {
    if constexpr (requires { attributes->cap; })
        return attributes->cap;
    else
        return *attributes;
}

// Registrations can be invalidated: from 1.15 on there is a flag for each kind of access.
#if TERN_UCX_SINCE(15)
constexpr uint64_t kInvalidation =
    uint64_t{UCT_MD_FLAG_INVALIDATE} | UCT_MD_FLAG_INVALIDATE_RMA | UCT_MD_FLAG_INVALIDATE_AMO;
#else
constexpr uint64_t kInvalidation = UCT_MD_FLAG_INVALIDATE;
#endif

// Flags of a registration: a plain argument before 1.14.
inline unsigned registration_flags(unsigned flags) {
    return flags;
}
#if TERN_UCX_SINCE(14)
inline unsigned registration_flags(const uct_md_mem_reg_params_t* parameters) {
    return (parameters->field_mask & UCT_MD_MEM_REG_FIELD_FLAGS) != 0
               ? static_cast<unsigned>(parameters->flags)
               : 0;
}
#endif

// What a registration says of the memory's DMA buffer: `fd` is negative if there is none, and
// `asked` is set if UCX has asked for one. No release before 1.14 does.
struct DmaBuffer {
    int fd = -1;
    size_t offset = 0;
    bool asked = false;
    bool hides_errors = false;
};
inline constexpr DmaBuffer dma_buffer(unsigned) {
    return {};
}
#if TERN_UCX_SINCE(14)
inline constexpr uint64_t kDmaBuffers = UCT_MD_FLAG_REG_DMABUF;
inline DmaBuffer dma_buffer(const uct_md_mem_reg_params_t* parameters) {
    DmaBuffer buffer;
    buffer.asked = (parameters->field_mask & UCT_MD_MEM_REG_FIELD_DMABUF_FD) != 0;
    if (buffer.asked) buffer.fd = parameters->dmabuf_fd;
    if ((parameters->field_mask & UCT_MD_MEM_REG_FIELD_DMABUF_OFFSET) != 0)
        buffer.offset = parameters->dmabuf_offset;
    buffer.hides_errors = (registration_flags(parameters) & UCT_MD_MEM_FLAG_HIDE_ERRORS) != 0;
    return buffer;
}
#else
inline constexpr uint64_t kDmaBuffers = 0;
#endif

// Whether the processor is one of those on which UCX relaxes the order by itself: of AMD, Naples,
// Rome, Milan, and from 1.18 on Genoa and Turin.
inline bool prefers_relaxed_order() {
#if TERN_UCX_SINCE(22)
    return ucs_cpu_model_prefer_relaxed_order(ucs_arch_get_cpu_vendor(),
                                              ucs_arch_get_cpu_model()) != 0;
#else
    return ucs_cpu_prefer_relaxed_order() != 0;
#endif
}

inline bool is_auto(double bandwidth) {
#ifdef UCS_CONFIG_DBL_IS_AUTO
    return UCS_CONFIG_DBL_IS_AUTO(bandwidth);
#else
    return UCS_CONFIG_BW_IS_AUTO(bandwidth);
#endif
}

// Gives a device on a bus the name that UCX shows; with a priority from 1.14 on.
template <typename Device>
void name_system_device(Device device, const char* name) {
    constexpr unsigned kPriority = 10;  // that of UCX's own transports
    if constexpr (requires { ucs_topo_sys_device_set_name(device, name, kPriority); })
        (void)ucs_topo_sys_device_set_name(device, name, kPriority);
    else
        (void)ucs_topo_sys_device_set_name(device, name);
}

// --- Interface and endpoint

// The status of an endpoint whose peer has ended. Up to 1.17, failed endpoints of UCP report a
// time-out whatever the reason was, and expect this status from the transport.
#if TERN_UCX_SINCE(18)
inline constexpr ucs_status_t kPeerGone = UCS_ERR_CONNECTION_RESET;
#else
inline constexpr ucs_status_t kPeerGone = UCS_ERR_ENDPOINT_TIMEOUT;
#endif

// Whether UCP's protocols v2 announce long messages by active messages, while short messages of the
// same tag use the tag interface. From 1.18 on they announce by the tag interface, too.
#if TERN_UCX_SINCE(18)
inline constexpr bool kAnnouncesByActiveMessages = false;
#else
inline constexpr bool kAnnouncesByActiveMessages = true;
#endif

// The capability of a transport between nodes; 0 in versions without it.
#ifdef UCT_IFACE_FLAG_INTER_NODE
inline constexpr uint64_t kInterNode = UCT_IFACE_FLAG_INTER_NODE;
#else
inline constexpr uint64_t kInterNode = 0;
#endif

// Applies `change` to the bandwidths that are asked for. `path_bandwidth` is newer than 1.18; its
// flag follows that of `bandwidth`.
template <typename Attributes, typename Change>
void each_bandwidth(Attributes& attributes, Change&& change) {
    constexpr uint64_t kBandwidth = UCT_PERF_ATTR_FIELD_BANDWIDTH;
    if ((attributes.field_mask & kBandwidth) != 0)
        attributes.bandwidth.shared = change(attributes.bandwidth.shared);
    if constexpr (requires { attributes.path_bandwidth; })
        if ((attributes.field_mask & (kBandwidth << 1)) != 0)
            attributes.path_bandwidth.shared = change(attributes.path_bandwidth.shared);
}

// Implements iface_is_reachable_v2 with the function `is_reachable` of uct_iface_ops_t.
template <auto is_reachable, typename Parameters>
int is_reachable_v2(uct_iface_h iface, const Parameters* parameters) {
    if ((parameters->field_mask & UCT_IFACE_IS_REACHABLE_FIELD_DEVICE_ADDR) == 0) return 0;
    const bool whole = (parameters->field_mask & UCT_IFACE_IS_REACHABLE_FIELD_IFACE_ADDR) != 0;
    const uct_iface_addr_t* address = whole ? parameters->iface_addr : nullptr;
    if (is_reachable(iface, parameters->device_addr, address) == 0) {
        if constexpr (requires { uct_iface_fill_info_str_buf(parameters, "%s", ""); })
            uct_iface_fill_info_str_buf(
                parameters, "%s",
                "no address of tern, of another kind of port, or on another "
                "subnet");
        return 0;
    }
    if constexpr (requires { uct_iface_scope_is_reachable(iface, parameters); })
        return uct_iface_scope_is_reachable(iface, parameters);
    return 1;
}

#if TERN_UCX_SINCE(16)
template <auto is_connected>
int is_connected_v2(uct_ep_h ep, const uct_ep_is_connected_params_t* parameters) {
    constexpr uint64_t kBoth =
        UCT_EP_IS_CONNECTED_FIELD_DEVICE_ADDR | UCT_EP_IS_CONNECTED_FIELD_IFACE_ADDR;
    if ((parameters->field_mask & kBoth) != kBoth) return 0;
    return is_connected(ep, parameters->device_addr, parameters->iface_addr);
}
#endif

template <typename Interface, typename Attributes>
ucs_status_t query_v2(Interface iface, Attributes* attributes) {
    if constexpr (requires { uct_iface_base_query_v2(iface, attributes); })
        return uct_iface_base_query_v2(iface, attributes);
    return UCS_ERR_UNSUPPORTED;
}

// UCX's internal functions of an interface. `is_reachable` and `is_connected` take a device
// address and an interface address.
template <auto is_reachable, auto is_connected>
constexpr Padded<uct_iface_internal_ops_t> internal_ops() {
    uct_iface_internal_ops_t ops = {};
    ops.iface_vfs_refresh = void_stub;
    ops.ep_query = stub<UCS_ERR_UNSUPPORTED>;
    ops.ep_invalidate = stub<UCS_ERR_UNSUPPORTED>;
    TERN_SET_IF_PRESENT(ops, ep_connect_to_ep_v2, stub<UCS_ERR_UNSUPPORTED>);
    TERN_SET_IF_PRESENT(ops, iface_is_reachable_v2, (is_reachable_v2<is_reachable>));
#if TERN_UCX_SINCE(16)
    ops.ep_is_connected = is_connected_v2<is_connected>;
#endif
    TERN_SET_IF_PRESENT(ops, iface_query_v2, query_v2);
    TERN_SET_IF_PRESENT(ops, iface_mem_element_pack, stub<UCS_ERR_UNSUPPORTED>);
    TERN_SET_IF_PRESENT(ops, ep_get_device_ep, stub<UCS_ERR_UNSUPPORTED>);
    TERN_SET_IF_PRESENT(ops, ep_put_sgl_zcopy, stub<UCS_ERR_UNSUPPORTED>);
    TERN_SET_IF_PRESENT(ops, ep_get_sgl_zcopy, stub<UCS_ERR_UNSUPPORTED>);
    TERN_SET_IF_PRESENT(ops, ep_outstanding_purge, stub<UCS_ERR_UNSUPPORTED>);
    return padded(ops);
}

}  // namespace tern::compat
