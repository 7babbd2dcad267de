// SPDX-License-Identifier: BSD-3-Clause
#include "tern/connection/probes.h"

#include <algorithm>

#include "tern/base/trace.h"

namespace tern {

void Probes::begin(const PeerAddress& peer, void* cookie, uint64_t now, bool gone) {
    for (const Probe& probe : probes_)
        if (probe.cookie == cookie) return;
    probes_.push_back({peer, now, gone ? now : now + times_.probe_limit, cookie});
}

void Probes::forget(void* cookie) {
    std::erase_if(probes_, [&](const Probe& probe) { return probe.cookie == cookie; });
    std::erase(unanswered_, cookie);
}

template <class Match>
void Probes::give_up(Match&& match) {
    std::erase_if(probes_, [&](const Probe& probe) {
        if (!match(probe)) return false;
        unanswered_.push_back(probe.cookie);
        return true;
    });
}

void Probes::on_unreachable(const PortAddress& port) {
    give_up([&](const Probe& probe) { return probe.peer.port == port; });
}

void Probes::on_left(const PeerAddress& peer) {
    give_up([&](const Probe& probe) { return probe.peer.has_interface_of(peer); });
}

void Probes::on_alive(const PeerAddress& peer) {
    std::erase_if(probes_, [&](const Probe& probe) { return probe.peer.has_interface_of(peer); });
}

void Probes::tick(uint64_t now) {
    for (Probe& probe : probes_) {
        if (now > probe.next) probe.limit += now - probe.next;  // as in Handshake::tick()
        if (now >= probe.limit) {
            TERN_DEBUG("%s does not answer a probe", probe.peer.to_string().c_str());
        } else if (now >= probe.next) {
            ping(probe.peer);
            probe.next = now + times_.retry_most;
        }
    }
    give_up([&](const Probe& probe) { return now >= probe.limit; });
}

void Probes::ping(const PeerAddress& peer) {
    Packet packet;
    packet.type = PacketType::kPing;
    packet.from = self_;
    packet.to = peer.interface;
    datagrams_.send(packet, peer.port);
}

uint64_t Probes::deadline() const {
    uint64_t deadline = UINT64_MAX;
    for (const Probe& probe : probes_) deadline = std::min({deadline, probe.next, probe.limit});
    return deadline;
}

bool Probes::take_unanswered(void*& cookie) {
    if (unanswered_.empty()) return false;
    cookie = unanswered_.back();
    unanswered_.pop_back();
    return true;
}

}  // namespace tern
