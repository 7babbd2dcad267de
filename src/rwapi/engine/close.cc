// SPDX-License-Identifier: BSD-3-Clause

// The end of a peer, and of the context.

#include <poll.h>

#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "rwapi/base/log.h"
#include "rwapi/engine/engine.h"

namespace rwapi {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kSpinsAtEnd = 1000;  // idle polls before a sleep
constexpr int kSleepAtEndMs = 1;        // the launcher's barrier makes no event

// Sleeps for a short while, or until an event comes.
void nap(Engine& engine) {
    const int fd = engine.event_fd();
    if (fd >= 0 && engine.arm() == RWAPI_ERR_BUSY) return;
    pollfd entry{fd, POLLIN, 0};
    poll(&entry, 1, kSleepAtEndMs);
}

}  // namespace

// Returns the number of peers.
unsigned Engine::end_failed_peers() {
    unsigned count = 0;
    while (Peer* const peer = peers_.take_failed()) {
        end_failed_peer(*peer);
        ++count;
    }
    return count;
}

// Ends all operations of a peer that has failed. Not within UCT's callbacks.
void Engine::end_failed_peer(Peer& peer) {
    log_error("node %u: %s: calls that concern it fail from now on%s", peer.node,
              ucs_status_string(peer.failure),
              peer.connection.address_known
                  ? "; it has died, or a write went to memory that its owner has deregistered"
                  : "");
    peer.set_state(PeerState::kDead);
    if (!peer.death_told) ++untold_deaths_;
    peer.keys.requested.reset();
    peer.stale_names.clear();
    peer.connection.wireup_due = false;
    // UCT calls the completions of what is posted.
    peer.connection.endpoint.reset();
    peer.connection.wireup_endpoint.reset();
    operations_.finish_all(peer);
}

// Waits of the peer that only this process could end are over. If the peer has been heard of, but
// nothing was sent to it, it has a connection already where no wireup is needed.
void Engine::say_goodbye(Peer& peer) {
    if (peer.node == self_.rank) return;
    if (peer.state == PeerState::kNew && peer.heard && !transport_.needs_wireup())
        (void)connector_.connect(peer);
    if (peer.failed || peer.state != PeerState::kReady) return;
    peer.goodbye_due = true;
    peers_.add_work(peer);
}

int Engine::close(bool sleeps) {
    // The time is limited only if a peer has failed: others may compute for hours before they end.
    std::optional<Clock::time_point> end;
    unsigned idle = 0;
    const auto make_progress = [&] {
        idle = progress() == 0 ? idle + 1 : 0;
        if (idle > kSpinsAtEnd && sleeps)
            nap(*this);
        else if (idle > 0)
            std::this_thread::yield();
        if (peers_.any_failed() && !end)
            end = Clock::now() + std::chrono::seconds(close_timeout_s_);
        return !end || Clock::now() < *end;
    };
    int result = RWAPI_OK;
    std::vector<uint32_t> nodes;
    peers_.for_each([&](const Peer& peer) { nodes.push_back(peer.node); });
    for (const uint32_t node : nodes) {
        rwapi_id id;
        while ((id = flushes_.start(Task::kFlush, node, true)) == RWAPI_ERR_AGAIN &&
               make_progress()) {
        }
        while (id > 0 && test(id) == 0 && make_progress()) {
        }
        const int flushed = id <= 0 ? static_cast<int>(id) : test(id);
        if (flushed == RWAPI_ERR_AGAIN || (id > 0 && flushed == 0))
            result = RWAPI_ERR_TIMEOUT;
        else if (flushed < 0 && flushed != RWAPI_ERR_PEER && result == RWAPI_OK)
            result = flushed;
    }
    for (const uint32_t node : nodes) say_goodbye(peers_.at(node));
    if (result == RWAPI_OK) result = operations_.lost_error();
    if (result == RWAPI_ERR_TIMEOUT)
        log_error(
            "a peer has died, and writes to others are not complete after %llu s "
            "(RWAPI_FINALIZE_TIMEOUT)",
            static_cast<unsigned long long>(close_timeout_s_));
    else if (result != RWAPI_OK)
        log_error("operations have failed, and no call has asked for their errors: %s",
                  rwapi_strerror(result));
    // Progress goes on for peers that have not come to the barrier.
    if (const int error = bootstrap_->begin_barrier()) return error;
    int over;
    while ((over = bootstrap_->test_barrier()) == 0) {
        if (make_progress()) continue;
        if (result != RWAPI_OK) return result;
        log_error("not all processes have come to the end within %llu s (RWAPI_FINALIZE_TIMEOUT)",
                  static_cast<unsigned long long>(close_timeout_s_));
        return RWAPI_ERR_TIMEOUT;
    }
    // The barrier itself has logged its failure. Peers that have died are no failure of this
    // process; of the launcher's, it is unknown who has come.
    return over < 0 && over != RWAPI_ERR_PEER && result == RWAPI_OK ? over : result;
}

}  // namespace rwapi
