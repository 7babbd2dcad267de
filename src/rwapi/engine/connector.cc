// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/engine/connector.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "rwapi/base/log.h"
#include "rwapi/core/messages.h"
#include "rwapi/core/net.h"

namespace rwapi {
namespace {

// What a process without a transport publishes.
constexpr std::byte kNoTransport{0};

// UCT is not told the length of a part. It reads what it expects, so it gets zeros behind a part
// that is too short.
std::vector<std::byte> with_room(std::vector<std::byte>& part) {
    part.resize(PublishedAddress::kMostOfPart);
    return std::move(part);
}

}  // namespace

PublishedAddress Connector::own_address() const {
    const InterfaceAddress address = transport_.address();
    const InterfaceAddress wireup = transport_.wireup_address();
    PublishedAddress own{{}, {address.device, address.interface, wireup.device, wireup.interface}};
    own.header.slots = self_.slots;
    own.header.incarnation = self_.incarnation;
    own.header.credit = static_cast<uint16_t>(self_.credit);
    transport_.transport().copy(own.header.transport.data(), own.header.transport.size() - 1);
    return own;
}

int Connector::publish() {
    if (const int error = bootstrap_.publish(own_address().pack())) return error;
    return self_.rank == 0 ? RWAPI_OK : compare_transports();
}

void Connector::publish_nothing() {
    (void)bootstrap_.publish(std::span(&kNoTransport, 1));
}

// Processes with different transports cannot communicate, which the program should know before it
// tries.
int Connector::compare_transports() {
    std::vector<std::byte> first;
    if (const int error = bootstrap_.lookup(0, first)) return error;
    PublishedAddress address;
    // If node 0 has no transport or another version, this concerns only calls with that node.
    if (!address.unpack(first) || transport_.transport() == address.header.transport.data())
        return RWAPI_OK;
    log_other_transport(0, address.header);
    return RWAPI_ERR_TRANSPORT;
}

void Connector::log_other_transport(uint32_t node, const AddressHeader& header) const {
    log_error("node %u uses the transport %s, this process %s: set RWAPI_TLS", node,
              header.transport.data(), transport_.transport().c_str());
}

int Connector::look_up(Peer& peer) {
    Connection& connection = peer.connection;
    if (peer.failed) return RWAPI_ERR_PEER;
    if (connection.address_known) return RWAPI_OK;
    const auto refuse = [&](ucs_status_t status) {
        peers_.mark_failed(peer, status);
        return RWAPI_ERR_PEER;
    };
    std::vector<std::byte> published;
    if (const int error = bootstrap_.lookup(peer.node, published)) return error;
    if (published.size() == 1 && published[0] == kNoTransport) {
        log_error("node %u has no transport: its own messages say why", peer.node);
        return refuse(UCS_ERR_UNREACHABLE);
    }
    PublishedAddress address;
    if (!address.unpack(published)) {
        log_error(
            "node %u has published an address of another version: use the same librwapi for all "
            "processes",
            peer.node);
        return refuse(UCS_ERR_INVALID_ADDR);
    }
    if (transport_.transport() != address.header.transport.data()) {
        log_other_transport(peer.node, address.header);
        return refuse(UCS_ERR_UNREACHABLE);
    }
    if (!address.fits(own_address())) {
        log_error("the launcher returns a damaged address of node %u: start the job again",
                  peer.node);
        return refuse(UCS_ERR_INVALID_ADDR);
    }
    connection.address = {with_room(address.parts[0]), with_room(address.parts[1])};
    connection.wireup_address = {with_room(address.parts[2]), with_room(address.parts[3])};
    connection.incarnation = address.header.incarnation;
    connection.address_known = true;
    peer.sender.open(address.header.credit);
    return RWAPI_OK;
}

int Connector::check(const rwapi_net& net) {
    const uint32_t node = NetAddress::unpack(net).node;
    if (node >= self_.size) return RWAPI_ERR_FOREIGN;
    uint64_t incarnation = self_.incarnation;
    if (node != self_.rank) {
        Peer& peer = peers_.at(node);
        if (const int error = look_up(peer)) return error;
        incarnation = peer.connection.incarnation;
    }
    return NetAddress::made_by(incarnation, net) ? RWAPI_OK : RWAPI_ERR_FOREIGN;
}

bool Connector::connect(Peer& peer) {
    if (peer.state != PeerState::kNew) return true;
    if (look_up(peer) != RWAPI_OK) return false;
    Connection& connection = peer.connection;
    if (transport_.needs_wireup() && peer.node == self_.rank) {
        // For atomic operations: no message goes this way.
        connection.endpoint = transport_.create_unconnected();
        if (connection.endpoint &&
            transport_.connect_to(connection.endpoint, connection.address,
                                  transport_.address_of(connection.endpoint)) != UCS_OK)
            connection.endpoint.reset();
        peer.set_state(PeerState::kReady);
    } else if (transport_.needs_wireup()) {
        connection.endpoint = transport_.create_unconnected();
        connection.wireup_endpoint = transport_.connect_wireup(connection.wireup_address);
        connection.wireup_due = true;
        peer.set_state(PeerState::kWireup);
        if (!connection.wireup_endpoint) peers_.mark_failed(peer, UCS_ERR_UNREACHABLE);
    } else {
        connection.endpoint = transport_.connect(connection.address);
        peer.set_state(PeerState::kReady);
    }
    if (!connection.endpoint) peers_.mark_failed(peer, UCS_ERR_UNREACHABLE);
    log_debug("node %u: %s", peer.node,
              peer.state == PeerState::kReady ? "connected" : "wireup begins");
    peers_.add_work(peer);
    return true;
}

bool Connector::send_wireup(Peer& peer) {
    Connection& connection = peer.connection;
    if (!connection.wireup_due) return true;
    std::array<std::byte, 64> body{};
    const std::vector<std::byte> own = transport_.address_of(connection.endpoint);
    const size_t length = std::min(sizeof self_.incarnation + own.size(), body.size());
    std::memcpy(body.data(), &self_.incarnation, sizeof self_.incarnation);
    std::memcpy(body.data() + sizeof self_.incarnation, own.data(),
                length - sizeof self_.incarnation);
    const Header header{self_.rank, 0, connection.connected, 0};
    const ucs_status_t status =
        uct_ep_am_short(connection.wireup_endpoint.get(), kWireupMessage, header.pack(),
                        body.data(), static_cast<unsigned>(length));
    if (status == UCS_ERR_NO_RESOURCE) return false;
    connection.wireup_due = false;
    if (status != UCS_OK) peers_.mark_failed(peer, status);
    return true;
}

void Connector::on_wireup(std::span<const std::byte> message) {
    Wireup wireup;
    Header header;
    constexpr size_t kFixed = sizeof header + sizeof wireup.incarnation;
    if (message.size() < kFixed ||
        peers_.sender_of(message.first(kFixed), header, wireup.incarnation) == nullptr)
        return;
    wireup.node = header.node;
    wireup.connected = header.kind != 0;
    wireup.endpoint.assign(message.begin() + kFixed, message.end());
    wireups_.push_back(std::move(wireup));
}

void Connector::process_wireups() {
    std::vector<Wireup> wireups;
    wireups.swap(wireups_);
    for (const Wireup& wireup : wireups) process(wireup);
}

void Connector::process(const Wireup& wireup) {
    Peer& peer = peers_.at(wireup.node);
    Connection& connection = peer.connection;
    if (!connect(peer) || peer.failed || peer.state == PeerState::kReady) return;
    // A process of an earlier job may have had this number, in a fabric that still exists.
    if (wireup.incarnation != connection.incarnation) return;
    if (!connection.connected) {
        const ucs_status_t status =
            transport_.connect_to(connection.endpoint, connection.address, wireup.endpoint);
        if (status != UCS_OK) {
            peers_.mark_failed(peer, status);
            return;
        }
        connection.connected = true;
        connection.wireup_due = true;
    }
    if (wireup.connected) connection.peer_connected = true;
    if (connection.peer_connected) {
        peer.set_state(PeerState::kReady);
        log_debug("node %u: connected", peer.node);
    }
    peers_.add_work(peer);
}

}  // namespace rwapi
