// SPDX-License-Identifier: BSD-3-Clause
// The settings UCX_TERN_* as UCX parses them, and their conversion to settings of each part.
#pragma once

#include <string>

#include "engine/engine.h"
#include "rendezvous/rendezvous.h"
#include "tupleq/xrc/tupleq.h"
#include "uct/ucx_headers.h"
#include "verbs/port.h"

namespace tern {

// UCX fills it in from the environment; `config_table` has a row for each field.
struct TernConfig {
    uct_iface_config_t super;
    // Active messages and the queues.
    struct {
        size_t segment_size;
        unsigned send_queue;
        unsigned long_queues;
        unsigned long connections;
        unsigned send_buffers;
        unsigned receive_queue;
        unsigned receive_most;
        unsigned inline_bytes;
        int poll;
        int repeats;
    } messages;
    // The fast path: which senders have blocks, and of what size.
    struct {
        unsigned after;
        unsigned most;
        unsigned window;
        unsigned keep;
        size_t first_bytes;
        size_t most_bytes;
        size_t memory;
    } blocks;
    struct {
        unsigned long gid_index;
        int global;
        unsigned pkey;
        unsigned long traffic_class;
        unsigned service_level;
        int path_mtu;
    } port;
    struct {
        double timeout;
        unsigned retries;
        double rnr_timeout;
        unsigned rnr_retries;
        double connect_timeout;
        double connect_retry;
    } retry;
    struct {
        int scheme;
        size_t ring_bytes;
        unsigned rings;
        unsigned chunks_per_ring;
        size_t chunk_first;
        double chunk_growth;
        unsigned pin_after;
        int pin_overlap;
    } rendezvous;
    // Of the cost model.
    struct {
        double copy_bandwidth;
        double net_bandwidth;
        double net_latency;
        double pin_bandwidth;
        double pin_latency;
    } costs;
    struct {
        int matching;
        unsigned receives;
        unsigned tuples;
        unsigned depth;
        unsigned tuple_after;
        size_t tuple_least;
    } tags;
    int proto;
    char* counters;
    double counters_interval;
};

extern ucs_config_field_t config_table[];

// Splits a configuration by part. False: a setting is out of range; `why` names it.
bool read_config(const TernConfig& config, const ibv_device_attr& device, EngineSettings& engine,
                 RendezvousSettings& rendezvous, TupleQSettings& tupleq, verbs::PortSettings& port,
                 std::string& why);

// The costs of the cost model: as measured, unless a setting replaces them. `bandwidth`: of the
// port, in bytes per second.
Costs read_costs(const TernConfig& config, const Costs& measured, double bandwidth);

}  // namespace tern
