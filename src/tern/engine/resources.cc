// SPDX-License-Identifier: BSD-3-Clause
#include "tern/engine/resources.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include "tern/base/shortage.h"
#include "tern/engine/owner.h"
#include "tern/verbs/queue_pair.h"

namespace tern {

namespace {

constexpr uint32_t kLeastReceives = 16;
using engine_limits::kLeastInline;

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
      pool(device.pd.get(), settings.send_buffer(), settings.send_buffers),
      connector{.queues = {.sends = settings.send_queue,
                           .inline_bytes = std::clamp(settings.inline_bytes, kLeastInline,
                                                      engine_limits::kInline),
                           .pieces = std::min(engine_limits::kPieces,
                                              static_cast<uint32_t>(device.attributes.max_sge)),
                           .atomics = own_port.atomics},
                .later_sends = settings.later_queue(),
                .long_queues = settings.long_queues,
                .retry = settings.retry,
                .times = settings.handshake} {
    if (device.events) device_events = std::make_unique<verbs::AsyncEvents::Inbox>(*device.events);
}

std::optional<Resources> Resources::open(const verbs::Device& device, const verbs::Port& port,
                                         EngineSettings& settings, EngineOwner& owner,
                                         std::string& why) {
    settings.receive_most =
        std::max(settings.receive_queue,
                 std::min({settings.receive_most,
                           static_cast<uint32_t>(std::max(device.attributes.max_srq_wr, 0)),
                           // Most of a completion queue is for sends.
                           static_cast<uint32_t>(std::max(device.attributes.max_cqe, 0)) / 4}));
    Resources resources(device, port, settings);
    if (!resources.open_queues(device, settings, owner, why)) return std::nullopt;
    return resources;
}

bool Resources::open_queues(const verbs::Device& device, EngineSettings& settings,
                            EngineOwner& owner, std::string& why) {
    const auto refuse = [&why](const char* what) {
        const int error = errno;
        why = std::string(what) + ": " + strerror(error) + "; " + scarce::kInterface.remedy(error);
        return false;
    };
    events.reset(ibv_create_comp_channel(port.context));
    if (!events) return refuse("cannot create a completion channel");
    const int flags = fcntl(events->fd, F_GETFL);
    if (flags < 0 || fcntl(events->fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return refuse("cannot make the completion channel non-blocking");
    if (!open_completions(settings)) return refuse("cannot create a completion queue");
    if (!pool.open()) return refuse("cannot register the send pool");
    datagrams = Datagrams::create(device, port, why);
    if (!datagrams) return false;
    if (!open_receives(settings, owner)) return refuse("cannot set up the shared receive queue");
    if (!find_max_inline()) return refuse("cannot create a reliable queue pair");
    if (max_inline < kLeastInline || max_pieces() == 0) {
        why = "a work request of the device has " + std::to_string(max_inline) +
              " bytes of inline data and " + std::to_string(connector.queues.pieces) +
              " scatter/gather entries; at least " + std::to_string(kLeastInline) + " and " +
              std::to_string(engine_limits::kOwnPieces + 1) + " are needed";
        return false;
    }
    set_address();
    return true;
}

// Called after all other registrations, since the receive queue works with fewer buffers too.
bool Resources::open_receives(EngineSettings& settings, EngineOwner& owner) {
    const uint32_t wanted = settings.receive_queue;
    const uint64_t each = settings.receive_buffer();
    const auto create = [&](uint64_t bytes) {
        settings.receive_queue = static_cast<uint32_t>(bytes / each);
        if (settings.receive_queue < wanted) settings.receive_most = settings.receive_queue;
        receives = ReceiveQueue::create(pd, {.first = settings.receive_queue,
                                             .most = settings.receive_most,
                                             .bytes = settings.receive_buffer(),
                                             .headroom = settings.buffers.headroom,
                                             .relaxed = settings.buffers.relaxed});
        return receives != nullptr;
    };
    Shortage shortage(scarce::kReceives);
    if (shortage.obtain(wanted * each, kLeastReceives * each, 0, create, owner) == 0) return false;
    shortage.tell(owner);
    return true;
}

// The queue grows with the number of connections, where it can.
bool Resources::open_completions(const EngineSettings& settings) {
    const auto room = [&](uint32_t first, uint32_t later) {
        return static_cast<uint32_t>(
            std::min<uint64_t>(settings.completions(first, later), max_cqe));
    };
    using namespace engine_limits;
    cq = verbs::create_completion_queue(
        port.context, room(kFirstConnections, 0),
        room(std::min(settings.long_queues, kFixedFirst), kFixedLater), events.get());
    return cq != nullptr;
}

// The interface must report its inline size before it connects: a temporary queue pair shows it. A
// device that refuses the size that is asked for, with whatever error, gets half of it.
bool Resources::find_max_inline() {
    ibv_qp_cap capacity{};
    uint32_t& wanted = connector.queues.inline_bytes;
    while (!verbs::create_queue_pair(pd, IBV_QPT_RC, cq.get(), receives->srq(), connector.queues,
                                     capacity)) {
        if (wanted == kLeastInline) return false;
        wanted = std::max(wanted / 2, kLeastInline);
    }
    // Frames in blocks are padded to whole units.
    max_inline = std::min(capacity.max_inline_data, engine_limits::kInline) & ~(Word::kUnit - 1);
    return true;
}

void Resources::set_address() {
    self.port = port_address(port);
    self.interface = {.qp_num = datagrams->qp_num(), .instance = random_instance()};
    datagrams->set_self(self);
}

}  // namespace tern
