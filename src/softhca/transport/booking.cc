// SPDX-License-Identifier: BSD-3-Clause
// The requester and the timing model: when requests pass the ports.
#include <algorithm>

#include "softhca/transport/adapter.h"
#include "softhca/transport/execute.h"
#include "softhca/transport/qp.h"
#include "softhca/transport/virtual_ports.h"

namespace softhca {

namespace {

RequestKind kind_of(const Wqe& wqe) {
    if (wqe.opcode == WrOpcode::kRdmaRead) return RequestKind::kRead;
    if (wqe.reads()) return RequestKind::kAtomic;
    if (wqe.opcode == WrOpcode::kRdmaWriteImm) return RequestKind::kWriteImm;
    return wqe.opcode == WrOpcode::kRdmaWrite ? RequestKind::kWrite : RequestKind::kSend;
}

Request request_of(const Wqe& wqe) {
    return {kind_of(wqe), wqe.length, wqe.is_inline, (wqe.flags & send_flag::kFence) != 0};
}

// A port that is locked for booking. Never two at once: who waits for a process that is stopped in
// between keeps no other port from its users.
class LockedPort {
  public:
    LockedPort(Host& host, LinkPair& port) : port_(port) {
        port.lock.lock(host, [&port] { port.clear(); });
    }
    ~LockedPort() { port_.lock.unlock(); }
    LockedPort(const LockedPort&) = delete;
    LockedPort& operator=(const LockedPort&) = delete;

  private:
    LinkPair& port_;
};

// The ports that the data of a request leave, and where they arrive.
class Route {
  public:
    Route(Host& host, Qp& qp, const Wqe& wqe) : slot_(peer_slot(qp, wqe)), guard_(host, slot_) {
        const ResponderAttributes& mine = qp.shared().attributes;
        const uint32_t peer_link = is_datagram(qp) ? wqe.datagram.path.link : mine.peer_link;
        from = &host.links(host.slot())[mine.link];
        to = host.alive(slot_) ? &host.links(slot_)[std::min(peer_link, kMaxLinks - 1)] : from;
        if (wqe.reads()) std::swap(from, to);
    }
    LinkPair* from;
    LinkPair* to;

  private:
    static bool is_datagram(const Qp& qp) { return qp.attributes().type == QpType::kUd; }
    static uint32_t peer_slot(Qp& qp, const Wqe& wqe) {
        if (!is_datagram(qp)) return ObjectNumber::process(qp.shared().attributes.peer_number);
        // The model has one receiver. That of a multicast message is the sender's own port.
        return ObjectNumber::process(wqe.datagram.path.multicast ? qp.number() : wqe.datagram.qp);
    }

    const uint32_t slot_;
    // While it lives, the slot of a peer that dies is not used again, with its ports.
    const AccessGuard guard_;
};

}  // namespace

uint64_t Requester::post_time() const {
    return host_.models_time() ? now_ns() : 0;
}

void Requester::commit(Wqe& wqe, uint64_t post_time) {
    const bool booked = host_.models_time() && !wqe.is_local();
    if (!booked || !is_virtual_time()) wqe.departed = wqe.length;
    if (booked) {
        // Another thread may have posted in between: arrivals keep the order of the queue.
        wqe.posted_at = bookings_.last_posted_at = std::max(bookings_.last_posted_at, post_time);
        if (!is_virtual_time()) book(wqe);
    }
    queue_.commit();
    if (booked && is_virtual_time()) line_up();
}

// In real time: a request passes the ports in one piece, behind those that others have posted.
void Requester::book(Wqe& wqe) {
    const NicParameters& nic = host_.header().config.nic;
    const Request request = request_of(wqe);
    const uint64_t begin = std::max(wqe.posted_at, sent_again_at_.load(std::memory_order_relaxed));
    const Route route(host_, qp_, wqe);
    {
        const LockedPort locked(host_, *route.from);
        wqe.booking = depart(nic, request, bookings_.clock, *route.from, begin);
    }
    const LockedPort locked(host_, *route.to);
    arrive(nic, request, bookings_.clock, *route.to, begin, wqe.booking);
}

// In virtual time: adds to the ports what does not wait for the answers to requests before it.
void Requester::line_up() {
    const NicParameters& nic = host_.header().config.nic;
    for (uint64_t& next = bookings_.lined_up; next != queue_.posted(); ++next) {
        Wqe& wqe = queue_.at(next);
        if (wqe.departed) continue;
        const Request request = request_of(wqe);
        if (!bookings_.clock.may_begin(request)) return;
        const uint64_t begin =
            std::max(wqe.posted_at, sent_again_at_.load(std::memory_order_relaxed));
        const uint64_t ready = bookings_.clock.begin(nic, request, begin);
        const Route route(host_, qp_, wqe);
        const auto part = virtual_ports.add(host_.slot(), *route.from, nic, *this,
                                            {next, request, ready}, now_ns());
        if (part) leave(wqe, *part);
    }
}

void Requester::leave(Wqe& wqe, const Part& part) {
    if (!wqe.departed) wqe.booking.start = part.start;
    const Route route(host_, qp_, wqe);
    arrive(host_.header().config.nic, request_of(wqe), part, bookings_.clock, *route.to, part.start,
           wqe.booking);
    wqe.departed = part.end;
}

void Requester::take_turn(const PortTurns::Packet& packet) {
    Wqe& wqe = queue_.at(packet.position);
    const bool first = !wqe.departed;
    leave(wqe, packet.part);
    if (wqe.has_left()) line_up();
    const uint64_t now = now_ns();
    const std::lock_guard lock(qp_.execute_mutex);
    if (packet.position == executed_ && wait_until_ == kNever) {
        wait_until_ = next_arrival(qp_, wqe);
        if (wait_until_ != kNever) adapter_.engine().schedule_qp(qp_.number(), wait_until_);
    } else if (first && (wqe.reads() || wqe.booking.arrival_begin <= now)) {
        // The peer is told first.
        adapter_.engine().schedule_qp(qp_.number(), now);
    } else if (first || wqe.has_left()) {
        run_scheduled(now);
    }
}

// In virtual time: what has not left the ports does not leave.
void Requester::withdraw() {
    if (!is_virtual_time()) return;
    virtual_ports.drop(*this);
    bookings_.clock.forget();
    bookings_.lined_up = queue_.posted();
}

// A request that is retried at `wait_until_` takes the time of the wire again, and so do those
// behind it, which the responder has ignored. Links are not booked again, but for what has not left
// yet in virtual time.
void Requester::send_again() {
    if (!host_.models_time()) return;
    const Wqe& head = queue_.at(executed_);
    const uint64_t way = head.reads() ? request_ns(host_.header().config.nic, kind_of(head)) : 0;
    const uint64_t sent_at = head.booking.start - way;
    if (wait_until_ <= sent_at) return;
    sent_again_at_.store(wait_until_, std::memory_order_relaxed);
    withdraw();
    const uint64_t end = queue_.posted();
    for (uint64_t i = executed_; i != end; ++i) {
        Wqe& wqe = queue_.at(i);
        if (wqe.is_local() || !wqe.departed) continue;
        wqe.booking = later(wqe.booking, wait_until_ - sent_at);
        wqe.departed = wqe.length;
    }
    if (!is_virtual_time()) return;
    bookings_.lined_up = executed_;
    line_up();
}

}  // namespace softhca
