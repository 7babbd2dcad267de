// SPDX-License-Identifier: BSD-3-Clause
// The settings of an interface as UCX parses them, and their conversion to settings of each part.
#pragma once

#include <string>

#include "tern/base/tunables.h"
#include "tern/engine/engine.h"
#include "tern/rendezvous/rendezvous.h"
#include "tern/tupleq/xrc/tupleq.h"
#include "tern/uct/ucx_headers.h"
#include "tern/verbs/port.h"

namespace tern {

// Settings that a site makes for all transports of a fabric: UCX_IB_NAME of UCX's own transports
// counts where UCX_TERN_NAME is not set. UCX's parser does that for tables with the prefix IB_
// within Tern's, from the environment and from ucx.conf. Each takes the values that UCX's takes.
// First, those of a memory domain.
struct SiteMemoryConfig {
#define SITE_MEMORY_SETTING(type, member, ...) type member;
#include "tern/uct/settings.def"
};
extern ucs_config_field_t site_memory_config_table[];

// `setting`: SiteMemoryConfig::relaxed_ordering. Warns if the device refuses what the user demands.
bool relaxes_order(int setting, const verbs::Device& device);

// Those of a port. UCX writes 8 bytes for a PKEY of "auto", and 4 for a number.
struct SitePortConfig {
#define SITE_SETTING(type, member, ...) type member;
#include "tern/uct/settings.def"
};
extern ucs_config_field_t site_port_config_table[];

// UCX fills it in from the environment.
struct TernConfig {
    uct_iface_config_t super;
    SitePortConfig port;
#define SETTING(type, member, ...) type member;
#include "tern/uct/settings.def"
};

extern ucs_config_field_t config_table[];

// The settings of each part of an interface.
struct Settings {
    Tunables tunables;
    EngineSettings engine;
    RendezvousSettings rendezvous;
    TupleQSettings direct;
    verbs::PortSettings port;
};

// Splits a configuration by part, with the tunables. `interfaces`: of the process on the device.
// False: a setting is out of range; `why` names it.
bool read_config(const TernConfig& config, const ibv_device_attr& device, uint32_t interfaces,
                 Settings& settings, std::string& why);

// The costs of the cost model: as measured, unless RNDV_COSTS replaces them. `bandwidth`: of the
// port, in bytes per second. False: that setting is malformed; `why` says where.
bool read_costs(const TernConfig& config, const Costs& measured, double bandwidth, Costs& costs,
                std::string& why);

}  // namespace tern
