// SPDX-License-Identifier: BSD-3-Clause

// The end of a peer, and of the context.

#include <atomic>
#include <optional>
#include <thread>

#include "rwapi/base/log.h"
#include "rwapi/engine/engine.h"

namespace rwapi {
namespace {

// A barrier in a thread of its own, because peers may need this process to make progress until
// they come to theirs. It outlives the engine if the barrier never ends.
struct Barrier {
    std::shared_ptr<Bootstrap> bootstrap;
    std::atomic<bool> over{false};
};

}  // namespace

ucs_status_t Engine::on_failure(void* engine, uct_ep_h endpoint, ucs_status_t status) {
    Engine& self = *static_cast<Engine*>(engine);
    for (const auto& [node, peer] : self.peers_) {
        if (peer->endpoint.get() != endpoint && peer->wire.get() != endpoint) continue;
        // Once the peers' endpoints are connected, the wiring has done its part.
        if (peer->endpoint.get() != endpoint && peer->state == PeerState::kReady) break;
        self.mark_failed(*peer, status);
        break;
    }
    return UCS_OK;
}

void Engine::mark_failed(Peer& peer, ucs_status_t status) {
    if (peer.failed) return;
    peer.failed = true;
    any_dead_ = true;
    peer.failure = status;
    failed_.push_back(&peer);
}

// Ends all operations of a peer that has failed. Not within UCT's calls of this engine.
void Engine::bury(Peer& peer) {
    log_error(
        "node %u: %s: calls that concern it fail from now on%s", peer.node,
        ucs_status_string(peer.failure),
        peer.greeted ? "; it has died, or memory was written to that has been given back" : "");
    peer.state = PeerState::kDead;
    peer.key_wanted.reset();
    peer.refused.clear();
    peer.wire_due = false;
    // UCT gives back what is posted.
    peer.endpoint.reset();
    peer.wire.reset();
    while (Operation* const operation = peer.under_way.first()) {
        peer.under_way.remove(operation);
        finish(*operation, operation->status != RWAPI_OK ? operation->status : RWAPI_ERR_PEER);
    }
    while (Operation* const operation = peer.waiting.first()) {
        peer.waiting.remove(operation);
        finish(*operation, RWAPI_ERR_PEER);
    }
}

int Engine::close() {
    // Only for dead peers is there a limit: others may compute for hours before they come here.
    std::optional<Clock::time_point> end;
    const auto pause = [&] {
        if (progress() == 0) std::this_thread::yield();
        if (any_dead_ && !end) end = Clock::now() + std::chrono::seconds(patience_);
        return !end || Clock::now() < *end;
    };
    int result = RWAPI_OK;
    std::vector<uint32_t> nodes;
    for (const auto& [node, peer] : peers_) nodes.push_back(node);
    for (const uint32_t node : nodes) {
        rwapi_id id;
        while ((id = flush(node, true)) == RWAPI_ERR_AGAIN && pause()) {
        }
        while (id > 0 && test(id) == 0 && pause()) {
        }
        if (id == RWAPI_ERR_AGAIN || (id > 0 && test(id) == 0)) result = RWAPI_ERR_TIMEOUT;
    }
    if (result != RWAPI_OK)
        log_error(
            "a peer has died, and writes to others are not complete after %llu s "
            "(RWAPI_FINALIZE_TIMEOUT)",
            static_cast<unsigned long long>(patience_));
    const auto barrier = std::make_shared<Barrier>();
    barrier->bootstrap = bootstrap_;
    try {
        std::thread([barrier] {
            barrier->bootstrap->barrier();
            barrier->over.store(true, std::memory_order_release);
        }).detach();
    } catch (const std::exception&) {
        return RWAPI_ERR_MEMORY;
    }
    while (!barrier->over.load(std::memory_order_acquire)) {
        if (!pause()) return result;
    }
    // A barrier that fails has been reported; peers that have died are no failure of this process.
    return result;
}

Engine::~Engine() {
    // Completions of what is still posted come while endpoints are destroyed.
    for (const auto& [node, peer] : peers_) {
        peer->endpoint.reset();
        peer->wire.reset();
    }
    remotes_.for_each(
        [this](Remote& remote) { uct_rkey_release(transport_.component(), &remote.rkey); });
    mine_.for_each([this](Mine& mine) { release(mine); });
}

}  // namespace rwapi
