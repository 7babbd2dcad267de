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
    : settings_(settings),
      resources_(std::move(resources)),
      poller_(blocks_, completions_, control_, connector_, health_, flush_, idle_, sleep_, owner),
      fast_path_(resources_.max_inline, resources_.pool, requests_, peer_blocks_, early_, room_),
      one_sided_(resources_.max_inline, resources_.pool, requests_, early_, room_, poller_.budget(),
                 settings_.repeats, control_),
      requests_(connector_),
      control_(requests_, offered_, peer_blocks_),
      room_(resources_.pool, connector_, requests_, owner),
      early_(settings_, resources_.pool, room_, fast_path_, one_sided_, requests_, owner),
      peer_blocks_(resources_.pd, connector_, requests_, control_),
      offered_(resources_.pd, settings_, *resources_.receives, poller_.polled_blocks(), control_,
               requests_, sleep_, owner),
      blocks_(poller_.polled_blocks(), offered_, control_, connector_),
      completions_(resources_.cq.get(), *resources_.receives, resources_.pool, blocks_, offered_,
                   control_, requests_, connector_, health_, poller_.budget()),
      health_(resources_.device_events.get(), resources_.cq.get(), resources_.receives->srq(),
              resources_.port.number, connector_, completions_, owner),
      flush_(connector_, requests_, poller_.budget(), owner),
      idle_(settings_.connections, connector_, requests_, owner),
      channels_(settings_, resources_.cq.get(), resources_.max_cqe, connector_,
                {.requests = requests_,
                 .control = control_,
                 .offered = offered_,
                 .peer_blocks = peer_blocks_,
                 .early = early_,
                 .completions = completions_,
                 .health = health_,
                 .idle = idle_,
                 .budget = poller_.budget()},
                owner),
      connector_(resources_.pd, resources_.port, resources_.connector,
                 std::move(resources_.datagrams), resources_.cq.get(), resources_.receives->srq(),
                 resources_.self, channels_),
      sleep_(resources_.cq.get(), resources_.events.get(), requests_, control_, peer_blocks_,
             poller_.polled_blocks(), poller_.budget(), completions_, connector_, health_, flush_) {
}

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
