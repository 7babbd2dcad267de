// SPDX-License-Identifier: BSD-3-Clause
// The UCT component `tern`, which registers itself when this library is loaded, by LD_PRELOAD or as
// a plug-in.
#include <algorithm>

#include "tern/base/trace.h"
#include "tern/uct/compat.h"
#include "tern/uct/config.h"
#include "tern/uct/explain.h"
#include "tern/uct/iface.h"
#include "tern/uct/md.h"

namespace tern {
namespace {

constexpr uct_component_t with_new_members(uct_component_t old) {
    TERN_SET_IF_PRESENT(old, rkey_compare, rkey_compare);
    return old;
}

}  // namespace

constinit uct_component_t tern_component = with_new_members({
    .name = "tern",
    .query_md_resources = query_md_resources,
    .md_open = md_open,
    .cm_open = stub<UCS_ERR_UNSUPPORTED>,
    .rkey_unpack = rkey_unpack,
    .rkey_ptr = stub<UCS_ERR_UNSUPPORTED>,
    .rkey_release = rkey_release,
    .md_config = {.name = "Tern memory domain",
                  .prefix = "TERN_",
                  .table = memory_config_table,
                  .size = sizeof(MemoryConfig)},
    .cm_config = UCS_CONFIG_EMPTY_GLOBAL_LIST_ENTRY,
    .tl_list = UCT_COMPONENT_TL_LIST_INITIALIZER(&tern_component),
    .flags = 0,
    .md_vfs_init = void_stub,
});

namespace {

uct_tl_t transport = {
    .name = "tern",
    .query_devices = query_ports,
    .iface_open = UCS_CLASS_NEW_FUNC_NAME(TernIface),
    .config = {.name = "tern transport",
               .prefix = "TERN_",
               .table = config_table,
               .size = sizeof(TernConfig)},
};

// A user may preload this library and also have UCX load a copy of it.
bool is_registered() {
    const uct_component_t* other;
    ucs_list_for_each(other, &uct_components_list, list) {
        if (std::strcmp(other->name, tern_component.name) == 0) return true;
    }
    return false;
}

ucs_log_level_t log_level(base::TraceLevel level) {
    switch (level) {
        case base::TraceLevel::kData:
            return UCS_LOG_LEVEL_TRACE_DATA;
        case base::TraceLevel::kTrace:
            return UCS_LOG_LEVEL_TRACE;
        default:
            return UCS_LOG_LEVEL_DEBUG;
    }
}

// A UCX that was built without its trace levels, like Debian's, drops such lines: they go to the
// highest level that it has.
void write_trace(base::TraceLevel level, const char* file, int line, const char* function,
                 const char* text) {
    ucs_log_dispatch(file, line, function,
                     std::min<ucs_log_level_t>(log_level(level), UCS_MAX_LOG_LEVEL),
                     &ucs_global_opts.log_component, "tern: %s", text);
}

void connect_trace() {
    base::g_trace.sink = write_trace;
    for (const auto level :
         {base::TraceLevel::kDebug, base::TraceLevel::kTrace, base::TraceLevel::kData})
        if (log_level(level) <= ucs_global_opts.log_component.log_level) base::g_trace.most = level;
}

__attribute__((constructor)) void load() {
    if (!ucx_fits() || is_registered()) return;
    ExplainRecord("loaded").add("program", program_invocation_short_name).write();
    connect_trace();
    record_lanes();
    uct_component_register(&tern_component);
    uct_tl_register(&tern_component, &transport);
    load_ucp_plugin();
}

}  // namespace
}  // namespace tern
