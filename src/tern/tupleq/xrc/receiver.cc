// SPDX-License-Identifier: BSD-3-Clause
#include "tern/tupleq/xrc/receiver.h"

#include <arpa/inet.h>

#include "tern/base/trace.h"
#include "tern/matching/messages.h"
#include "tern/tupleq/xrc/messages.h"

namespace tern {

DirectReceiver::DirectReceiver(const TupleQParts& parts, const verbs::XrcDomain& domain,
                               XrcCompletions& completions, LinkTable& links, GrantMemory& grants,
                               const TupleQSettings& settings)
    : queues_(parts.engine.pd(), domain, completions, settings.depth, settings.tuples),
      memory_(parts.pins, parts.regions, queues_, settings.tuples, settings.depth),
      table_(parts.posted, settings.policy, memory_, parts.owner),
      matcher_(table_, settings.tuples, settings.depth),
      binder_(matcher_, table_, settings.policy, settings.tuples),
      actor_({parts.engine, parts.owner, domain, completions, links, queues_, memory_, matcher_,
              binder_, grants}),
      cancellation_({.engine = parts.engine,
                     .queues = queues_,
                     .memory = memory_,
                     .table = table_,
                     .matcher = matcher_,
                     .binder = binder_,
                     .actor = actor_},
                    settings.announced_limit),
      engine_(parts.engine),
      held_(settings.held) {}

// Another thread may be stopping a queue; destroy() waits for that thread.
DirectReceiver::~DirectReceiver() {
    for (uint32_t i = 0; i < matcher_.tuples().size(); ++i) queues_.destroy(i);
}

unsigned DirectReceiver::progress() {
    unsigned count = 0;
    if (queues_.any_stopped()) [[unlikely]] {
        fail_stopped();
        ++count;
    }
    if (actor_.any_deferred()) [[unlikely]]
        count += actor_.retry_deferred();
    if (held_.any_untold()) [[unlikely]]
        tell_held();
    if (cancellation_.any_undecided()) [[unlikely]]
        cancellation_.ask_again();
    if (memory_.any_registered() && memory_.renew()) [[unlikely]] {
        matcher_.refill_all();
        actor_.act();
        ++count;
    }
    return count;
}

// Memory of a granted receive was deregistered. The queue is gone, so the peer must not send to it
// any more.
void DirectReceiver::fail_stopped() {
    for (uint16_t number = 0; number < matcher_.tuples().size(); ++number) {
        if (!queues_.stopped(number)) continue;
        ++stopped_;
        TERN_DEBUG("tuple %u: its queue was stopped", number);
        if (matcher_.queue(number).state() == TupleReceiver::State::kFree)
            queues_.destroy(number);
        else
            actor_.fail_tuple(number, Status::kDevice,
                              "memory was deregistered while a receive was posted in it: cancel "
                              "the receive first");
    }
}

void DirectReceiver::on_queue_error(const void* identity, const std::string& what) {
    for (uint16_t number = 0; number < matcher_.tuples().size(); ++number) {
        if (identity == nullptr || queues_.identity(number) != identity) continue;
        TERN_DEBUG("tuple %u: its queue has failed", number);
        if (matcher_.queue(number).state() == TupleReceiver::State::kFree) {
            queues_.destroy(number);
        } else {
            queues_.spoil(number);
            actor_.fail_tuple(number, Status::kDevice,
                              "the device reports of the queue of its direct messages: " + what);
        }
    }
}

// Returns false. The device does not say who sent the message: any process of this user with a link
// to this node can, for an earlier queue with the same number, or against the protocol. In any case
// the tuple is lost, and with it the order of its peer's messages.
bool DirectReceiver::spoil(uint16_t number, const std::string& what) {
    queues_.spoil(number);
    actor_.fail_tuple(number, Status::kProtocol,
                      what +
                          ": the peer, or another process of this user, has sent it to an earlier "
                          "queue with the same number, or does not keep to the protocol; see that "
                          "all run the same version, or set UCX_TERN_TM_TUPLES=0");
    return false;
}

void DirectReceiver::on_received(const ibv_wc& completion) {
    const auto number = static_cast<uint16_t>(XrcQueues::index_of(completion.wr_id));
    if (XrcQueues::generation_of(completion.wr_id) != queues_.generation(number) ||
        queues_.spoilt(number))
        return;
    if (completion.status != IBV_WC_SUCCESS) [[unlikely]] {
        (void)spoil(number, std::string("a direct message cannot be placed: ") +
                                ibv_wc_status_str(completion.status));
        return;
    }
    const bool named = (completion.wc_flags & IBV_WC_WITH_IMM) != 0;
    if (!named) [[unlikely]] {
        (void)spoil(number, "a direct message has no immediate data");
        return;
    }
    const uint32_t name = from_immediate(queues_.nonce(number), ntohl(completion.imm_data));
    const bool good = name == kDrainName ? drained(number) : placed(number, name, completion);
    if (!good) [[unlikely]]
        return;
    binder_.free_if_unused(number);
    actor_.act();
}

bool DirectReceiver::drained(uint16_t number) {
    uint32_t place = 0;
    if (!matcher_.drained(number, place)) [[unlikely]]
        return spoil(number, "a queue is drained that need not be");
    memory_.free(number, place);
    return true;
}

// `name`: from the immediate data.
bool DirectReceiver::placed(uint16_t number, uint32_t name, const ibv_wc& completion) {
    const TupleReceiver& queue = matcher_.queue(number);
    if (queue.live() == 0 || name != queue.entry(0).sequence) [[unlikely]]
        return spoil(number, "a direct message is not the one that a receive was granted to");
    const uint64_t tag = matcher_.tuple(number).tag;
    const auto message = matcher_.direct(number);
    TERN_ASSERT(message.receive != 0);
    memory_.free(number, message.place);
    received_bytes_ += completion.byte_len;
    binder_.used(number);
    actor_.owner().received(TupleTable::receive(message.receive), tag, completion.byte_len,
                            Status::kOk);
    return true;
}

bool DirectReceiver::on_bound(Channel& channel, const WireBound& frame) {
    if (!actor_.learn_words(channel, frame)) return false;
    const bool good = matcher_.bound(peer_number(channel), {frame.tuple, frame.sender, frame.slot});
    if (good && frame.sender == WireBound::kRefused) {
        TERN_DEBUG("tuple %u: refused by peer %#x", frame.tuple, peer_number(channel));
        binder_.refused(frame.tuple);
    } else if (good) {
        TERN_DEBUG("tuple %u: bound for peer %#x", frame.tuple, peer_number(channel));
        any_queue_ = true;
    }
    actor_.act();
    return good;
}

bool DirectReceiver::on_closed(Channel& channel, const WireClosed& frame) {
    const bool good =
        matcher_.closed(peer_number(channel),
                        {frame.tuple, frame.sequence, (frame.flags & WireClose::kUnbind) != 0});
    if (good) {
        TERN_DEBUG("tuple %u: unbound after message %u", frame.tuple, frame.sequence);
        memory_.lend_void(frame.tuple, matcher_.queue(frame.tuple));
        binder_.free_if_unused(frame.tuple);
    }
    actor_.act();
    return good;
}

DirectReceiver::Arrival DirectReceiver::ordinary(Channel& channel, uint64_t tag,
                                                 const TupleMark* mark, uint64_t length) {
    const Arrival arrival = matcher_.ordinary(peer_number(channel), tag, mark, length);
    if (mark != nullptr && arrival.verdict != Arrival::Verdict::kBroken)
        memory_.lend_void(mark->tuple, matcher_.queue(mark->tuple));
    if (binder_.judge(channel, tag, mark, length, arrival)) actor_.add_peer(channel);
    return arrival;
}

DirectReceiver::Arrival DirectReceiver::retry(uint32_t peer, uint64_t tag) {
    const Arrival arrival = matcher_.retry(peer, tag);
    actor_.act();
    return arrival;
}

// A peer that pauses may have much under way, but not without end.
void DirectReceiver::hold(Channel& channel, uint32_t id, const std::byte* data, uint32_t length) {
    if (!held_.hold(peer_number(channel), channel, id, data, length)) [[unlikely]]
        engine_.fail(channel, Status::kProtocol,
                     "it was asked to pause, as its messages wait for those of another peer, but "
                     "sends on; see that all run the same version, or set UCX_TERN_TM_TUPLES=0");
    if (held_.any_untold()) [[unlikely]]
        tell_held();
}

void DirectReceiver::tell_held() {
    held_.tell([this](Channel& channel, bool pause) {
        const TagPause frame{.pause = pause};
        if (!channel.up()) return true;
        if (!engine_.send_control(channel, static_cast<ControlId>(TagControlId::kPause), &frame,
                                  sizeof(frame)))
            return false;
        TERN_DEBUG("peer %#x is told to %s", peer_number(channel), pause ? "pause" : "go on");
        pauses_ += frame.pause;
        return true;
    });
}

bool DirectReceiver::bind(Channel& channel, uint64_t tag) {
    if (!binder_.bind(channel, tag)) return false;
    actor_.add_peer(channel);
    actor_.act();
    return true;
}

void DirectReceiver::unbind(uint64_t tag) {
    const uint16_t number = matcher_.tuples().lookup(tag);
    if (number != TupleIndex::kNone) matcher_.unbind(number);
    actor_.act();
}

// Queues become free at once, or when the senders of their tuples have answered.
void DirectReceiver::change_key() {
    matcher_.change_key();
    actor_.act();
}

void DirectReceiver::ended(const Channel& channel) {
    matcher_.peer_died(peer_number(channel));
    for (uint16_t queue = 0; queue < matcher_.tuples().size(); ++queue) {
        // Before the owner gets the lost messages, so that none of them comes later.
        if (matcher_.queue(queue).state() == TupleReceiver::State::kBroken) queues_.destroy(queue);
        binder_.free_if_unused(queue);
    }
    actor_.erase_peer(channel);
    actor_.act();
}

}  // namespace tern
