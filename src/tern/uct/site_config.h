// SPDX-License-Identifier: BSD-3-Clause
// Settings that a site makes for all transports of a fabric: UCX_IB_NAME of UCX's own transports
// counts where UCX_TERN_NAME is not set. UCX's parser does that for tables with the prefix IB_
// within Tern's, from the environment and from ucx.conf. Each takes the values that UCX's takes.
#pragma once

#include "tern/uct/ucx_headers.h"
#include "tern/verbs/port.h"

namespace tern {

// A site's settings for a memory domain.
struct SiteMemoryConfig {
#define SITE_MEMORY_SETTING(type, member, ...) type member;
#include "tern/uct/settings.def"
};
extern ucs_config_field_t site_memory_config_table[];

// `setting`: SiteMemoryConfig::relaxed_ordering. Warns if the device refuses what the user demands.
bool relaxes_order(int setting, const verbs::Device& device);

// A site's settings for a port. UCX writes 8 bytes for a PKEY of "auto", and 4 for a number.
struct SitePortConfig {
#define SITE_SETTING(type, member, ...) type member;
#include "tern/uct/settings.def"
};
extern ucs_config_field_t site_port_config_table[];

verbs::PortSettings port_settings(const SitePortConfig& config);

}  // namespace tern
