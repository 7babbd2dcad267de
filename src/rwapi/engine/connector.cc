// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/engine/connector.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "rwapi/base/log.h"
#include "rwapi/core/messages.h"

namespace rwapi {
namespace {

// What a process without a transport publishes.
constexpr std::byte kNoTransport{0};

void append(std::vector<std::byte>& bytes, const std::vector<std::byte>& part) {
    bytes.insert(bytes.end(), part.begin(), part.end());
}

std::vector<std::byte> split_off(std::span<const std::byte>& bytes, size_t length) {
    std::vector<std::byte> part(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length));
    bytes = bytes.subspan(length);
    return part;
}

// Reads the header of a published address. False: it is not one of this version.
bool read_header(std::span<const std::byte> bytes, AddressHeader& header) {
    if (bytes.size() < sizeof header) return false;
    std::memcpy(&header, bytes.data(), sizeof header);
    header.transport.back() = '\0';
    return header.magic == AddressHeader::kMagic &&
           bytes.size() == sizeof header + header.device_length + header.interface_length +
                               header.wireup_device_length + header.wireup_interface_length;
}

}  // namespace

int Connector::publish() {
    const InterfaceAddress address = transport_.address();
    const InterfaceAddress wireup = transport_.wireup_address();
    AddressHeader header{};
    header.magic = AddressHeader::kMagic;
    header.slots = self_.slots;
    header.incarnation = self_.incarnation;
    header.credit = static_cast<uint16_t>(self_.credit);
    header.device_length = static_cast<uint8_t>(address.device.size());
    header.interface_length = static_cast<uint8_t>(address.interface.size());
    header.wireup_device_length = static_cast<uint8_t>(wireup.device.size());
    header.wireup_interface_length = static_cast<uint8_t>(wireup.interface.size());
    transport_.transport().copy(header.transport.data(), header.transport.size() - 1);
    const auto fixed = std::as_bytes(std::span(&header, 1));
    std::vector<std::byte> published(fixed.begin(), fixed.end());
    append(published, address.device);
    append(published, address.interface);
    append(published, wireup.device);
    append(published, wireup.interface);
    if (const int error = bootstrap_.publish(published)) return error;
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
    AddressHeader header{};
    // If node 0 has no transport or another version, this concerns only calls with that node.
    if (!read_header(first, header) || transport_.transport() == header.transport.data())
        return RWAPI_OK;
    log_other_transport(0, header);
    return RWAPI_ERR_TRANSPORT;
}

void Connector::log_other_transport(uint32_t node, const AddressHeader& header) const {
    log_error("node %u uses the transport %s, this process %s: set RWAPI_TLS", node,
              header.transport.data(), transport_.transport().c_str());
}

bool Connector::look_up(Peer& peer) {
    Connection& connection = peer.connection;
    if (connection.address_known) return true;
    std::vector<std::byte> published;
    if (bootstrap_.lookup(peer.node, published) != RWAPI_OK) {
        peers_.mark_failed(peer, UCS_ERR_UNREACHABLE);
        return false;
    }
    AddressHeader header{};
    if (published.size() == 1 && published[0] == kNoTransport) {
        log_error("node %u has no transport: its own messages say why", peer.node);
        peers_.mark_failed(peer, UCS_ERR_UNREACHABLE);
        return false;
    }
    if (!read_header(published, header)) {
        log_error(
            "node %u has published an address of another version: use the same librwapi for all "
            "processes",
            peer.node);
        peers_.mark_failed(peer, UCS_ERR_INVALID_ADDR);
        return false;
    }
    if (transport_.transport() != header.transport.data()) {
        log_other_transport(peer.node, header);
        peers_.mark_failed(peer, UCS_ERR_UNREACHABLE);
        return false;
    }
    auto bytes = std::span<const std::byte>(published).subspan(sizeof header);
    connection.address.device = split_off(bytes, header.device_length);
    connection.address.interface = split_off(bytes, header.interface_length);
    connection.wireup_address.device = split_off(bytes, header.wireup_device_length);
    connection.wireup_address.interface = split_off(bytes, header.wireup_interface_length);
    connection.incarnation = header.incarnation;
    connection.address_known = true;
    peer.sender.open(header.credit);
    return true;
}

void Connector::connect(Peer& peer) {
    if (peer.state != PeerState::kNew || peer.failed || !look_up(peer)) return;
    Connection& connection = peer.connection;
    if (transport_.needs_wireup()) {
        connection.endpoint = transport_.create_unconnected();
        connection.wireup_endpoint = transport_.connect_wireup(connection.wireup_address);
        connection.wireup_due = true;
        peer.state = PeerState::kWireup;
        if (!connection.wireup_endpoint) peers_.mark_failed(peer, UCS_ERR_UNREACHABLE);
    } else {
        connection.endpoint = transport_.connect(connection.address);
        peer.state = PeerState::kReady;
    }
    if (!connection.endpoint) peers_.mark_failed(peer, UCS_ERR_UNREACHABLE);
    log_debug("node %u: %s", peer.node,
              peer.state == PeerState::kReady ? "connected" : "wireup begins");
    peers_.add_work(peer);
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
    if (message.size() < kFixed || !parse(message.first(kFixed), header, wireup.incarnation) ||
        peers_.sender_of(header) == nullptr)
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
    connect(peer);
    if (peer.failed || peer.state == PeerState::kReady) return;
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
        peer.state = PeerState::kReady;
        log_debug("node %u: connected", peer.node);
    }
    peers_.add_work(peer);
}

}  // namespace rwapi
