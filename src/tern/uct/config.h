// SPDX-License-Identifier: BSD-3-Clause
// The settings UCX_TERN_* as UCX parses them, and their conversion to settings of each part.
#pragma once

#include <string>

#include "tern/base/tunables.h"
#include "tern/engine/engine.h"
#include "tern/rendezvous/rendezvous.h"
#include "tern/tupleq/xrc/tupleq.h"
#include "tern/uct/site_config.h"
#include "tern/uct/ucx_headers.h"

namespace tern {

// UCX fills it in from the environment; `config_table` has a row for each field.
struct TernConfig {
    uct_iface_config_t super;
    // Active messages and the queues.
    struct {
        size_t segment_size;
        unsigned send_queue;
        unsigned long connections;
        unsigned send_buffers;
        unsigned receive_queue;
        unsigned receive_most;
        int poll;
        int batches;
        int repeats;
    } messages;
    // The fast path: which senders have blocks, and of what size.
    struct {
        unsigned after;
        unsigned most;
        size_t most_bytes;
        size_t memory;
    } blocks;
    SitePortConfig port;
    struct {
        double timeout;
        unsigned retries;
        double rnr_timeout;
        unsigned rnr_retries;
        double connect_timeout;
    } retry;
    struct {
        int scheme;
        size_t ring_bytes;
        unsigned pin_after;
    } rendezvous;
    char* costs;  // see read_costs()
    struct {
        int matching;
        unsigned tuples;
        size_t tuple_least;
    } tags;
    int proto;
    char* counters;
    double counters_interval;
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
