// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tern/connection/connector.h"
#include "tern/engine/receive_queue.h"
#include "tern/engine/send_pool.h"
#include "tern/engine/settings.h"
#include "tern/verbs/async_events.h"
#include "tern/verbs/handles.h"
#include "tern/verbs/port.h"

namespace tern {

class EngineOwner;

// What an interface has of the device: the queues and memory that its connections share. Set-up
// only.
struct Resources {
    // Opens all of them. Lowers settings.receive_queue and receive_most if memory is short. Empty
    // on failure; `why` says why.
    static std::optional<Resources> open(const verbs::Device& device, const verbs::Port& port,
                                         EngineSettings& settings, EngineOwner& owner,
                                         std::string& why);

    verbs::Port port;
    ibv_pd* pd;
    uint32_t max_cqe;
    std::unique_ptr<verbs::AsyncEvents::Inbox> device_events;  // null: the device has none
    verbs::CompletionChannel events;
    verbs::CompletionQueue cq;
    SendPool pool;
    std::unique_ptr<Datagrams> datagrams;  // the connector takes them
    std::unique_ptr<ReceiveQueue> receives;
    PeerAddress self;
    ConnectorSettings connector;
    uint32_t max_inline = 0;  // bytes, whole units
    // Pieces of the user's memory that a frame may have; 0: the device cannot gather one.
    uint32_t max_pieces() const {
        return connector.queues.pieces -
               std::min(connector.queues.pieces, engine_limits::kOwnPieces);
    }

  private:
    Resources(const verbs::Device& device, const verbs::Port& own_port,
              const EngineSettings& settings);
    bool open_queues(const verbs::Device& device, EngineSettings& settings, EngineOwner& owner,
                     std::string& why);
    bool open_completions(const EngineSettings& settings);
    bool open_receives(EngineSettings& settings, EngineOwner& owner);
    bool find_max_inline();
    void set_address();
};

}  // namespace tern
