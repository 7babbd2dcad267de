// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/engine/engine.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "rwapi/base/log.h"
#include "rwapi/base/settings.h"

namespace rwapi {
namespace {

// 0: the system has no random numbers.
uint64_t next_incarnation() {
    static std::atomic<uint64_t> number{0};
    const auto take_random = [] {
        uint64_t random = 0;
        return getrandom(&random, sizeof random, 0) == sizeof random ? random : 0;
    };
    static const uint64_t process = take_random();
    const uint64_t random = take_random();
    if (process == 0 || random == 0) return 0;
    // A child of fork has its parent's random number. The product's high bits depend on all bits.
    return make_incarnation(random, process * static_cast<uint64_t>(getpid()) >> 44, number++);
}

Self make_self(const EngineSettings& settings, const Bootstrap& bootstrap) {
    return {bootstrap.rank(), bootstrap.size(), next_incarnation(), settings.slots,
            settings.credit};
}

}  // namespace

Engine::Engine(const EngineSettings& settings, IdRanges& ids, std::unique_ptr<Bootstrap> bootstrap)
    : bootstrap_(std::move(bootstrap)),
      self_(make_self(settings, *bootstrap_)),
      deaths_end_waits_(settings.on_peer_death == RWAPI_DEATH_REPORT),
      sleeper_(transport_, settings.threads),
      peers_(self_, sleeper_),
      connector_(self_, *bootstrap_, transport_, peers_),
      failures_(transport_, peers_),
      regions_(self_, transport_),
      remotes_(self_, transport_, regions_, peers_),
      notifications_(self_, regions_, peers_),
      small_(self_, peers_),
      posting_(self_, transport_),
      operations_(ids, settings.operations, transport_, remotes_, peers_),
      sequencer_(peers_, connector_, operations_, posting_, remotes_, small_),
      flushes_(self_, peers_, operations_, sequencer_),
      collectives_(self_, transport_, connector_, peers_, remotes_) {}

Engine::~Engine() {
    // UCT calls the completions of what is still posted.
    peers_.close_endpoints();
    remotes_.remove_all();
    regions_.remove_all();
}

// Also a process that fails takes part in the exchange, so that the others do not wait for it.
int Engine::open() {
    const int error = open_transport();
    if (error == RWAPI_OK) return connector_.publish();
    connector_.publish_nothing();
    return error;
}

int Engine::open_transport() {
    if (self_.rank >= self_.size || self_.size - 1 > NetAddress::kMaxNode || self_.incarnation == 0)
        return RWAPI_ERR_START;
    if (!operations_.has_ids()) return RWAPI_ERR_MEMORY;
    if (!read_setting("RWAPI_FINALIZE_TIMEOUT", 0, 1'000'000, close_timeout_s_))
        return RWAPI_ERR_INVALID;
    TransportEvents events{};
    events.on_error = Peers::on_endpoint_error;
    events.on_error_argument = &peers_;
    events.on_message[kSmallMessage] = handler_of<&SmallMessages::on_small>(small_);
    events.on_message[kCreditMessage] = handler_of<&SmallMessages::on_credit>(small_);
    events.on_message[kGoodbye] = handler_of<&SmallMessages::on_goodbye>(small_);
    events.on_message[kNotificationMessage] =
        handler_of<&Notifications::on_notification>(notifications_);
    events.on_message[kStaleRegion] = handler_of<&Notifications::on_stale_region>(notifications_);
    events.on_message[kKeyRequest] = handler_of<&RemoteRegions::on_request>(remotes_);
    events.on_message[kKeyAnswer] = handler_of<&RemoteRegions::on_answer>(remotes_);
    events.on_message[kGatheredPart] = handler_of<&Collectives::on_part>(collectives_);
    events.on_wireup = handler_of<&Connector::on_wireup>(connector_);
    if (const int error = transport_.open(events, sleeper_.threads())) return error;
    collectives_.open();
    return posting_.open();
}

unsigned Engine::progress() {
    // What this call takes would make no event for another thread that sleeps.
    sleeper_.wake();
    unsigned events = transport_.progress();
    if (connector_.has_wireups()) [[unlikely]]
        connector_.process_wireups();
    if (peers_.has_work()) serve_peers();
    if (peers_.has_failed()) [[unlikely]]
        events += end_failed_peers();
    collectives_.on_progress();
    failures_.on_progress();
    return events;
}

void Engine::serve_peers() {
    peers_.serve([this](Peer& peer) { return serve(peer); });
    if (flushes_.has_waiting()) flushes_.start_parts();
}

// Sends and posts what waits for a peer. Returns whether more is left.
bool Engine::serve(Peer& peer) {
    if (peer.failed) return false;
    if (!connector_.connect(peer) || peer.failed) return false;
    if (!send_control(peer)) return true;
    return sequencer_.post_waiting(peer) || (!peer.failed && peer.connection.wireup_due);
}

// Sends the messages of rwapi itself that are due. False: the send queue is full.
bool Engine::send_control(Peer& peer) {
    if (!connector_.send_wireup(peer)) return false;
    if (peer.state != PeerState::kReady || peer.failed) return true;
    return small_.send_credit(peer) && notifications_.send_stale_regions(peer) &&
           remotes_.send_answer(peer) && small_.send_goodbye(peer);
}

int Engine::peer_status(uint32_t node) {
    if (node >= self_.size) return RWAPI_ERR_NODE;
    Peer* const peer = peers_.find(node);
    if (peer == nullptr) return RWAPI_OK;
    failures_.probe(*peer);
    if (peer->failed) {
        if (!peer->death_told && peer->state == PeerState::kDead) --untold_deaths_;
        peer->death_told = true;
        return RWAPI_ERR_PEER;
    }
    return peer->left ? 1 : RWAPI_OK;
}

int Engine::bereaved() const {
    return peers_.none_left() || (deaths_end_waits_ && untold_deaths_ != 0) ? RWAPI_ERR_PEER
                                                                            : RWAPI_OK;
}

int Engine::arm() {
    failures_.probe_if_due();
    // What waits for room, or is to be sent, makes no event: progress must go on.
    if (peers_.has_failed() || connector_.has_wireups() || flushes_.has_waiting() ||
        peers_.has_own_work())
        return RWAPI_ERR_BUSY;
    switch (transport_.arm()) {
        case UCS_OK:
            sleeper_.on_armed();
            return RWAPI_OK;
        case UCS_ERR_BUSY:
            return RWAPI_ERR_BUSY;
        case UCS_ERR_UNSUPPORTED:
            return RWAPI_ERR_UNSUPPORTED;
        default:
            return RWAPI_ERR_TRANSPORT;
    }
}

}  // namespace rwapi
