// SPDX-License-Identifier: BSD-3-Clause
// The settings of an interface as UCX parses them, and their conversion to settings of each part.
#pragma once

#include <string>

#include "tern/base/tunables.h"
#include "tern/engine/engine.h"
#include "tern/rendezvous/rendezvous.h"
#include "tern/tupleq/xrc/tupleq.h"
#include "tern/uct/site_config.h"
#include "tern/uct/ucx_headers.h"

namespace tern {

// UCX fills it in from the environment.
struct TernConfig {
    uct_iface_config_t super;
    SitePortConfig port;
#define SETTING(type, member, ...) type member;
#include "tern/uct/settings.def"
};

extern ucs_config_field_t config_table[];

// Splits a configuration by part. `interfaces`: of the process on the device. False: a setting is
// out of range; `why` names it.
bool read_config(const TernConfig& config, const Tunables& tunables, const ibv_device_attr& device,
                 uint32_t interfaces, EngineSettings& engine, RendezvousSettings& rendezvous,
                 TupleQSettings& tupleq, verbs::PortSettings& port, std::string& why);

// The costs of the cost model: as measured, unless RNDV_COSTS replaces them. `bandwidth`: of the
// port, in bytes per second. False: that setting is malformed; `why` says where.
bool read_costs(const TernConfig& config, const Costs& measured, double bandwidth, Costs& costs,
                std::string& why);

}  // namespace tern
