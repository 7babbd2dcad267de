// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/engine/engine.h"

#include <sys/random.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "rwapi/base/log.h"
#include "rwapi/base/settings.h"

namespace rwapi {
namespace {

constexpr auto kProbeInterval = std::chrono::milliseconds(200);
constexpr uint32_t kTurnsPerClock = 1024;

template <class T>
void append(std::vector<std::byte>& bytes, const T& part) {
    bytes.insert(bytes.end(), part.begin(), part.end());
}

std::vector<std::byte> split_off(std::span<const std::byte>& bytes, size_t length) {
    std::vector<std::byte> part(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length));
    bytes = bytes.subspan(length);
    return part;
}

}  // namespace

Engine::Engine(const EngineSettings& settings, std::shared_ptr<Bootstrap> bootstrap)
    : settings_(settings),
      bootstrap_(std::move(bootstrap)),
      rank_(bootstrap_->rank()),
      size_(bootstrap_->size()),
      mine_(settings.tag.tag, Kind::kMine, settings.tag.used.handles),
      remotes_(settings.tag.tag, Kind::kPeers, settings.tag.used.handles),
      counters_(settings.tag.tag, Kind::kCounter, settings.tag.used.handles),
      slots_(settings.slots),
      operations_(settings.tag.tag, settings.operations, settings.tag.used.operations) {}

Generations Engine::generations() const {
    return {std::max({mine_.highest(), remotes_.highest(), counters_.highest()}),
            operations_.highest()};
}

int Engine::open() {
    if (size_ == 0 || rank_ >= size_ || size_ - 1 > NetAddress::kMaxNode) return RWAPI_ERR_START;
    if (getrandom(&incarnation_, sizeof incarnation_, 0) != sizeof incarnation_)
        return RWAPI_ERR_START;
    const char* notify = std::getenv("RWAPI_NOTIFY");
    if (notify != nullptr && std::strcmp(notify, "flush") == 0) {
        flush_before_notice_ = true;
    } else if (notify != nullptr && std::strcmp(notify, "fence") != 0) {
        log_error("RWAPI_NOTIFY=%s: choose fence or flush", notify);
        return RWAPI_ERR_INVALID;
    }
    if (!read_setting("RWAPI_FINALIZE_TIMEOUT", 0, 1'000'000, patience_)) return RWAPI_ERR_INVALID;
    TransportEvents events{};
    events.argument = this;
    events.on_failure = on_failure;
    events.on_message[kSmallMessage] = on_message<&Engine::on_small>;
    events.on_message[kNoticeMessage] = on_message<&Engine::on_notice>;
    events.on_message[kCreditMessage] = on_message<&Engine::on_credit>;
    events.on_message[kKeyRequest] = on_message<&Engine::on_key_request>;
    events.on_message[kKeyAnswer] = on_message<&Engine::on_key_answer>;
    events.on_message[kRefusal] = on_message<&Engine::on_refusal>;
    if (const int error = transport_.open(events, on_message<&Engine::on_wire>, settings_.threads))
        return error;

    const InterfaceAddress address = transport_.address();
    const InterfaceAddress wire = transport_.wire_address();
    Greeting greeting{};
    greeting.magic = Greeting::kMagic;
    greeting.slots = settings_.slots;
    greeting.incarnation = incarnation_;
    greeting.credit = static_cast<uint16_t>(settings_.credit);
    greeting.device_length = static_cast<uint8_t>(address.device.size());
    greeting.interface_length = static_cast<uint8_t>(address.interface.size());
    greeting.wire_device_length = static_cast<uint8_t>(wire.device.size());
    greeting.wire_interface_length = static_cast<uint8_t>(wire.interface.size());
    transport_.transport().copy(greeting.transport.data(), greeting.transport.size() - 1);
    const auto fixed = std::as_bytes(std::span(&greeting, 1));
    std::vector<std::byte> published(fixed.begin(), fixed.end());
    append(published, address.device);
    append(published, address.interface);
    append(published, wire.device);
    append(published, wire.interface);
    return bootstrap_->publish(published);
}

Peer& Engine::peer_of(uint32_t node) {
    std::unique_ptr<Peer>& peer = peers_[node];
    if (!peer) {
        peer = std::make_unique<Peer>();
        peer->node = node;
        peer->receiver.open(settings_.credit);
    }
    return *peer;
}

// Gets what the peer has published. False: it is of no use, and the peer has failed.
bool Engine::greet(Peer& peer) {
    if (peer.greeted) return true;
    std::vector<std::byte> published;
    if (bootstrap_->lookup(peer.node, published) != RWAPI_OK) {
        mark_failed(peer, UCS_ERR_UNREACHABLE);
        return false;
    }
    Greeting& greeting = peer.greeting;
    std::span<const std::byte> bytes(published);
    if (bytes.size() >= sizeof greeting) std::memcpy(&greeting, bytes.data(), sizeof greeting);
    if (greeting.magic != Greeting::kMagic ||
        bytes.size() != sizeof greeting + greeting.device_length + greeting.interface_length +
                            greeting.wire_device_length + greeting.wire_interface_length) {
        log_error("node %u has published an address of another version: use one librwapi",
                  peer.node);
        mark_failed(peer, UCS_ERR_INVALID_ADDR);
        return false;
    }
    greeting.transport.back() = '\0';
    if (transport_.transport() != greeting.transport.data()) {
        log_error("node %u uses %s, this one %s: set RWAPI_TLS", peer.node,
                  greeting.transport.data(), transport_.transport().c_str());
        mark_failed(peer, UCS_ERR_UNREACHABLE);
        return false;
    }
    bytes = bytes.subspan(sizeof greeting);
    peer.address.device = split_off(bytes, greeting.device_length);
    peer.address.interface = split_off(bytes, greeting.interface_length);
    peer.wire_address.device = split_off(bytes, greeting.wire_device_length);
    peer.wire_address.interface = split_off(bytes, greeting.wire_interface_length);
    peer.sender.open(greeting.credit);
    peer.greeted = true;
    return true;
}

void Engine::connect(Peer& peer) {
    if (peer.state != PeerState::kNew || peer.failed || !greet(peer)) return;
    if (transport_.needs_wire()) {
        peer.endpoint = transport_.create_unconnected();
        peer.wire = transport_.connect_wire(peer.wire_address);
        peer.wire_due = true;
        peer.state = PeerState::kWiring;
        if (!peer.wire) mark_failed(peer, UCS_ERR_UNREACHABLE);
    } else {
        peer.endpoint = transport_.connect(peer.address);
        peer.state = PeerState::kReady;
    }
    if (!peer.endpoint) mark_failed(peer, UCS_ERR_UNREACHABLE);
    make_busy(peer);
}

void Engine::make_busy(Peer& peer) {
    if (peer.busy) return;
    peer.busy = true;
    busy_.push_back(&peer);
}

// Sends what the engines say to each other. False: there is no room now.
bool Engine::send_control(Peer& peer) {
    if (peer.wire_due) {
        std::array<std::byte, 64> body{};
        const std::vector<std::byte> own = transport_.address_of(peer.endpoint);
        const size_t length = std::min(sizeof incarnation_ + own.size(), body.size());
        std::memcpy(body.data(), &incarnation_, sizeof incarnation_);
        std::memcpy(body.data() + sizeof incarnation_, own.data(), length - sizeof incarnation_);
        const Header header{rank_, 0, peer.connected, 0};
        const ucs_status_t status = uct_ep_am_short(peer.wire.get(), kWireMessage, header.pack(),
                                                    body.data(), static_cast<unsigned>(length));
        if (status == UCS_ERR_NO_RESOURCE) return false;
        peer.wire_due = false;
        if (status != UCS_OK) mark_failed(peer, status);
    }
    if (peer.state != PeerState::kReady || peer.failed) return true;
    if (peer.receiver.due()) {
        const auto credit = static_cast<uint16_t>(peer.receiver.owed());
        const Header header{rank_, credit, 0, 0};
        const ucs_status_t status =
            uct_ep_am_short(peer.endpoint.get(), kCreditMessage, header.pack(), nullptr, 0);
        if (status == UCS_ERR_NO_RESOURCE) return false;
        peer.receiver.gave(credit);
        if (status != UCS_OK) mark_failed(peer, status);
    }
    while (!peer.refused.empty()) {
        const Header header{rank_, 0, 0, 0};
        const ucs_status_t status =
            uct_ep_am_short(peer.endpoint.get(), kRefusal, header.pack(), &peer.refused.back(),
                            sizeof peer.refused.back());
        if (status == UCS_ERR_NO_RESOURCE) return false;
        peer.refused.pop_back();
        if (status != UCS_OK) mark_failed(peer, status);
    }
    if (peer.key_wanted) {
        struct Answer {
            Header header;
            uint64_t name;
            Key key;
            bool found;
        } answer{{rank_, 0, 0, 0}, *peer.key_wanted, {}, false};
        answer.found = key_of(answer.name, answer.key);
        const auto pack = [](void* to, void* from) -> size_t {
            const Answer& what = *static_cast<const Answer*>(from);
            constexpr size_t kFixed = sizeof what.header + sizeof what.name;
            auto* bytes = static_cast<std::byte*>(to);
            std::memcpy(bytes, &what.header, sizeof what.header);
            std::memcpy(bytes + sizeof what.header, &what.name, sizeof what.name);
            if (!what.found) return kFixed;
            return kFixed + what.key.pack(std::span(bytes + kFixed, RWAPI_KEY_MAX));
        };
        const ssize_t sent = uct_ep_am_bcopy(peer.endpoint.get(), kKeyAnswer, pack, &answer, 0);
        if (sent == UCS_ERR_NO_RESOURCE) return false;
        peer.key_wanted.reset();
        if (sent < 0) mark_failed(peer, static_cast<ucs_status_t>(sent));
    }
    return true;
}

// Moves on what waits. True: there is more to do later.
bool Engine::drain(Peer& peer) {
    if (peer.failed) return false;
    if (peer.state == PeerState::kNew) connect(peer);
    if (peer.failed) return false;
    if (!send_control(peer)) return true;
    while (peer.state == PeerState::kReady && !peer.failed) {
        Operation* const operation = peer.waiting.first();
        if (operation == nullptr) return false;
        if (advance(*operation) == Step::kBlocked) return true;
    }
    return !peer.failed && (!peer.waiting.empty() || peer.wire_due);
}

unsigned Engine::progress() {
    if (armed_) [[unlikely]] {
        // Another thread sleeps; what comes now may be taken here, and makes no event.
        armed_ = false;
        transport_.wake();
    }
    unsigned events = transport_.progress();
    if (!wires_.empty()) take_wires();
    if (!busy_.empty()) {
        // drain() may add peers.
        draining_.swap(busy_);
        for (Peer* peer : draining_) {
            peer->busy = false;
            if (drain(*peer)) make_busy(*peer);
        }
        draining_.clear();
        if (!flushing_.empty()) begin_flushes();
    }
    while (!failed_.empty()) {
        Peer& peer = *failed_.back();
        failed_.pop_back();
        bury(peer);
        ++events;
    }
    if (++turns_ % kTurnsPerClock == 0) probe_if_due();
    return events;
}

void Engine::probe_if_due() {
    const Clock::time_point now = Clock::now();
    if (now - probed_ < kProbeInterval) return;
    probed_ = now;
    for (const auto& [node, peer] : peers_) probe(*peer);
}

// Has the transport look whether a peer in use is alive; on_failure hears of it.
void Engine::probe(Peer& peer) {
    if (peer.failed) return;
    ucs_status_t status = UCS_OK;
    if (peer.state == PeerState::kReady && transport_.can_check())
        status = uct_ep_check(peer.endpoint.get(), 0, nullptr);
    else if (peer.state == PeerState::kWiring && peer.wire && transport_.can_check_wire())
        status = uct_ep_check(peer.wire.get(), 0, nullptr);
    if (status < 0 && status != UCS_ERR_NO_RESOURCE) mark_failed(peer, status);
}

int Engine::peer_status(uint32_t node) {
    if (node >= size_) return RWAPI_ERR_NODE;
    const auto found = peers_.find(node);
    if (found == peers_.end()) return RWAPI_OK;
    Peer& peer = *found->second;
    probe(peer);
    return peer.failed ? RWAPI_ERR_PEER : RWAPI_OK;
}

int Engine::arm() {
    probe_if_due();
    // What waits for room, or is to be sent, is seen to by progress only. Wiring waits for the
    // peer.
    if (!failed_.empty() || !wires_.empty() || !flushing_.empty()) return RWAPI_ERR_BUSY;
    for (const Peer* peer : busy_) {
        if (peer->state != PeerState::kWiring || peer->wire_due) return RWAPI_ERR_BUSY;
    }
    switch (transport_.arm()) {
        case UCS_OK:
            armed_ = settings_.threads == RWAPI_THREAD_MULTIPLE;
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
