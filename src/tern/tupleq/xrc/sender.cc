// SPDX-License-Identifier: BSD-3-Clause
#include "tern/tupleq/xrc/sender.h"

#include <utility>

#include "tern/base/trace.h"

namespace tern {

DirectSender::DirectSender(const TupleQParts& parts, LinkTable& links, GrantMemory& memory,
                           const TupleQSettings& settings)
    : engine_(parts.engine),
      rendezvous_(parts.rendezvous),
      pins_(parts.pins),
      links_(links),
      owner_(parts.owner),
      most_bytes_(parts.port.attributes.max_msg_sz),
      pool_(engine_.pd(), settings.copy_most, settings.sends),
      senders_(memory.grants(), settings.tuples, settings.depth),
      routes_(settings.tuples) {}

void DirectSender::give_up() {
    links_.close_loopback_end();
    // A queue pair is destroyed before the memory that it may read is released.
    links_.for_each([this](XrcLink& link) {
        link.close();
        while (!link.idle()) {
            const TupleSend send = link.take();
            if (send.pin != nullptr) pins_.release(send.pin);
        }
    });
}

SendPool::Buffer* DirectSender::take_again() {
    struct {
        PinCache& pins;
        TupleQOwner& owner;
        bool give_up(uint64_t bytes) { return pins.give_up(bytes); }
        void warn(const std::string& text) { owner.warn(text); }
    } owner{pins_, owner_};
    return pool_.grow_again(owner) ? pool_.take() : nullptr;
}

bool DirectSender::bind(Channel& channel, const WireBind& bind, XrcLink& link, TupleBound& answer) {
    TERN_ASSERT(link.state == XrcLink::State::kUp);
    if (!senders_.bind(peer_number(channel), {bind.tag, bind.mask, bind.tuple, bind.depth}, answer))
        return false;
    (void)peers_.of(channel);
    if (answer.sender == TupleBound::kRefused) return true;
    routes_[answer.sender] = {&link, bind.queue, bind.nonce};
    TERN_DEBUG("tuple %u to send: bound to queue %u of peer %#x, tag %#lx", answer.sender,
               bind.queue, peer_number(channel), bind.tag);
    return true;
}

bool DirectSender::close(Channel& channel, const WireClose& close, TupleClosed& answer) {
    const bool unbind = (close.flags & WireClose::kUnbind) != 0;
    if (!senders_.close(peer_number(channel), {close.sender, unbind}, answer)) return false;
    if (!unbind) return true;
    routes_[close.sender] = {};
    TERN_DEBUG("tuple %u to send: unbound after message %u", close.sender, answer.sequence);
    return true;
}

bool DirectSender::stop() {
    for (Route& route : routes_) route.link = nullptr;
    return !std::exchange(stopped_, true);
}

// The first failure ends the link; later sends fail too. No message is sent twice, so a message
// that may not have arrived ends its channel.
void DirectSender::on_sent(XrcLink& link, const TupleSend& send, ibv_wc_status result) {
    const bool good = result == IBV_WC_SUCCESS;
    if (!good && link.state != XrcLink::State::kOver) [[unlikely]] {
        links_.count_failure(true, result);
        owner_.warn(std::string("a direct message has failed: ") + ibv_wc_status_str(result));
    }
    Peer& peer = peers_.at(*send.channel);
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
    if (!good) end(link);
    if (send.cookie != nullptr) owner_.completed(send.cookie, status);
}

// The tuples of the link send ordinary messages from now on.
void DirectSender::end(XrcLink& link) {
    for (Route& route : routes_)
        if (route.link == &link) route.link = nullptr;
    links_.end(link);
}

void DirectSender::end_links(const Channel& channel) {
    links_.for_each([&](XrcLink& link) {
        if (link.host == &channel) end(link);
    });
}

bool DirectSender::ended(const Channel& channel) {
    const uint32_t number = peer_number(channel);
    senders_.peer_died(number);
    Peer* const peer = peers_.find(number);
    if (peer == nullptr) return false;
    // Posted messages hold the channel until they are complete.
    TERN_ASSERT(peer->completed == peer->posted);
    const bool lost = peer->lost;
    peers_.erase(channel);
    return lost;
}

Status DirectSender::flush(Channel& channel, const Waiter& waiter, bool by_force) {
    const Peer* const peer = peers_.find(channel);
    if (peer == nullptr || (peer->completed == peer->posted && !peer->lost))
        return by_force ? rendezvous_.flush_by_force(channel, waiter)
                        : rendezvous_.flush(channel, waiter);
    if (waiter.cookie != nullptr) flushes_.add(channel, peer->posted, waiter, by_force);
    return Status::kInProgress;
}

unsigned DirectSender::progress_flushes() {
    return flushes_.progress(
        [this](Channel& channel, uint64_t until, const Waiter& waiter, bool by_force) {
            const Peer* const peer = peers_.find(channel);
            // If a message is lost, the channel has failed, and end_flushes() ends the flush.
            if (peer != nullptr && (peer->completed < until || peer->lost))
                return Status::kNoResource;
            return by_force ? rendezvous_.flush_by_force(channel, waiter)
                            : rendezvous_.flush(channel, waiter);
        },
        owner_);
}

uint64_t DirectSender::sent(const Channel& channel) const {
    const Peer* const peer = peers_.find(channel);
    return peer != nullptr ? peer->posted : 0;
}

bool DirectSender::arrived(const Channel& channel, uint64_t count) const {
    const Peer* const peer = peers_.find(channel);
    return peer == nullptr || peer->completed >= count;
}

}  // namespace tern
