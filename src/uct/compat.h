// SPDX-License-Identifier: BSD-3-Clause
// All that differs between the versions of UCX, told apart by what their structures have, so that
// one source serves 1.13 to 1.23. What stands here with a template parameter has another type from
// version to version.
#pragma once

#include <tuple>

#include "uct/stub.h"
#include "uct/ucx_headers.h"

/// Sets a member that only tables of some versions have.
#define TERN_SET_IF_PRESENT(table, member, value)                           \
    [](auto& present) {                                                     \
        if constexpr (requires { present.member; }) present.member = value; \
    }(table)

namespace tern::compat {

// --- Component and memory domain

/// The last but `back` of the arguments of a function that got more of them in the middle.
template <size_t back, typename... Arguments>
constexpr auto from_end(Arguments... arguments) {
    return std::get<sizeof...(Arguments) - 1 - back>(std::tuple(arguments...));
}

/// From 1.16 on.
constexpr uct_component_t with_new_members(uct_component_t component) {
    TERN_SET_IF_PRESENT(component, rkey_compare, stub<UCS_ERR_UNSUPPORTED>);
    return component;
}

/// mem_attach: from 1.14 on; the others: 1.21 and 1.23. Up to 1.15 there is one for socket
/// addresses that nobody calls.
constexpr uct_md_ops_t with_new_members(uct_md_ops_t ops) {
    TERN_SET_IF_PRESENT(ops, mem_attach, stub<UCS_ERR_UNSUPPORTED>);
    TERN_SET_IF_PRESENT(ops, mem_elem_pack, stub<UCS_ERR_UNSUPPORTED>);
    TERN_SET_IF_PRESENT(ops, mem_elem_release, void_stub);
    return ops;
}

/// Memory domain attributes: whoever calls has not initialised them.
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

/// Where they have their flags and memory types: apart, before 1.14.
template <typename Attributes>
auto& capabilities(Attributes* attributes) {
    if constexpr (requires { attributes->cap; })
        return attributes->cap;
    else
        return *attributes;
}

/// That registrations can be invalidated: from 1.15 on a flag for each kind of access.
template <typename Attributes>
constexpr uint64_t invalidation_flags(const Attributes*) {
    if constexpr (requires(Attributes attributes) { attributes.field_mask; })
        return UCT_MD_FLAG_INVALIDATE | UCS_BIT(11) | UCS_BIT(12);
    return UCT_MD_FLAG_INVALIDATE;
}

/// Flags of a registration: an argument by themselves before 1.14.
inline unsigned registration_flags(unsigned flags) {
    return flags;
}
template <typename Parameters>
unsigned registration_flags(const Parameters* parameters) {
    constexpr uint64_t kHasFlags = UCS_BIT(0);  // UCT_MD_MEM_REG_FIELD_FLAGS
    return (parameters->field_mask & kHasFlags) != 0 ? static_cast<unsigned>(parameters->flags) : 0;
}

// --- Interface and endpoint

constexpr uint64_t kHasDeviceAddress = UCS_BIT(0);  // of the parameters of the next two
constexpr uint64_t kHasInterfaceAddress = UCS_BIT(1);

/// From 1.15 on, in place of uct_iface_ops_t's function.
template <auto is_reachable, typename Parameters>
int is_reachable_v2(uct_iface_h iface, const Parameters* parameters) {
    if ((parameters->field_mask & kHasDeviceAddress) == 0) return 0;
    const uct_iface_addr_t* address =
        (parameters->field_mask & kHasInterfaceAddress) != 0 ? parameters->iface_addr : nullptr;
    if (is_reachable(iface, parameters->device_addr, address) == 0) return 0;
    if constexpr (requires { uct_iface_scope_is_reachable(iface, parameters); })
        return uct_iface_scope_is_reachable(iface, parameters);
    return 1;
}

/// From 1.16 on.
template <auto is_connected, typename Parameters>
int is_connected_v2(uct_ep_h ep, const Parameters* parameters) {
    constexpr uint64_t kBoth = kHasDeviceAddress | kHasInterfaceAddress;
    if ((parameters->field_mask & kBoth) != kBoth) return 0;
    return is_connected(ep, parameters->device_addr, parameters->iface_addr);
}

template <typename Interface, typename Attributes>
ucs_status_t query_v2(Interface iface, Attributes* attributes) {
    if constexpr (requires { uct_iface_base_query_v2(iface, attributes); })
        return uct_iface_base_query_v2(iface, attributes);
    return UCS_ERR_UNSUPPORTED;
}

/// UCX's internal functions of an interface. `is_reachable` and `is_connected` take a device's and
/// an interface's address.
template <auto is_reachable, auto is_connected>
constexpr uct_iface_internal_ops_t internal_ops() {
    uct_iface_internal_ops_t ops = {};
    ops.iface_estimate_perf = uct_base_iface_estimate_perf;
    ops.iface_vfs_refresh = void_stub;
    ops.ep_query = stub<UCS_ERR_UNSUPPORTED>;
    ops.ep_invalidate = stub<UCS_ERR_UNSUPPORTED>;
    TERN_SET_IF_PRESENT(ops, ep_connect_to_ep_v2, stub<UCS_ERR_UNSUPPORTED>);
    TERN_SET_IF_PRESENT(ops, iface_is_reachable_v2, (is_reachable_v2<is_reachable>));
    TERN_SET_IF_PRESENT(ops, ep_is_connected, (is_connected_v2<is_connected>));
    TERN_SET_IF_PRESENT(ops, iface_query_v2, query_v2);
    TERN_SET_IF_PRESENT(ops, iface_mem_element_pack, stub<UCS_ERR_UNSUPPORTED>);
    TERN_SET_IF_PRESENT(ops, ep_get_device_ep, stub<UCS_ERR_UNSUPPORTED>);
    TERN_SET_IF_PRESENT(ops, ep_put_sgl_zcopy, stub<UCS_ERR_UNSUPPORTED>);
    TERN_SET_IF_PRESENT(ops, ep_get_sgl_zcopy, stub<UCS_ERR_UNSUPPORTED>);
    TERN_SET_IF_PRESENT(ops, ep_outstanding_purge, stub<UCS_ERR_UNSUPPORTED>);
    return ops;
}

}  // namespace tern::compat
