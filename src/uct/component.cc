// SPDX-License-Identifier: BSD-3-Clause
// The UCT component `tern`: what UCX finds when this library is loaded, by LD_PRELOAD or as a
// plug-in.
#include "uct/abi_check.h"
#include "uct/stub.h"
#include "uct/ucx_headers.h"

namespace tern {
namespace {

ucs_status_t query_devices(uct_component_t*, uct_md_resource_desc_t** resources, unsigned* count) {
    return uct_md_query_empty_md_resource(resources, count);
}

extern uct_component_t component;

constinit uct_component_t component = {
    .name = "tern",
    .query_md_resources = query_devices,
    .md_open = stub<UCS_ERR_UNSUPPORTED>,
    .cm_open = stub<UCS_ERR_UNSUPPORTED>,
    .rkey_unpack = stub<UCS_ERR_UNSUPPORTED>,
    .rkey_ptr = stub<UCS_ERR_UNSUPPORTED>,
    .rkey_release = stub<UCS_OK>,
    .md_config = {.name = "Tern memory domain",
                  .prefix = "TERN_",
                  .table = uct_md_config_table,
                  .size = sizeof(uct_md_config_t)},
    .cm_config = UCS_CONFIG_EMPTY_GLOBAL_LIST_ENTRY,
    .tl_list = UCT_COMPONENT_TL_LIST_INITIALIZER(&component),
    .flags = 0,
    .md_vfs_init = void_stub,
};

/// Somebody may both preload this library and have UCX load a copy of it.
bool is_registered() {
    const uct_component_t* other;
    ucs_list_for_each(other, &uct_components_list, list) {
        if (std::strcmp(other->name, component.name) == 0) return true;
    }
    return false;
}

__attribute__((constructor)) void load() {
    if (ucx_fits() && !is_registered()) uct_component_register(&component);
}

}  // namespace
}  // namespace tern
