// SPDX-License-Identifier: BSD-3-Clause

// Construction and destruction, completions, flushes, and frames from peers.

#include "tupleq/xrc/tupleq.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "connection/little_endian.h"
#include "engine/engine_send.h"

namespace tern {

TupleQ::TupleQ(const verbs::Port& port, Engine& engine, Rendezvous& rendezvous, Regions& regions,
               PinCache& pins, PostedReceives& posted, const TupleQSettings& settings,
               TupleQOwner& owner)
    : port_(port),
      engine_(engine),
      rendezvous_(rendezvous),
      regions_(regions),
      pins_(pins),
      settings_(settings),
      owner_(owner),
      grants_(engine.pd(),
              size_t{settings.tuples} * (TupleSender::words(settings.depth) + 1) * sizeof(uint64_t),
              IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ),
      pool_(engine.pd(), settings.copy_most, settings.sends),
      senders_(reinterpret_cast<uint64_t*>(grants_.data()), settings.tuples, settings.depth),
      routes_(settings.tuples),
      table_(posted, *this),
      matcher_(table_, settings.tuples, settings.depth),
      policy_(settings.policy, settings.tuples),
      taken_(settings.tuples),
      places_(size_t{settings.tuples} * settings.depth) {}

std::unique_ptr<TupleQ> TupleQ::create(const verbs::Device& device, const verbs::Port& port,
                                       Engine& engine, Rendezvous& rendezvous, Regions& regions,
                                       PinCache& pins, PostedReceives& posted,
                                       const TupleQSettings& settings, TupleQOwner& owner,
                                       std::string& why) {
    const TupleQSettings fit = settings.within(device.attributes);
    if (fit.tuples == 0) {
        why = device.name() + " has no room for a single tuple";
        return nullptr;
    }
    std::unique_ptr<TupleQ> tupleq(
        new TupleQ(port, engine, rendezvous, regions, pins, posted, fit, owner));
    if (!tupleq->open(device, why)) return nullptr;
    if (fit.tuples != settings.tuples || fit.depth != settings.depth)
        owner.warn("the device holds less than UCX_TERN_TM_TUPLES and UCX_TERN_TM_DEPTH ask for: " +
                   std::to_string(fit.tuples) + " tuples of " + std::to_string(fit.depth) +
                   " receives are used");
    return tupleq;
}

bool TupleQ::open(const verbs::Device& device, std::string& why) {
    const auto refuse = [&](const char* what) {
        why = std::string(what) + ": " + strerror(errno);
        return false;
    };
    max_cqe_ = static_cast<uint32_t>(device.attributes.max_cqe);
    if (!grants_) return refuse("cannot register memory for grants");
    domain_ = verbs::XrcDomain::open(device, why);
    if (!domain_) return false;
    // Room for the loop-back link and one other link.
    if (!completions_.open(port_.context, static_cast<uint32_t>(settings_.completions(2)),
                           engine_.events()))
        return refuse("cannot create a completion queue");
    queues_ = std::make_unique<XrcQueues>(engine_.pd(), *domain_, completions_, settings_.depth,
                                          settings_.tuples);
    if (queues_->wake_fd() < 0) return refuse("cannot create an event descriptor");
    engine_.watch(queues_->wake_fd());
    return true;
}

// Gives up sends under way: queue pairs are destroyed before the memory is released.
TupleQ::~TupleQ() {
    loopback_end_.reset();
    for (const auto& link : links_) {
        if (!link) continue;
        link->close();
        while (!link->idle()) {
            const TupleSend send = link->take();
            if (send.pin != nullptr) pins_.release(send.pin);
        }
    }
    // Another thread may be stopping a queue; destroy() waits for that thread.
    for (uint32_t i = 0; queues_ && i < settings_.tuples; ++i) queues_->destroy(i);
    for (Prepared& place : places_) release(place);
}

TupleQ::Peer& TupleQ::peer_of(Channel& channel) {
    if (peers_.size() <= channel.index) peers_.resize(channel.index + 1);
    auto& peer = peers_[channel.index];
    if (!peer) {
        peer = std::make_unique<Peer>();
        peer->channel = &channel;
    }
    return *peer;
}

TupleQ::Peer* TupleQ::find_peer(uint32_t number) const {
    const uint32_t index = work_request_id::index(uint64_t{number} << 32);
    Peer* peer = index < peers_.size() ? peers_[index].get() : nullptr;
    return peer != nullptr && number_of(*peer->channel) == number ? peer : nullptr;
}

void TupleQ::malformed(Channel& channel) {
    engine_.fail(channel, Status::kProtocol, "what it says of direct messages makes no sense");
}

unsigned TupleQ::advance() {
    unsigned count = active_ != 0 ? poll() : 0;
    if (queues_->any_stopped()) [[unlikely]] {
        fail_stopped();
        ++count;
    }
    if (!waiting_.empty()) [[unlikely]]
        count += catch_up();
    if (!requests_.empty()) [[unlikely]]
        count += answer_requests();
    if (!undecided_.empty()) [[unlikely]]
        ask_again();
    if (!flushes_.empty()) [[unlikely]]
        count += progress_flushes();
    return count;
}

unsigned TupleQ::poll() {
    if (broken_) return 0;
    ibv_wc completions[kBurst];
    const int count = completions_.poll(kBurst, completions);
    if (count < 0) [[unlikely]]
        engine_.break_down("its completion queue for direct messages cannot be polled");
    for (int i = 0; i < count; ++i) handle(completions[i]);
    return count > 0 ? static_cast<unsigned>(count) : 0;
}

void TupleQ::handle(const ibv_wc& completion) {
    if (XrcQueues::is_receive(completion.wr_id))
        arrived(completion);
    else
        sent(completion);
}

// Waiting actions and requests need no event here: the completion or frame that they wait for wakes
// the interface.
Status TupleQ::arm() {
    if (completions_.any_kept() || !undecided_.empty()) return Status::kInProgress;
    if (active_ == 0) return Status::kOk;
    if (queues_->forget_wake()) return Status::kInProgress;
    if (ibv_req_notify_cq(completions_.get(), 0) != 0) return Status::kDevice;
    return completions_.keep_late() || queues_->stops_wait() ? Status::kInProgress : Status::kOk;
}

Status TupleQ::flush(Channel& channel, const Waiter& waiter) {
    Peer* peer = find_peer(number_of(channel));
    if (peer == nullptr || (peer->completed == peer->posted && !peer->lost))
        return rendezvous_.flush(channel, waiter);
    if (waiter.cookie != nullptr) flushes_.add(channel, peer->posted, waiter);
    return Status::kInProgress;
}

uint64_t TupleQ::sent(const Channel& channel) const {
    const Peer* peer = find_peer(number_of(channel));
    return peer != nullptr ? peer->posted : 0;
}

bool TupleQ::arrived(const Channel& channel, uint64_t count) const {
    const Peer* peer = find_peer(number_of(channel));
    return peer == nullptr || peer->completed >= count;
}

unsigned TupleQ::progress_flushes() {
    return flushes_.progress(
        [this](Channel& channel, uint64_t until, const Waiter& waiter) {
            const Peer* peer = find_peer(number_of(channel));
            const bool done = peer == nullptr || (peer->completed >= until && !peer->lost);
            return done ? rendezvous_.flush(channel, waiter) : Status::kNoResource;  // see ended()
        },
        owner_);
}

bool TupleQ::control(Channel& channel, uint32_t id, const std::byte* data, uint32_t length) {
    Request request;
    WireBound bound_frame;
    WireClosed closed;
    WireConnect wanted;
    WireConnected answer;
    switch (static_cast<TupleControlId>(id)) {
        case TupleControlId::kBind:
            return unpack(request.bind, data, length) && KeyMask::eligible(request.bind.mask) &&
                   request.bind.node != 0 && request.bind.queue != 0 && requested(channel, request);
        case TupleControlId::kClose:
            request.close = true;
            return unpack(request.unbind, data, length) && request.unbind.reserved == 0 &&
                   (request.unbind.flags & ~WireClose::kUnbind) == 0 && requested(channel, request);
        case TupleControlId::kBound:
            return unpack(bound_frame, data, length) && bound_frame.reserved == 0 &&
                   bound(channel, bound_frame);
        case TupleControlId::kClosed: {
            if (!unpack(closed, data, length) || closed.reserved != 0 ||
                (closed.flags & ~WireClose::kUnbind) != 0)
                return false;
            const bool good = matcher_.closed(
                number_of(channel),
                {closed.tuple, closed.sequence, (closed.flags & WireClose::kUnbind) != 0});
            if (good) {
                lend_void_entries(closed.tuple);
                look_whether_free(closed.tuple);
            }
            act();
            return good;
        }
        case TupleControlId::kConnect:
            return unpack(wanted, data, length) && connect_wanted(channel, wanted);
        case TupleControlId::kConnected:
            return unpack(answer, data, length) && answer.reserved == 0 &&
                   connected(channel, answer);
    }
    return false;
}

// All direct sends to the peer are complete, because they hold the channel until then.
Status TupleQ::ended(Channel& channel, Status status) {
    const uint32_t number = number_of(channel);
    for (const auto& link : links_)
        if (link && link->host == &channel) over(*link);
    policy_.gone(number);
    Peer* peer = find_peer(number);
    if (peer == nullptr) return status;
    // Takes in the messages that the peer sent before it went.
    while (active_ != 0 && poll() != 0) {
    }
    const bool lost = peer->lost;
    std::erase(requests_, &channel);
    std::erase(waiting_, peer);
    senders_.peer_died(number);
    matcher_.peer_died(number);
    for (uint16_t queue = 0; queue < settings_.tuples; ++queue) {
        // Before the owner is told of lost messages, so that none of them comes later.
        if (matcher_.queue(queue).state() == TupleReceiver::State::kBroken) queues_->destroy(queue);
        look_whether_free(queue);
    }
    peers_[channel.index].reset();
    act();
    if (lost && status == Status::kOk) status = Status::kConnectionReset;
    flushes_.ended(channel, status, owner_);
    return status;
}

uint32_t TupleQ::queues_in_use() const {
    uint32_t count = 0;
    for (uint32_t i = 0; i < settings_.tuples; ++i)
        count += matcher_.queue(static_cast<uint16_t>(i)).state() != TupleReceiver::State::kFree;
    return count;
}

}  // namespace tern
