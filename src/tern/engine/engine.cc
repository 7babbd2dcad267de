// SPDX-License-Identifier: BSD-3-Clause
#include "tern/engine/engine.h"

#include <cerrno>
#include <cstring>
#include <utility>

namespace tern {

std::unique_ptr<Engine> Engine::create(const verbs::Device& device, const verbs::Port& port,
                                       const EngineSettings& settings, EngineOwner& owner,
                                       std::string& why) {
    EngineSettings adapted = settings;
    auto resources = Resources::open(device, port, adapted, owner, why);
    if (!resources) return nullptr;
    std::unique_ptr<Engine> engine(new Engine(std::move(*resources), adapted, owner));
    if (engine->sleep_.open()) return engine;
    why = std::string("cannot create an event descriptor: ") + strerror(errno);
    return nullptr;
}

Engine::Engine(Resources resources, const EngineSettings& settings, EngineOwner& owner)
    : Engine(std::move(resources), settings,
             {.settings = settings_,
              .resources = resources_,
              .owner = owner,
              .poller = poller_,
              .fast_path = fast_path_,
              .one_sided = one_sided_,
              .requests = requests_,
              .control = control_,
              .room = room_,
              .early = early_,
              .peer_blocks = peer_blocks_,
              .offered = offered_,
              .blocks = blocks_,
              .completions = completions_,
              .health = health_,
              .flush = flush_,
              .idle = idle_,
              .connector = connector_,
              .sleep = sleep_}) {}

Engine::Engine(Resources&& resources, const EngineSettings& settings, const EngineParts& parts)
    : settings_(settings),
      resources_(std::move(resources)),
      poller_(parts),
      fast_path_(parts),
      one_sided_(parts),
      requests_(connector_),
      control_(requests_, offered_, peer_blocks_),
      room_(resources_.pool, connector_, requests_, parts.owner),
      early_(parts),
      peer_blocks_(resources_.pd, connector_, requests_, control_),
      offered_(parts),
      blocks_(poller_.polled_blocks(), offered_, control_, connector_),
      completions_(parts),
      health_(parts),
      flush_(connector_, requests_, poller_.budget(), parts.owner),
      idle_(settings_.connections, connector_, requests_, parts.owner),
      channels_(parts),
      connector_({.pd = resources_.pd,
                  .port = resources_.port,
                  .cq = resources_.cq.get(),
                  .srq = resources_.receives->srq()},
                 resources_.connector, std::move(resources_.datagrams), resources_.self, channels_),
      sleep_(parts) {}

Counters Engine::counters() const {
    Counters counters{fast_path_.counters(), one_sided_.counters(), offered_.counters()};
    counters.sent_cold += control_.sent();
    counters.sent_control = control_.sent();
    counters.received_control = control_.arrivals();
    counters.repeated = one_sided_.repeated().sent();
    counters.received_hot = blocks_.received();
    counters.received_cold = completions_.received();
    counters.credit_stalls = peer_blocks_.stalls();
    counters.cold_stalls = peer_blocks_.waits();
    counters.queue_stalls = room_.refused();
    counters.batches = poller_.batches().batches();
    counters.batched = poller_.batches().messages();
    counters.polls = poller_.polls();
    counters.sleeps = sleep_.sleeps();
    counters.notify_requests = sleep_.notify_requests();
    counters.notifications = completions_.notifications();
    const DatagramCounts packets = connector_.datagrams().counts();
    counters.packets_sent = packets.sent;
    counters.packets_received = packets.received;
    counters.packets_dropped = packets.dropped;
    return counters;
}

EngineUsage Engine::usage() const {
    EngineUsage usage{.connections_most = connector_.table().most(),
                      .connections_ended = idle_.ended(),
                      .send_queue_places = connector_.table().places(),
                      .hot_peers = offered_.hot_peers(),
                      .receive_buffers = resources_.receives->size(),
                      .receive_queue_bytes = resources_.receives->registered_bytes(),
                      .send_pool_bytes = resources_.pool.registered_bytes()};
    usage.registered_bytes = usage.receive_queue_bytes + usage.send_pool_bytes +
                             connector_.datagrams().registered_bytes() +
                             offered_.counters().block_bytes + peer_blocks_.registered_bytes();
    return usage;
}

}  // namespace tern
