// SPDX-License-Identifier: BSD-3-Clause
// Settings that a site makes for all transports of a fabric: UCX_IB_NAME of UCX's own transports
// counts where UCX_TERN_NAME is not set. UCX's parser does that for tables with the prefix IB_
// within Tern's, from the environment and from ucx.conf. Each takes the values that UCX's takes.
#pragma once

#include "tern/uct/ucx_headers.h"
#include "tern/verbs/port.h"

// A row of a table for UCX's parser, which writes the value to a member of _config. The type has
// commas.
#define TERN_FIELD_OF(_config, _name, _default, _help, _member, ...) \
    { _name, _default, _help, offsetof(_config, _member), __VA_ARGS__ }

namespace tern {

// Of a memory domain.
struct SiteMemoryConfig {
    int relaxed_ordering;
    int fork_init;
};
extern ucs_config_field_t site_memory_config_table[];

// `setting`: SiteMemoryConfig::relaxed_ordering. Warns if the device refuses what the user demands.
bool relaxes_order(int setting, const verbs::Device& device);

// Of a port.
struct SitePortConfig {
    unsigned long gid_index;
    int global;
    size_t pkey;  // UCX writes so much for "auto", and 4 bytes for a number
    unsigned long traffic_class;
    unsigned long service_level;
    int path_mtu;
    unsigned long paths;
    int local_subnet;
};
extern ucs_config_field_t site_port_config_table[];

verbs::PortSettings port_settings(const SitePortConfig& config);

}  // namespace tern
