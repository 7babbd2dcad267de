// SPDX-License-Identifier: BSD-3-Clause
// The memory domain: one for each verbs device with a usable port.
#pragma once

#include "uct/ucx_headers.h"
#include "verbs/port.h"

namespace tern {

struct MemoryDomain {
    uct_md_t super;  // first: UCX casts
    verbs::Device device;
};

inline MemoryDomain& memory_domain(uct_md_h md) {
    return *reinterpret_cast<MemoryDomain*>(md);
}

// Of the component.
ucs_status_t query_md_resources(uct_component_t* component, uct_md_resource_desc_t** resources,
                                unsigned* count);
ucs_status_t md_open(uct_component_t* component, const char* name, const uct_md_config_t* config,
                     uct_md_h* md);
ucs_status_t rkey_unpack(uct_component_t* component, const void* buffer, uct_rkey_t* rkey,
                         void** handle);

// Of the transport.
ucs_status_t query_ports(uct_md_h md, uct_tl_device_resource_t** ports, unsigned* count);

}  // namespace tern
