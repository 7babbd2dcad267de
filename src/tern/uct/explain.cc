// SPDX-License-Identifier: BSD-3-Clause
#include "tern/uct/explain.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <iterator>
#include <string_view>

#include "tern/uct/ucx_headers.h"

namespace tern {
namespace {

ucs_log_level_t g_level;  // that the user has asked for

// UCX tells the lanes to nobody but its log, by a function that has this name in every release.
ucs_log_func_rc_t read_log(const char*, unsigned, const char* function, ucs_log_level_t level,
                           const ucs_log_component_config_t* component, const char* format,
                           va_list values) {
    if (level == UCS_LOG_LEVEL_INFO && std::string_view(function) == "ucp_worker_print_used_tls") {
        char text[512];
        va_list copy;
        va_copy(copy, values);
        std::vsnprintf(text, sizeof text, format, copy);
        va_end(copy);
        ExplainRecord("lanes").add("text", text).write();
    }
    const bool unasked = component == &ucs_global_opts.log_component && level > g_level &&
                         level != UCS_LOG_LEVEL_PRINT;
    return unasked ? UCS_LOG_FUNC_RC_STOP : UCS_LOG_FUNC_RC_CONTINUE;
}

}  // namespace

void record_lanes() {
    if (!explains()) return;
    ucs_log_level_t& level = ucs_global_opts.log_component.log_level;
    g_level = level;
    level = std::max(level, UCS_LOG_LEVEL_INFO);
    ucs_log_push_handler(read_log);
}

void note_unused(const Unused& unused) {
    last_unused() = unused;
    ExplainRecord("unused")
        .add("what", unused.what)
        .add("why", unused.why)
        .add("remedy", unused.remedy)
        .write();
}

Unused& last_unused() {
    static Unused unused;
    return unused;
}

const char* advice(verbs::Remedy remedy) {
    static constexpr const char* kTexts[] = {
        "",
        "check the cable and the switch",
        "start a subnet manager in the fabric",
        ("use another device; over this one, UCX's own ud_verbs works "
         "(UCX_TLS=ud_verbs,self UCX_UD_VERBS_RX_QUEUE_LEN=1024)"),
        "unset UCX_TERN_GID_INDEX and UCX_IB_GID_INDEX, or give the port an address (show_gids "
        "lists them)",
        "set UCX_TERN_PKEY (or UCX_IB_PKEY) to a partition of the port"};
    static_assert(std::size(kTexts) == static_cast<size_t>(verbs::Remedy::kPartition) + 1);
    return kTexts[static_cast<size_t>(remedy)];
}

}  // namespace tern
