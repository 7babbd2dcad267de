// SPDX-License-Identifier: BSD-3-Clause
// The settings UCX_TERN_*, as UCX parses them, and what the engine makes of them.
#pragma once

#include <string>

#include "fastpath/engine.h"
#include "uct/ucx_headers.h"
#include "verbs/port.h"

namespace tern {

/// Filled in by UCX from the environment, one field for each row of `config_table`.
struct TernConfig {
    uct_iface_config_t super;
    size_t segment_size;
    unsigned send_queue;
    unsigned send_buffers;
    unsigned receive_queue;
    unsigned inline_bytes;
    int poll;
    unsigned hot_after;
    unsigned hot_most;
    unsigned hot_window;
    unsigned hot_keep;
    size_t block_first;
    size_t block_most;
    unsigned long gid_index;
    int global;
    unsigned pkey;
    unsigned traffic_class;
    unsigned service_level;
    int path_mtu;
    double timeout;
    unsigned retries;
    double rnr_timeout;
    unsigned rnr_retries;
    double connect_timeout;
    double connect_retry;
    char* counters;
};

extern ucs_config_field_t config_table[];

/// The parts of a configuration. False if a setting is out of range; `why` names it.
bool read_config(const TernConfig& config, const ibv_device_attr& device, EngineSettings& engine,
                 verbs::PortSettings& port, std::string& why);

}  // namespace tern
