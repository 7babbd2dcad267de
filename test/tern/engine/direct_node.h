// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstring>
#include <deque>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "node.h"
#include "tern/connection/little_endian.h"
#include "tern/matching/messages.h"
#include "tern/tupleq/xrc/send.h"
#include "tern/tupleq/xrc/tupleq.h"

namespace tern::test {

inline TupleQSettings few_tuples() {
    return {.tuples = 4,
            .depth = 4,
            .sends = 16,
            .copy_most = 4096,
            .policy = {.least = 0},
            .retry = {.timeout = 10, .retries = 2}};
}

// An interface with direct messages, and minimal matching of ordinary messages. Without XRC,
// `tupleq` is null.
struct DirectNode final : EngineOwner, RendezvousOwner, TupleQOwner {
    struct Receive : TupleReceive {
        std::vector<char> memory;
        bool done = false;
        bool direct = false;
        bool canceled = false;
        uint64_t message_tag = 0;  // of a direct message
        Status status = Status::kOk;
        std::string text;
    };
    struct Header {
        uint64_t tag;
        uint32_t marked;
        TupleMark mark;
    };
    struct Message {
        uint64_t tag;
        std::string text;
    };

    explicit DirectNode(const TupleQSettings& direct_settings = few_tuples()) {
        std::string why;
        EngineSettings settings = quick_settings();
        settings.retry.timeout = 10;
        engine = Engine::create(device(), port(), settings, *this, why);
        EXPECT_TRUE(engine) << why;
        rendezvous = std::make_unique<Rendezvous>(*engine, regions, pins, *find_costs("graphene"),
                                                  RendezvousSettings{}, *this);
        tupleq = TupleQ::create({.device = device(),
                                 .port = port(),
                                 .engine = *engine,
                                 .rendezvous = *rendezvous,
                                 .regions = regions,
                                 .pins = pins,
                                 .posted = posted,
                                 .owner = *this},
                                direct_settings, why);
        EXPECT_EQ(tupleq != nullptr, has_xrc()) << why;
    }
    ~DirectNode() {
        tupleq.reset();
        rendezvous.reset();
        engine.reset();
    }

    void lost(const PeerAddress&, Status, const std::string& text) override {
        reasons.push_back(reason = text);
    }
    Status ended(Channel& channel, Status status) override {
        status = rendezvous->ended(channel, status);
        ++ends;
        return tupleq->ended(channel, status);
    }
    void left(Channel& channel) override { (void)rendezvous->ended(channel, Status::kCanceled); }
    void closed(void*, Status status) override { closures.push_back(status); }
    void on_probe_timeout(void*) override {}
    void broken(const std::string& why) override {
        breakdowns.push_back(why);
        tupleq->break_down();
    }
    void queue_failed(const void* identity, const std::string& what) override {
        tupleq->queue_failed(identity, what);
    }
    void warn(const std::string& text) override { warnings.push_back(text); }
    void message(uint32_t, const void*, uint32_t) { ADD_FAILURE() << "an active message"; }
    bool keeps(uint32_t, std::byte*, uint32_t) { return false; }
    void completed(void* cookie, Status status) override {
        if (Rendezvous::is_cookie(cookie)) return rendezvous->done(cookie, status);
        if (TupleQ::is_cookie(cookie)) return tupleq->done(cookie, status);
        completions.push_back(status);
    }
    void replied(uint32_t, const std::byte*, uint32_t) override { ADD_FAILURE() << "a reply"; }
    bool control(Channel& channel, uint32_t id, const std::byte* data, uint32_t length) {
        if (TagPause frame; id == static_cast<uint32_t>(TagControlId::kPause) &&
                            unpack(frame, data, length) && frame.valid()) {
            channel.user_state.as<bool>() = frame.pause != 0;
            pauses += frame.pause;
            return true;
        }
        return id < static_cast<uint32_t>(TupleControlId::kBind)
                   ? rendezvous->control(channel, id, data, length)
                   : tupleq->control(channel, id, data, length);
    }
    bool notified(Channel&, uint32_t) { return false; }

    static Header header_of(const std::byte* data) {
        Header header;
        memcpy(&header, data, sizeof(header));
        return header;
    }
    // An ordinary tagged message has come.
    bool tagged(Channel& channel, uint32_t id, const std::byte* data, uint32_t length) {
        using Verdict = TupleQ::Arrival::Verdict;
        const Header header = header_of(data);
        ++ordinary;
        const auto arrival = tupleq->receiver().ordinary(
            channel, header.tag, header.marked != 0 ? &header.mark : nullptr, 0);
        if (arrival.verdict == Verdict::kHold)
            tupleq->receiver().hold(channel, id, data, length);
        else if (arrival.verdict == Verdict::kMatched)
            match(arrival, data, length);
        tupleq->receiver().delivered();
        return arrival.verdict != Verdict::kBroken;
    }
    void match(const TupleQ::Arrival& arrival, const std::byte* data, size_t length) {
        const Message message{
            header_of(data).tag,
            {reinterpret_cast<const char*>(data) + sizeof(Header), length - sizeof(Header)}};
        if (arrival.receive == 0)
            unexpected.push_back(message);
        else
            fill(static_cast<Receive&>(TupleTable::receive(arrival.receive)), message.text);
    }
    static void fill(Receive& receive, const std::string& text) {
        EXPECT_FALSE(receive.done) << "it has had a message";
        receive.done = true;
        receive.text = text;
    }

    void taken(TupleReceive& receive) override {
        EXPECT_FALSE(receive.posted);
        ++takings;
    }
    void received(TupleReceive& direct_receive, uint64_t tag, uint32_t length,
                  Status status) override {
        auto& receive = static_cast<Receive&>(direct_receive);
        EXPECT_FALSE(receive.posted);
        receive.direct = true;
        receive.message_tag = tag;
        receive.status = status;
        fill(receive, {receive.memory.data(), length});
    }
    void canceled(TupleReceive& receive) override {
        static_cast<Receive&>(receive).canceled = true;
    }
    void retry(uint32_t peer) override {
        while (const HeldFrames::Frame* const first = tupleq->receiver().held().first(peer)) {
            const auto arrival = tupleq->receiver().retry(peer, header_of(first->bytes.data()).tag);
            if (arrival.verdict != TupleQ::Arrival::Verdict::kMatched) {
                EXPECT_EQ(arrival.verdict, TupleQ::Arrival::Verdict::kHold);
                return;
            }
            const HeldFrames::Frame held = tupleq->receiver().held().take(peer);
            match(arrival, held.bytes.data(), held.bytes.size());
        }
    }

    Channel* attach(const DirectNode& other) {
        std::string why;
        Channel* channel = engine->attach(other.engine->address(), this, why);
        EXPECT_NE(channel, nullptr) << why;
        return channel;
    }
    Receive& post(uint64_t tag, size_t room = 64, uint64_t mask = PostedReceive::kFullMask) {
        Receive& receive = receives.emplace_back();
        receive.memory.resize(room);
        receive.buffer = reinterpret_cast<std::byte*>(receive.memory.data());
        receive.room = room;
        for (auto it = unexpected.begin(); it != unexpected.end(); ++it) {
            if (((it->tag ^ tag) & mask) != 0) continue;
            fill(receive, it->text);
            unexpected.erase(it);
            return receive;
        }
        posted.post(receive, tag, mask);
        tupleq->receiver().posted(receive);
        return receive;
    }
    // Sends a message, direct if possible. False: not now.
    bool send(Channel& channel, uint64_t tag, const std::string& text, bool zcopy = false) {
        if (channel.user_state.as<bool>()) return false;
        TupleQ::Tuple* tuple = tupleq->sender().find(channel, tag);
        const auto length = static_cast<uint32_t>(text.size());
        if (tuple != nullptr && channel.up() && tupleq->sender().may_send(*tuple, tag, length)) {
            const Status status = zcopy && length != 0
                                      ? tupleq->sender().send_zcopy(channel, *tuple, text.data(),
                                                                    length, &completions)
                                      : tupleq->sender().send(channel, *tuple, text.data(), length);
            if (status != Status::kNoResource) return true;
        }
        uint32_t size = 0;
        const Status status = engine->am_bcopy(
            channel, tag_message(0),
            [&](void* to) {
                Header header{tag, tuple != nullptr, {}};
                if (tuple != nullptr) header.mark = DirectSender::mark(*tuple);
                memcpy(to, &header, sizeof(header));
                memcpy(static_cast<char*>(to) + sizeof(header), text.data(), text.size());
                return static_cast<uint32_t>(sizeof(header) + text.size());
            },
            size);
        return status == Status::kOk;
    }
    void poll() {
        unsigned count = 0;
        (void)engine->poll(*this, count);
        (void)rendezvous->progress();
        (void)tupleq->progress();
    }

    Regions regions;
    PinCache pins{device().pd.get(), {.monitor = MonitorKind::kUserfaultfd}};
    PostedReceives posted{64};
    std::list<Receive> receives;
    std::deque<Message> unexpected;
    std::unique_ptr<Engine> engine;
    std::unique_ptr<Rendezvous> rendezvous;
    std::unique_ptr<TupleQ> tupleq;
    std::vector<Status> completions;
    std::vector<Status> closures;
    std::vector<std::string> warnings;
    std::vector<std::string> breakdowns;
    std::vector<std::string> reasons;  // of lost connections
    std::string reason;                // the last of them
    unsigned ordinary = 0;
    unsigned takings = 0;
    unsigned ends = 0;
    unsigned pauses = 0;  // that peers have asked for
};

}  // namespace tern::test
