// SPDX-License-Identifier: BSD-3-Clause
#include "bench/scale/process.h"

#include <algorithm>
#include <bit>
#include <deque>

#include "tern/connection/handshake.h"
#include "tern/engine/channel.h"

namespace bench::scale {

namespace {

constexpr uint64_t kBegin = 1'000'000;  // ns; 0 means "not yet" to the transport
// A longer message is announced by a short one.
constexpr uint32_t kAnnouncement = 64;

uint64_t record_bytes(uint32_t places) {
    return sizeof(tern::Channel) + std::bit_ceil(places) * sizeof(tern::SendQueue::Record);
}

tern::PeerAddress address(uint32_t number) {
    tern::PeerAddress address;
    address.port.has_lid = true;
    address.port.lid = static_cast<uint16_t>(number);
    address.interface = {.qp_num = number, .instance = number};
    return address;
}

}  // namespace

HandshakePackets count_packets() {
    using tern::Handshake;
    constexpr uint64_t kForever = 1'000'000'000'000;
    const tern::HandshakeTimes times{.retry_first = kForever,
                                     .retry_most = kForever,
                                     .connect_limit = kForever,
                                     .disconnect_limit = kForever};
    Handshake sides[] = {{1, address(1), address(2), {.qp_num = 1}, times},
                         {2, address(2), address(1), {.qp_num = 2}, times}};
    struct Flight {
        int to;
        uint32_t trip;
        tern::Packet packet;
    };
    std::deque<Flight> flights;
    HandshakePackets count;
    const auto act = [&](int side, uint32_t trip, const Handshake::Actions& actions) {
        if (actions.send) flights.push_back({1 - side, trip + 1, actions.packet});
        if (side == 0 && actions.established) count.trips = trip;
        if (!actions.drain) return;
        const Handshake::Actions drained = sides[side].drained({});
        if (drained.send) flights.push_back({1 - side, trip + 1, drained.packet});
    };
    const auto run = [&](uint32_t& packets) {
        for (; !flights.empty(); ++packets) {
            const Flight flight = flights.front();
            flights.pop_front();
            act(flight.to, flight.trip, sides[flight.to].receive(flight.packet, 0));
        }
    };
    act(0, 0, sides[0].connect(0));
    run(count.connect);
    sides[0].be_patient(true);
    act(0, 0, sides[0].disconnect(0, {}));
    run(count.end);
    return count;
}

// The table, for IdleChoice.
class Process::Rows {
  public:
    Rows(const std::vector<Peer*>& rows, uint64_t now) : rows_(rows), now_(now) {}
    size_t size() const { return rows_.size(); }
    Peer* row(size_t i) const {
        return rows_[i] != nullptr && rows_[i]->up_at <= now_ ? rows_[i] : nullptr;
    }
    static tern::ConnectionUse& use(Peer& peer) { return peer.use; }
    static tern::ConnectionUse::Counts counts(Peer& peer) {
        (void)peer.their_use.changes_to(their_counts(peer));
        return Process::counts(peer);
    }
    static bool may_end(const Peer&) { return true; }

  private:
    const std::vector<Peer*>& rows_;
    uint64_t now_;
};

Process::Process(const tern::EngineSettings& settings, const Times& times, uint32_t ranks)
    : times_(times),
      connect_time_(2 * times.setup + count_packets().trips * times.packet),
      choice_(settings.connections),
      ended_last_(choice_.remembers()),
      queues_(settings),
      blocks_(settings),
      registered_(Queues::registered(settings)),
      peers_(ranks),
      now_(kBegin) {}

void Process::handle(const Message& message) {
    now_ = std::max(now_ + times_.step, kBegin + message.time);
    for (uint32_t i = 0; i < times_.looks; ++i) look();
    Peer& peer = connected(message.peer);
    ++outcome_.messages;
    outcome_.sum += live_;
    if (peer.up_at > now_) ++outcome_.delayed;
    if (!message.received) {
        ++peer.sent;
        return post(peer.sends);
    }
    post(peer.theirs);
    ++outcome_.received;
    const bool is_short = message.bytes <= tern::EngineSettings{}.segment_size;
    if (blocks_.take(peer, is_short ? message.bytes : kAnnouncement)) ++outcome_.hot;
}

Peer& Process::connected(uint32_t rank) {
    std::unique_ptr<Peer>& place = peers_[rank];
    if (place == nullptr) place = std::make_unique<Peer>();
    Peer& peer = *place;
    peer.rank = rank;
    if (peer.connected) return peer;
    ++outcome_.connects;
    if (peer.met) ++outcome_.reconnects;
    if (choice_.is_over(live_)) choice_.on_begin(ended_last_.erase(address(rank)), now_);
    peer.met = peer.connected = true;
    peer.up_at = now_ + connect_time_;
    peer.places = queues_.make();
    peer.sends.open(peer.places);
    peer.theirs.open(peer.places);
    if (free_rows_.empty()) {
        peer.row = static_cast<uint32_t>(rows_.size());
        rows_.push_back(&peer);
    } else {
        peer.row = free_rows_.back();
        free_rows_.pop_back();
        rows_[peer.row] = &peer;
    }
    outcome_.most = std::max(outcome_.most, ++live_);
    records_ += record_bytes(peer.places);
    outcome_.record_bytes = std::max(outcome_.record_bytes, records_);
    return peer;
}

void Process::end(Peer& peer) {
    blocks_.forget(peer);
    queues_.destroy(peer.places);
    records_ -= record_bytes(peer.places);
    rows_[peer.row] = nullptr;
    free_rows_.push_back(peer.row);
    --live_;
    if (choice_.is_over(live_)) ended_last_.insert(address(peer.rank));
    peer = {.rank = peer.rank, .met = true};
}

void Process::look() {
    if (!choice_.is_over(live_)) return;
    Peer* const peer = choice_.choose(Rows(rows_, now_), live_, now_);
    if (peer == nullptr) return;
    if (spares(peer->their_use, their_counts(*peer), peer->theirs) ||
        spares(peer->use, counts(*peer), peer->sends))
        end(*peer);
}

bool Process::spares(tern::ConnectionUse& use, const tern::ConnectionUse::Counts& counts,
                     tern::SendQueue& sends) {
    if (use.changes_to(counts)) return false;
    if (sends.idle()) return true;
    // An empty write reports the others, and counts as no use.
    sends.posted(true, false);
    sends.complete(sends.next() - 1);
    use.counts.sent = sends.next();
    return false;
}

// What is signaled is complete before the next message.
void Process::post(tern::SendQueue& sends) {
    const bool signal = sends.signal_due();
    sends.posted(signal, true);
    if (signal) sends.complete(sends.next() - 1);
}

tern::ConnectionUse::Counts Process::counts(const Peer& peer) {
    return {.sent = peer.sends.next(),
            .window = peer.activity.window,
            .received = peer.activity.messages};
}

tern::ConnectionUse::Counts Process::their_counts(const Peer& peer) {
    return {.sent = peer.theirs.next(), .window = 0, .received = peer.sent};
}

Outcome Process::outcome() const {
    Outcome outcome = outcome_;
    outcome.offers = blocks_.offered();
    outcome.queue_bytes = std::max(queues_.most(), queues_.bytes());
    outcome.registered_bytes = registered_ + blocks_.registered_most();
    return outcome;
}

}  // namespace bench::scale
