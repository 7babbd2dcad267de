// SPDX-License-Identifier: BSD-3-Clause
#include "engine/resources.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include "engine/owner.h"
#include "veloblock/block_writer.h"
#include "verbs/queue_pair.h"

namespace tern {

namespace {

constexpr uint32_t kLeastReceives = 16;

uint64_t random_instance() {
    std::random_device random;
    return (uint64_t{random()} << 32 | random()) & 0xffffffffff;
}

}  // namespace

Resources::Resources(const verbs::Device& device, const verbs::Port& own_port,
                     const EngineSettings& settings)
    : port(own_port),
      pd(device.pd.get()),
      max_cqe(static_cast<uint32_t>(device.attributes.max_cqe)),
      // Room for a payload with its words, or for the padding and the tail of a gathered frame.
      pool(device.pd.get(), padded(settings.segment_size) + 2 * BlockWriter::kOverhead,
           settings.send_buffers),
      connector{.queues = {.sends = settings.send_queue,
                           .inline_bytes = std::clamp(settings.inline_bytes,
                                                      uint32_t{sizeof(Word)} + kMaxControl,
                                                      engine_limits::kInline),
                           .pieces = engine_limits::kPieces},
                .retry = settings.retry,
                .times = settings.handshake} {
    if (device.events) device_events = std::make_unique<verbs::AsyncEvents::Inbox>(*device.events);
}

std::optional<Resources> Resources::open(const verbs::Device& device, const verbs::Port& port,
                                         EngineSettings& settings, EngineOwner& owner,
                                         std::string& why) {
    Resources resources(device, port, settings);
    if (!resources.open_queues(device, settings, owner, why)) return std::nullopt;
    return resources;
}

bool Resources::open_queues(const verbs::Device& device, EngineSettings& settings,
                            EngineOwner& owner, std::string& why) {
    const auto refuse = [&why](const char* what) {
        why = std::string(what) + ": " + strerror(errno);
        if (errno == ENOMEM) why += "; raise the limit of locked memory (ulimit -l)";
        return false;
    };
    events.reset(ibv_create_comp_channel(port.context));
    if (!events) return refuse("cannot create a completion channel");
    const int flags = fcntl(events->fd, F_GETFL);
    if (flags < 0 || fcntl(events->fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return refuse("cannot make the completion channel non-blocking");
    const auto entries = static_cast<int>(settings.receive_queue + settings.send_queue * 4);
    cq.reset(ibv_create_cq(port.context, std::min(entries, device.attributes.max_cqe), nullptr,
                           events.get(), 0));
    if (!cq) return refuse("cannot create a completion queue");
    if (!pool.open()) return refuse("cannot register the send pool");
    datagrams = Datagrams::create(device, port, why);
    if (!datagrams) return false;
    if (!open_receives(settings, owner)) return refuse("cannot set up the shared receive queue");
    if (!find_max_inline()) return refuse("cannot create a reliable queue pair");
    set_address();
    return true;
}

// Called after all other registrations, since the receive queue works with fewer buffers too.
bool Resources::open_receives(EngineSettings& settings, EngineOwner& owner) {
    const uint32_t wanted = settings.receive_queue;
    const auto size = static_cast<uint32_t>(sizeof(Word)) + settings.segment_size;
    for (;;) {
        receives = ReceiveQueue::create(pd, settings.receive_queue, size);
        if (receives || errno != ENOMEM || settings.receive_queue / 2 < kLeastReceives) break;
        settings.receive_queue /= 2;
    }
    if (receives && settings.receive_queue < wanted)
        owner.warn("memory for only " + std::to_string(settings.receive_queue) + " of " +
                   std::to_string(wanted) +
                   " receive buffers can be registered: raise the limit of locked memory "
                   "(ulimit -l)");
    return receives != nullptr;
}

// The interface must report its inline size before it connects: a temporary queue pair shows it.
bool Resources::find_max_inline() {
    ibv_qp_cap capacity{};
    if (!verbs::create_queue_pair(pd, IBV_QPT_RC, cq.get(), receives->srq(), connector.queues,
                                  capacity))
        return false;
    // Frames in blocks are padded to whole units.
    max_inline = std::min(capacity.max_inline_data, engine_limits::kInline) & ~(Word::kUnit - 1);
    return true;
}

void Resources::set_address() {
    self.port.lid = port.attributes.lid;
    self.port.has_lid = !port.ethernet && port.attributes.lid != 0;
    self.port.ethernet = port.ethernet;
    self.port.has_gid = port.global;
    if (port.global)
        std::copy(std::begin(port.gid.raw), std::end(port.gid.raw), self.port.gid.begin());
    self.interface = {.qp_num = datagrams->qp_num(), .instance = random_instance()};
    datagrams->set_self(self);
}

}  // namespace tern
