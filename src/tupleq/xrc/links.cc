// SPDX-License-Identifier: BSD-3-Clause

// XRC links, and the answers of this side as the sender of tuples. Control path.

#include <algorithm>
#include <cerrno>

#include "engine/engine_send.h"
#include "tupleq/xrc/tupleq.h"

namespace tern {

namespace {

constexpr uint32_t kMostNumber = 0xffffff;  // largest queue pair or packet number

}  // namespace

// Makes room in the completion queue for this many links. False and errno if it cannot.
bool TupleQ::grow_queue(uint32_t links) {
    const uint64_t needed = settings_.completions(links);
    if (static_cast<uint64_t>(completions_.get()->cqe) >= needed) return true;
    errno = ENOMEM;
    if (needed > max_cqe_) return false;
    const int error = ibv_resize_cq(completions_.get(),
                                    static_cast<int>(std::min<uint64_t>(needed * 2, max_cqe_)));
    errno = error;
    return error == 0;
}

XrcLink* TupleQ::make_link() {
    uint32_t index = 0;
    while (index < links_.size() && links_[index]) ++index;
    if (!grow_queue(index + 1)) return nullptr;
    auto link = XrcLink::create(engine_.pd(), completions_.get(), index, settings_.sends,
                                settings_.inline_bytes);
    if (!link) return nullptr;
    if (index == links_.size()) links_.emplace_back();
    links_[index] = std::move(link);
    ++active_;
    return links_[index].get();
}

// Returns the link to a node that the peer belongs to, or makes one with the peer as its host. Null
// if the device refuses.
XrcLink* TupleQ::link_to(Channel& channel, uint64_t node) {
    for (const auto& link : links_)
        if (link && link->node == node && link->port == channel.peer.port &&
            link->state != XrcLink::State::kOver && link->host != nullptr && link->host->up() &&
            !link->host->closing)
            return link.get();
    XrcLink* link = make_link();
    if (link == nullptr) return nullptr;
    link->host = &channel;
    link->node = node;
    link->port = channel.peer.port;
    return link;
}

// Asks the host for the other end, once. False: no room now.
bool TupleQ::ask(XrcLink& link) {
    if (link.number != 0) return true;
    const WireConnect frame{.number = attempts_ + 1,
                            .qp_num = link.qp()->qp_num,
                            .psn = link.psn(),
                            .mtu = static_cast<uint32_t>(port_.mtu)};
    if (!say(*link.host, TupleControlId::kConnect, frame)) return false;
    link.number = ++attempts_;
    return true;
}

bool TupleQ::connect(XrcLink& link, const PortAddress& to, uint32_t qp_num, uint32_t mtu) {
    return verbs::connect_xrc_sender(link.qp(), port_, settings_.retry, address_vector(port_, to),
                                     qp_num, 0, link.psn(), static_cast<ibv_mtu>(mtu)) == 0;
}

// The peer asks for the other end of its link to this node. The channel owns the end; a newer end
// replaces it.
bool TupleQ::connect_wanted(Channel& channel, const WireConnect& frame) {
    if (frame.number == 0 || frame.qp_num == 0 || frame.qp_num > kMostNumber ||
        frame.psn > kMostNumber || frame.mtu < IBV_MTU_256 || frame.mtu > IBV_MTU_4096)
        return false;
    Peer& peer = peer_of(channel);
    const ibv_ah_attr to = address_vector(port_, channel.peer.port);
    peer.end = verbs::create_xrc_receiver(port_.context, *domain_);
    if (peer.end && verbs::connect_xrc_receiver(peer.end.get(), port_, to, frame.qp_num, frame.psn,
                                                static_cast<ibv_mtu>(frame.mtu)) != 0)
        peer.end.reset();
    peer.answer = {.number = frame.number,
                   .qp_num = peer.end ? peer.end->qp_num : 0,
                   .mtu = static_cast<uint32_t>(port_.mtu)};
    peer.answer_due = true;
    remember(channel);
    (void)answer_requests();
    return true;
}

bool TupleQ::connected(Channel& channel, const WireConnected& frame) {
    if (frame.number == 0 || frame.qp_num > kMostNumber || frame.mtu < IBV_MTU_256 ||
        frame.mtu > IBV_MTU_4096)
        return false;
    const auto asking = [&](const auto& link) {
        return link && link->host == &channel && link->state == XrcLink::State::kAsking &&
               link->number == frame.number;
    };
    const auto found = std::find_if(links_.begin(), links_.end(), asking);
    if (found == links_.end()) return false;
    XrcLink& link = **found;
    if (frame.qp_num != 0 && connect(link, channel.peer.port, frame.qp_num, frame.mtu)) {
        link.state = XrcLink::State::kUp;
        ++counters_.links;
    } else {
        peer_of(channel).refused = link.node;
        over(link);
    }
    (void)answer_requests();
    return true;
}

// Opens the link to this process's own queues, if it is not open yet.
bool TupleQ::open_loopback() {
    if (loopback_ != nullptr) return true;
    XrcLink* link = make_link();
    if (link == nullptr) return false;
    link->node = 0;
    auto end = verbs::create_xrc_receiver(port_.context, *domain_);
    const PortAddress& here = engine_.address().port;
    if (!end ||
        verbs::connect_xrc_receiver(end.get(), port_, address_vector(port_, here),
                                    link->qp()->qp_num, link->psn(), port_.mtu) != 0 ||
        !connect(*link, here, end->qp_num, port_.mtu)) {
        links_[link->index()].reset();
        return false;
    }
    link->state = XrcLink::State::kUp;
    loopback_end_ = std::move(end);
    loopback_ = link;
    return true;
}

// Ends the link; its tuples send ordinary messages. Destroys the link if it is idle.
void TupleQ::over(XrcLink& link) {
    if (link.state != XrcLink::State::kOver) {
        link.state = XrcLink::State::kOver;
        for (Route& route : routes_)
            if (route.link == &link) route.link = nullptr;
        if (&link == loopback_) {
            loopback_ = nullptr;
            loopback_end_.reset();
        }
        (void)verbs::to_error(link.qp());
    }
    if (link.idle()) links_[link.index()].reset();
}

// A send is complete: a direct message, or a drain. The first failure ends the link; later sends
// fail too. No message is sent twice, so a message that may not have arrived ends its channel.
void TupleQ::sent(const ibv_wc& completion) {
    XrcLink& link = *links_[XrcLink::index_of(completion.wr_id)];
    const TupleSend send = link.take();
    if (send.channel == nullptr) return drain_sent(link, send.cookie, completion.status);
    const bool good = completion.status == IBV_WC_SUCCESS;
    if (!good && link.state != XrcLink::State::kOver) [[unlikely]] {
        ++counters_.links_lost;
        counters_.not_ready += completion.status == IBV_WC_RNR_RETRY_EXC_ERR;
        owner_.warn(std::string("a direct message has failed: ") +
                    ibv_wc_status_str(completion.status));
    }
    Peer& peer = *peers_[send.channel->index];
    ++peer.completed;
    --under_way_;
    if (send.buffer != nullptr) pool_.give(send.buffer);
    if (send.pin != nullptr) pins_.release(send.pin);
    const Status status = good ? Status::kOk : Status::kTimedOut;
    if (!good) {
        peer.lost = true;
        engine_.fail(*send.channel, status, "a direct message may not have arrived");
    }
    if (link.idle()) engine_.release_hold(*link.host);
    engine_.release_hold(*send.channel);
    if (!good) over(link);
    if (send.cookie != nullptr) owner_.completed(send.cookie, status);
}

// Called when all channels have failed.
void TupleQ::break_down() {
    broken_ = true;
    for (size_t i = 0; i < links_.size(); ++i) {
        ibv_wc failure{};
        failure.wr_id = uint64_t{i} << 32;
        failure.status = IBV_WC_FATAL_ERR;
        while (links_[i] && !links_[i]->idle()) sent(failure);
    }
}

namespace {

// The other end has answered that the send was not executed; then no later send was.
bool refused(ibv_wc_status status) {
    return status == IBV_WC_REM_INV_REQ_ERR || status == IBV_WC_REM_ACCESS_ERR ||
           status == IBV_WC_REM_OP_ERR || status == IBV_WC_RNR_RETRY_EXC_ERR;
}

}  // namespace

// A drain whose queue is gone breaks the loop-back link, which is no error. Drains of other queues
// behind it are sent again over a new link.
void TupleQ::drain_sent(XrcLink& link, const void* cookie, ibv_wc_status status) {
    if (status == IBV_WC_SUCCESS) return;
    const bool first = link.state != XrcLink::State::kOver;
    if (first) link.in_doubt = !refused(status);
    const bool again = !first && !link.in_doubt;
    over(link);
    if (is_astray(cookie)) return;
    const uint16_t number = tuple_of_drain(cookie);
    if (again) {
        TupleAction action{.kind = TupleAction::Kind::kDrain,
                           .tuple = number,
                           .peer = matcher_.peer(number),
                           .count = 1};
        return perform_or_keep(action);
    }
    counters_.links_lost += first;
    counters_.not_ready += status == IBV_WC_RNR_RETRY_EXC_ERR;
    fail_tuple(number, Status::kDevice,
               std::string("a queue cannot be drained: ") + ibv_wc_status_str(status));
}

// A Bind or Close has come. False if too many wait, or the channel has failed.
bool TupleQ::requested(Channel& channel, const Request& request) {
    Peer& peer = peer_of(channel);
    if (peer.requests.size() >= kMostRequests) return false;
    peer.requests.push_back(request);
    remember(channel);
    (void)answer_requests();
    return !channel.failed;
}

void TupleQ::remember(Channel& channel) {
    if (std::find(requests_.begin(), requests_.end(), &channel) == requests_.end())
        requests_.push_back(&channel);
}

// Answers each peer in order: an answer separates the messages sent before it from those sent
// after.
unsigned TupleQ::answer_requests() {
    unsigned count = 0;
    for (size_t i = 0; i < requests_.size();) {
        Channel& channel = *requests_[i];
        Peer& peer = *peers_[channel.index];
        if (peer.answer_due && say(channel, TupleControlId::kConnected, peer.answer)) {
            peer.answer_due = false;
            ++count;
        }
        while (!channel.failed && !peer.requests.empty()) {
            const Request request = peer.requests.front();
            if (!answer(peer, request)) break;
            peer.requests.pop_front();
            ++count;
        }
        if (channel.failed || (peer.requests.empty() && !peer.answer_due))
            requests_.erase(requests_.begin() + static_cast<std::ptrdiff_t>(i));
        else
            ++i;
    }
    return count;
}

// False: no answer can be sent now.
bool TupleQ::answer(Peer& peer, const Request& request) {
    Channel& channel = *peer.channel;
    if (!channel.up() || channel.sends.room() == 0) return false;
    if (!request.close) return answer_bind(peer, request.bind);
    TupleClosed answer;
    const bool unbind = (request.unbind.flags & WireClose::kUnbind) != 0;
    if (!senders_.close(number_of(channel), {request.unbind.sender, unbind}, answer)) {
        malformed(channel);
        return true;
    }
    if (unbind) routes_[request.unbind.sender] = {};
    return say(
        channel, TupleControlId::kClosed,
        WireClosed{
            .tuple = answer.tuple, .sequence = answer.sequence, .flags = request.unbind.flags});
}

bool TupleQ::answer_bind(Peer& peer, const WireBind& bind) {
    Channel& channel = *peer.channel;
    TupleBound answer{bind.tuple, TupleBound::kRefused, 0};
    // After a link to the node was refused, one Bind is refused too; the next one tries again.
    const bool refused = bind.node == peer.refused || !sends_;
    XrcLink* link = refused ? nullptr : link_to(channel, bind.node);
    if (link != nullptr && link->state == XrcLink::State::kAsking) {
        (void)ask(*link);
        return false;
    }
    if (link != nullptr) {
        if (!senders_.bind(number_of(channel), {bind.tag, bind.mask, bind.tuple, bind.depth},
                           answer)) {
            malformed(channel);
            return true;
        }
        if (answer.sender != TupleBound::kRefused) routes_[answer.sender] = {link, bind.queue};
    }
    const bool said = say(channel, TupleControlId::kBound,
                          WireBound{.tuple = answer.tuple,
                                    .sender = answer.sender,
                                    .slot = answer.slot,
                                    .address = address_of(grants_.data()),
                                    .rkey = grants_.rkey()});
    if (said && refused) peer.refused = 0;
    return said;
}

}  // namespace tern
