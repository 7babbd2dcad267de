// SPDX-License-Identifier: BSD-3-Clause

// How transfers to this side begin and end.

#include "rendezvous/incoming.h"
#include "base/trace.h"
#include "connection/little_endian.h"

#include <algorithm>
#include <random>
#include <utility>

namespace tern {

void trace_decision(const Incoming& transfer, Scheme scheme, Reason reason) {
    TERN_TRACE("%s %u of %lu bytes from %s: %s, because %s", transfer.asked_here ? "get" : "put",
               transfer.number, static_cast<unsigned long>(transfer.length),
               transfer.channel->peer.to_string().c_str(), std::string(name_of(scheme)).c_str(),
               text_of(reason));
}

Receives::Receives(TransferContext& context)
    : context_(context),
      rings_(context.engine.pd(), context.settings.ring_slots(), context.settings.most_rings()),
      generation_(std::random_device()()) {}

Receives::~Receives() {
    for (const auto& transfer : table_) context_.release_memory(*transfer);
}

void Receives::get(Channel& channel, const Buffers& to, uint64_t from, const WireKey& key,
                   uint32_t rkey, Source source, void* cookie, const Reply* reply) {
    Incoming* transfer = take();
    context_.begin(*transfer, channel, cookie);
    transfer->memory = to;
    transfer->source = source;
    if (reply != nullptr) transfer->reply = *reply;
    begin_get(*transfer, from, key, rkey);
}

void Receives::get_owned(Channel& channel, std::unique_ptr<std::byte[]> memory, size_t length,
                         uint64_t from, const WireKey& key, uint32_t rkey, Unpack unpack,
                         void* argument, void* cookie) {
    Incoming* transfer = take();
    context_.begin(*transfer, channel, cookie);
    const Buffers::Piece piece{.at = memory.get(), .length = length};
    transfer->memory = Buffers({&piece, 1});
    transfer->owned = std::move(memory);
    transfer->unpack = unpack;
    transfer->argument = argument;
    begin_get(*transfer, from, key, rkey);
}

void Receives::begin_get(Incoming& transfer, uint64_t from, const WireKey& key, uint32_t rkey) {
    context_.ask_for(transfer, from, key);
    ++context_.counters.gets;
    transfer.rkey = rkey;
    receive(transfer);
}

// A peer asks to put.
bool Receives::deliver(Channel& channel, const std::byte* data, uint32_t length) {
    Deliver offer;
    if (!unpack(offer, data, length)) return false;
    RegionUse* use = context_.open(offer.key, offer.address, offer.length, kRemotePut);
    Incoming* transfer = use != nullptr ? take() : nullptr;
    if (transfer == nullptr) {
        if (use != nullptr) context_.regions.release(use);
        return context_.refuse(channel, Refuse::kDeliver, offer.sender);
    }
    context_.begin(*transfer, channel, nullptr);
    context_.serve(*transfer, use, offer.address, offer.length);
    transfer->sender = offer.sender;
    receive(*transfer);
    return true;
}

Incoming* Receives::take() {
    Incoming* transfer = table_.take();
    if (transfer != nullptr) transfer->state = Incoming::State::kWaiting;
    return transfer;
}

void Receives::receive(Incoming& transfer) {
    // No ring is lent while the peer may never answer.
    if (transfer.asked_here && !transfer.channel->up()) {
        unconnected_.push_back(&transfer);
        return;
    }
    // What was left comes first.
    if (context_.budget.behind() || !later_.empty()) {
        later_.push_back(&transfer);
        return;
    }
    // Rings are lent in the order of the requests, so that no transfer waits for ever. A transfer
    // that needs no ring does not wait.
    wait(transfer, start(transfer, waiting_.empty()));
}

// Lets a transfer wait that has not begun.
void Receives::wait(Incoming& transfer, Start why) {
    if (why == Start::kLater) later_.push_back(&transfer);
    if (why != Start::kNoRing) return;
    ++context_.counters.ring_waits;
    waiting_.push_back(&transfer);
}

// Decides how the message is to come, and asks for it. `may_lend`: the transfer may get a ring now.
Receives::Start Receives::start(Incoming& transfer, bool may_lend) {
    // To begin takes time as well, if many do.
    if (!transfer.decided && context_.budget.over()) return Start::kLater;
    if (transfer.rkey != 0) return start_reading(transfer, may_lend);
    if (transfer.use != nullptr && transfer.use->revoked()) return give_up(transfer);
    if (!transfer.decided) {
        transfer.decided = true;
        transfer.asked_at = std::chrono::steady_clock::now();
        transfer.decision = decide_scheme(transfer);
        trace_decision(transfer, transfer.decision.scheme, transfer.decision.reason);
    }
    // In pieces, both sides pin their first piece at the same time. The ring is for pieces that
    // cannot be pinned; if no ring is free, all of the buffer is pinned first.
    bool in_place = !transfer.decision.staged();
    const bool may_be_in_pieces = in_place && transfer.decision.piece != 0 && transfer.pinned == 0;
    const bool in_pieces = may_be_in_pieces && lend_ring(transfer, may_lend);
    if (may_be_in_pieces && !in_pieces && may_lend && rings_.may_grow()) return Start::kLater;
    if (in_place && !in_pieces) {
        const Start pinned = pin_all(transfer);
        if (pinned == Start::kLater) return pinned;
        in_place = pinned == Start::kBegun;
    }
    if (!in_place && !lend_ring(transfer, may_lend)) return without_ring(transfer, may_lend);
    if (in_place && !in_pieces && !context_.expose(transfer, true)) return give_up(transfer);
    ++(transfer.decision.staged() ? context_.counters.superpipeline : context_.counters.zero_copy);
    transfer.generation = ++generation_ & WireRing::kGeneration;
    transfer.core.emplace(transfer.length, transfer.ring.slots, transfer.generation,
                          !context_.engine.sleep().polls_memory(*transfer.channel),
                          transfer.ring.slots / (context_.settings.chunks_per_ring + 1));
    if (in_pieces) {
        const uint64_t piece = context_.piece_of(transfer.decision.piece, transfer.decision.reused,
                                                 transfer.memory.data(), transfer.length);
        transfer.first = WirePart::announce(piece);
    } else {
        const Part first = in_place ? direct_part(transfer) : Part{.upto = transfer.length};
        transfer.first = WirePart::of(first);
        transfer.core->add(first);
    }
    transfer.state = Incoming::State::kAsking;
    transfer.alone = context_.running == 0;
    running_.push_back(&transfer);
    ++context_.running;
    if (ask_sender(transfer)) transfer.state = Incoming::State::kRunning;
    return Start::kBegun;
}

// Pins all of the buffer, in several turns if need be. kNoRing: it cannot be pinned, and the
// message is staged after all.
Receives::Start Receives::pin_all(Incoming& transfer) {
    while (transfer.pinned != transfer.length) {
        if (find_piece(transfer)) continue;
        if (!may_pin(transfer)) return Start::kLater;
        if (pin_piece(transfer, kRemotePut)) continue;
        for (Pin* pin : transfer.pins) context_.pins.release(pin);
        transfer.pins.clear();
        transfer.ends.clear();
        transfer.pinned = 0;
        transfer.decision = decide({.length = transfer.length, .pin_failed = true}, context_.policy,
                                   context_.timings);
        return Start::kNoRing;
    }
    return Start::kBegun;
}

// How a transfer goes on that needs a ring and has got none.
Receives::Start Receives::without_ring(Incoming& transfer, bool may_lend) {
    if (rings_.cannot_register()) return out_of_rings(transfer);
    return may_lend && rings_.may_grow() ? Start::kLater : Start::kNoRing;
}

// Whether the transfer has a ring, now or from before.
bool Receives::lend_ring(Incoming& transfer, bool may_lend) {
    return transfer.ring.slots != 0 || (may_lend && context_.lend(rings_, transfer.ring));
}

// Tells the sender to begin. False: the frame cannot be sent now.
bool Receives::ask_sender(Incoming& transfer) {
    const WireRing ring{
        .address = reinterpret_cast<uint64_t>(transfer.ring.data),
        .rkey = transfer.ring.rkey,
        .slots = static_cast<uint16_t>(transfer.ring.slots),
        .flags = static_cast<uint16_t>(transfer.core->notified() ? WireRing::kNotify : 0),
        .generation = transfer.generation};
    if (transfer.asked_here) {
        const Fetch frame{.receiver = transfer.number,
                          .address = transfer.address,
                          .length = transfer.length,
                          .key = transfer.key,
                          .ring = ring,
                          .part = transfer.first};
        return context_.send(*transfer.channel, TransferId::kFetch, frame);
    }
    const Accept frame{.sender = transfer.sender,
                       .receiver = transfer.number,
                       .ring = ring,
                       .part = transfer.first};
    return context_.send(*transfer.channel, TransferId::kAccept, frame);
}

Decision Receives::decide_scheme(Incoming& transfer) {
    DecisionInputs inputs{.length = transfer.length,
                          .sender = {.pinned = transfer.source.pinned},
                          .one_piece = transfer.memory.contiguous() && !transfer.owned,
                          .may_try = context_.running == 0};
    if (inputs.one_piece) inputs.own = context_.look_up(transfer, kRemotePut);
    const Decision decision = decide(inputs, context_.policy, context_.timings);
    if (decision.staged() && transfer.pin != nullptr)
        context_.pins.release(std::exchange(transfer.pin, nullptr));
    if (transfer.pin != nullptr) transfer.pinned = transfer.length;
    return decision;
}

bool Receives::finish(Channel& channel, const std::byte* data, uint32_t length) {
    Finish frame;
    if (!unpack(frame, data, length)) return false;
    Incoming* transfer = table_.find(channel, frame.receiver);
    return transfer != nullptr && transfer->core && transfer->core->finished();
}

bool Receives::notified(Channel& channel, uint32_t immediate) {
    Incoming* transfer = table_.find_index(channel, immediate >> 16);
    return transfer != nullptr && transfer->core && transfer->core->arrived(immediate & 0xffff);
}

// The sender refuses a fetch, or the rest of one.
bool Receives::refused(Channel& channel, const Refuse& frame) {
    Incoming* transfer = table_.find(channel, frame.number);
    if (transfer == nullptr) return false;
    if (frame.what == Refuse::kFetch) {
        over(*transfer, Status::kRemoteAccess);
        return true;
    }
    // All earlier writes have arrived, so the ring can be lent to another transfer.
    transfer->failed = true;
    return transfer->asked_here && transfer->state == Incoming::State::kRunning;
}

// Ends a transfer because not even a small ring can be registered.
Receives::Start Receives::out_of_rings(Incoming& transfer) {
    context_.warn_of_limit();
    if (!transfer.asked_here)
        (void)context_.refuse(*transfer.channel, Refuse::kDeliver, transfer.sender);
    failures_.push_back(&transfer);
    return Start::kBegun;
}

// Ends a put whose memory was undeclared before anything was written to it.
Receives::Start Receives::give_up(Incoming& transfer) {
    ++context_.counters.refused;
    context_.add_refusal(*transfer.channel, {.what = Refuse::kDeliver, .number = transfer.sender});
    failures_.push_back(&transfer);
    return Start::kBegun;
}

// Whether no other transfer was under way since this one began.
bool Receives::was_alone(const Incoming& transfer) const {
    return transfer.alone && transfer.sequence == context_.begun;
}

// Without others meanwhile, the scheme has taken as long as it takes.
void Receives::learn(const Incoming& transfer) {
    if (!was_alone(transfer) || !(transfer.decision.expected > 0)) return;
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - transfer.asked_at;
    context_.timings.took(transfer.length, transfer.decision.way, transfer.decision.expected,
                          time.count());
}

void Receives::over(Incoming& transfer, Status status) {
    if (status == Status::kOk) learn(transfer);
    std::erase(unconnected_, &transfer);
    context_.running -= static_cast<uint32_t>(std::erase(running_, &transfer));
    std::erase(waiting_, &transfer);
    std::erase(later_, &transfer);
    std::erase(failures_, &transfer);
    if (transfer.ring.slots != 0) rings_.give_back(transfer.ring);
    const bool users = transfer.asked_here;
    void* cookie = transfer.cookie;
    Channel& channel = *transfer.channel;
    const auto owned = std::move(transfer.owned);
    const Unpack unpack = transfer.unpack;
    void* const argument = transfer.argument;
    const auto length = static_cast<size_t>(transfer.length);
    context_.end(transfer);
    table_.put_back(transfer);
    if (owned && status == Status::kOk) unpack(argument, owned.get(), length);
    context_.tell_user(users, cookie, channel, status);
}

// The rings are lent to peers that do nothing, perhaps for minutes. Transfers whose memory can be
// pinned go in place.
unsigned Receives::do_without_rings() {
    waits_ = 0;
    return static_cast<unsigned>(std::erase_if(waiting_, [this](Incoming* transfer) {
        if (!transfer->memory.contiguous() || transfer->owned) return false;
        if (transfer->decision.staged()) {
            transfer->decision = decide({.length = transfer->length, .rings_taken = true},
                                        context_.policy, context_.timings);
            trace_decision(*transfer, transfer->decision.scheme, transfer->decision.reason);
        }
        const Start now = start(*transfer, false);
        if (now == Start::kLater) later_.push_back(transfer);
        return now != Start::kNoRing;
    }));
}

// Begins the transfers that wait for a turn, in their order.
unsigned Receives::begin_later() {
    unsigned count = 0;
    for (; !later_.empty() && !context_.budget.over(); ++count) {
        Incoming& transfer = *later_.front();
        const Start now = start(transfer, waiting_.empty());
        if (now == Start::kLater) break;
        later_.pop_front();
        wait(transfer, now);
    }
    return count;
}

unsigned Receives::begin_waiting() {
    unsigned count = 0;
    if (!unconnected_.empty()) [[unlikely]]
        count += take_connected(unconnected_, [this](Incoming& transfer) { receive(transfer); });
    if (!later_.empty()) [[unlikely]]
        count += begin_later();
    while (!waiting_.empty()) {
        Incoming& transfer = *waiting_.front();
        const Start now = start(transfer, true);
        if (now == Start::kNoRing) break;
        waiting_.pop_front();
        wait(transfer, now);
        waits_ = 0;
        ++count;
    }
    if (!waiting_.empty() && ++waits_ >= kPatience) count += do_without_rings();
    while (!failures_.empty()) {
        Incoming* transfer = failures_.back();
        failures_.pop_back();
        over(*transfer, Status::kDevice);
        ++count;
    }
    return count;
}

bool Receives::pending(const Channel& channel, uint64_t until) const {
    return table_.any_pending(channel, until, [](const Incoming&) { return true; });
}

// The send queue keeps the order of reads that have all been posted.
bool Receives::may_be_overtaken(const Channel& channel, uint64_t until) const {
    return table_.any_pending(channel, until, [](const Incoming& transfer) {
        return transfer.state != Incoming::State::kReading || transfer.asked != transfer.length;
    });
}

void Receives::request_reports() const {
    for (const auto& transfer : table_)
        if (transfer->channel != nullptr)
            context_.engine.flushing().request_report(*transfer->channel);
}

// By index: a user who is told may begin transfers on other channels, and the table grows.
void Receives::ended(Channel& channel, Status status) {
    for (size_t i = 0; i < table_.size(); ++i)
        if (table_[i].channel == &channel) over(table_[i], status);
}

}  // namespace tern
