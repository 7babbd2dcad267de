// SPDX-License-Identifier: BSD-3-Clause
// The end of a connection: all orders of frames, ends, packets, polls and the next connection, for
// few frames; and that each rule is needed.
#include <gtest/gtest.h>

#include <deque>
#include <optional>

#include "exhaustive.h"
#include "tern/connection/handshake.h"
#include "tern/connection/hearing.h"

namespace tern {
namespace close_model_test {

// A rule that is left out.
enum class Without : uint8_t {
    kNothing,
    kTaking,  // what has come is taken after the end too
    kMarker,  // a work request in the error state marks the end of what has come
    kRound,   // a round of polls follows the marker
    kNames,   // a side that ends a connection in good order names its frames
};

enum class End : uint8_t {
    kSenderLeaves,
    kSenderFails,  // or its interface closes
    kReceiverLeaves,
    kReceiverFails,  // as when it is flushed by force
};

struct Scenario {
    std::string frames;  // of the sender: 'h' by the block, 'c' cold
    End end = End::kSenderLeaves;
    // The device may complete the marker before it has placed all that it has acknowledged.
    bool late = false;

    bool orderly() const { return end == End::kSenderLeaves || end == End::kReceiverLeaves; }
};

struct Move {
    enum class Kind : uint8_t {
        kSend,    // a frame is posted
        kArrive,  // the receiver's device takes and acknowledges it
        kPlace,   // and makes it visible
        kEnd,
        kFlush,  // the device completes the marker
        kQueue,  // the receiver polls its completion queue,
        kBlock,  // looks at its block,
        kRest,   // and, after a round of both, handles packets and looks at what is over
        kAgain,  // the sender connects again in the background, and a cold frame arrives
    };
    Kind kind;

    std::string text() const {
        constexpr const char* kNames[] = {"send",  "arrive", "place", "end",  "flush",
                                          "queue", "block",  "rest",  "again"};
        return kNames[static_cast<size_t>(kind)];
    }
};

// The connection of a sender and a receiver is up. The sender handles packets at once; those to the
// receiver overtake its frames.
class CloseModel {
  public:
    CloseModel(const Scenario& scenario, Without without) : scenario_(scenario), without_(without) {
        const QpParameters qp{1, 3, QpParameters::kVersion};
        sender_.emplace(1, kSender, kReceiver, qp, kTimes);
        receiver_.emplace(2, kReceiver, kSender, qp, kTimes);
        const Packet answer = receiver_->receive(sender_->connect(0).packet, 0).packet;
        (void)receiver_->receive(sender_->receive(answer, 0).packet, 0);
    }

    std::vector<Move> moves() const {
        using Kind = Move::Kind;
        std::vector<Move> all;
        const auto may = [&all](Kind kind, bool so) {
            if (so) all.push_back({kind});
        };
        const bool sends = sender_->state() == Handshake::State::kUp;
        may(Kind::kSend, sends && sent_ < scenario_.frames.size());
        may(Kind::kArrive, arrived_ < sent_ && !over_ && !is_closed(*sender_));
        may(Kind::kPlace, placed_ < arrived_ || next_ == Next::kArrived);
        may(Kind::kEnd, !ended_ && (scenario_.end != End::kSenderLeaves || arrived_ == sent_));
        may(Kind::kFlush, over_ && marker_ && (scenario_.late || placed_ == arrived_));
        may(Kind::kQueue, queue_has_news() || (round_ == Round::kNone && wants_round()));
        may(Kind::kBlock, next_is('h') || round_ == Round::kQueue);
        may(Kind::kRest, round_ == Round::kBlock);
        may(Kind::kAgain, told_ && is_closed(*sender_) && next_ == Next::kNot);
        return all;
    }

    void apply(const Move& move) {
        using Kind = Move::Kind;
        switch (move.kind) {
            case Kind::kSend:
                ++sent_;
                break;
            case Kind::kArrive:
                ++arrived_;
                drain();
                break;
            case Kind::kPlace:
                if (placed_ < arrived_)
                    ++placed_;
                else
                    next_ = Next::kPlaced;
                break;
            case Kind::kEnd:
                end();
                break;
            case Kind::kFlush:
                marker_ = false;
                flushed_ = true;
                break;
            case Kind::kQueue:
                poll_queue();
                break;
            case Kind::kBlock:
                while (next_is('h')) ++taken_;
                if (round_ == Round::kQueue) round_ = Round::kBlock;
                break;
            case Kind::kRest:
                rest();
                break;
            case Kind::kAgain:
                next_ = Next::kArrived;
                break;
        }
    }

    void expect_end() {
        if (!told_) broken("the end is not told");
        if (taken_ != arrived_) broken("a frame is lost that was flushed");
        if (scenario_.orderly() && arrived_ != sent_) broken("an orderly end loses a frame");
        if (next_ != Next::kTaken) broken("a frame of the next connection is lost");
    }
    const std::string& wrong() const { return wrong_; }
    Digest digest() const {
        Digester sink;
        sender_->save(sink, 0), receiver_->save(sink, 0);
        sink(sent_), sink(arrived_), sink(placed_), sink(taken_), sink(gathered_);
        for (const Packet& each : packets_) sink(static_cast<uint64_t>(each.type));
        sink(packets_.size()), sink(ended_), sink(over_), sink(marker_), sink(flushed_);
        sink(idle_), sink(told_), sink(looks_), sink(static_cast<uint64_t>(round_));
        sink(static_cast<uint64_t>(next_));
        return sink.digest();
    }

  private:
    enum class Next : uint8_t { kNot, kArrived, kPlaced, kTaken };  // the next connection's frame
    enum class Round : uint8_t { kNone, kQueue, kBlock };           // what has been looked at

    static constexpr HandshakeTimes kTimes{1, 1, 7, 7, 0};
    static inline const PeerAddress kSender{{}, {1, 1}};
    static inline const PeerAddress kReceiver{{}, {2, 2}};

    static bool is_closed(const Handshake& handshake) {
        return handshake.state() == Handshake::State::kClosed;
    }
    void broken(const char* rule) {
        if (wrong_.empty()) wrong_ = rule;
    }
    // Of the first frames.
    SentFrames count(uint32_t frames) const {
        SentFrames sent;
        for (const char each : scenario_.frames.substr(0, frames))
            ++(each == 'h' ? sent.hot : sent.cold);
        return sent;
    }
    bool complete() const {
        const auto& named = receiver_->peer_sent();
        const SentFrames taken = count(taken_);
        return without_ == Without::kNames || !named ||
               (taken.hot >= named->hot && taken.cold >= named->cold);
    }

    // Whether the next frame is visible, and came by this path.
    bool next_is(char path) const {
        return taken_ < placed_ && scenario_.frames[taken_] == path &&
               !(over_ && without_ == Without::kTaking);
    }
    bool queue_has_news() const {
        const size_t cold = scenario_.frames.substr(0, placed_).find('c', taken_);
        const bool any = cold != std::string::npos && !(over_ && without_ == Without::kTaking);
        return any || flushed_ || next_ == Next::kPlaced;
    }
    bool wants_round() const {
        if (!packets_.empty()) return true;
        return over_ && !told_ && hearing_.wants_look(idle_) && (looks_ < 2 || complete());
    }

    // A cold frame takes those of the block that precede it.
    void poll_queue() {
        if (round_ == Round::kNone) {
            round_ = Round::kQueue;
            gathered_ = packets_.size();
        }
        while (next_is('c') || (next_is('h') && queue_has_cold())) ++taken_;
        idle_ = idle_ || flushed_;
        flushed_ = false;
        if (next_ != Next::kPlaced) return;
        if (taken_ != arrived_) broken("a frame of the next connection comes first");
        next_ = Next::kTaken;
    }
    bool queue_has_cold() const {
        return scenario_.frames.substr(0, placed_).find('c', taken_) != std::string::npos;
    }

    void rest() {
        round_ = Round::kNone;
        for (; gathered_ != 0; --gathered_) {
            const Packet packet = packets_.front();
            packets_.pop_front();
            from_receiver(receiver_->receive(packet, 0));
        }
        if (!over_ || told_) return;
        ++looks_;
        told_ =
            hearing_.look(idle_, complete(), looks_, 0) || (without_ == Without::kRound && idle_);
        const bool visible = !scenario_.late || scenario_.orderly();
        if (told_ && visible && taken_ != arrived_)
            broken("the end is told before a frame that was flushed");
    }

    void end() {
        ended_ = true;
        switch (scenario_.end) {
            case End::kSenderLeaves:
                return from_sender(sender_->disconnect(0, count(sent_)));
            case End::kSenderFails:
                return from_sender(sender_->abandon());
            case End::kReceiverLeaves:
                return from_receiver(receiver_->disconnect(0, {}));
            case End::kReceiverFails:
                return from_receiver(receiver_->abandon());
        }
    }
    void from_sender(const Handshake::Actions& actions) {
        if (actions.send) packets_.push_back(actions.packet);
        drain();
    }
    void drain() {
        if (sender_->state() == Handshake::State::kDraining && arrived_ == sent_)
            packets_.push_back(sender_->drained(count(sent_)).packet);
    }
    void from_receiver(const Handshake::Actions& actions) {
        if (actions.closed) {
            over_ = true;
            marker_ = without_ != Without::kMarker;
            idle_ = !marker_;
        }
        if (actions.send) from_sender(sender_->receive(actions.packet, 0));
        if (actions.drain) from_receiver(receiver_->drained({}));
    }

    Scenario scenario_;
    Without without_;
    std::optional<Handshake> sender_, receiver_;
    std::deque<Packet> packets_;  // to the receiver
    size_t gathered_ = 0;         // of them: before the round
    uint32_t sent_ = 0, arrived_ = 0, placed_ = 0, taken_ = 0;
    uint32_t looks_ = 0;
    Round round_ = Round::kNone;
    bool ended_ = false, told_ = false;
    bool over_ = false;     // the receiver's queue pair is in error
    bool marker_ = false;   // it has a marker; ...
    bool flushed_ = false;  // ... whose completion is in the queue; ...
    bool idle_ = false;     // ... and is taken
    Next next_ = Next::kNot;
    Hearing hearing_;
    std::string wrong_;
};

std::string run(const Scenario& scenario, Without without, uint64_t* states = nullptr) {
    Exhaustive<CloseModel> search;
    const bool good = search.run(CloseModel(scenario, without));
    if (states != nullptr) *states += search.states();
    return good ? "" : search.report();
}

std::vector<Scenario> scenarios() {
    std::vector<Scenario> all;
    for (const char* frames : {"", "c", "h", "cc", "hh", "ch", "hc", "chc", "hch", "hhc", "cchh"})
        for (const End end :
             {End::kSenderLeaves, End::kSenderFails, End::kReceiverLeaves, End::kReceiverFails})
            for (const bool late : {false, true}) {
                const Scenario scenario{frames, end, late};
                // Nobody names the frames of a side that fails.
                if (!late || scenario.orderly()) all.push_back(scenario);
            }
    return all;
}

TEST(CloseModel, WhatIsFlushedIsDeliveredBeforeTheEndIsTold) {
    uint64_t states = 0;
    for (const Scenario& scenario : scenarios())
        EXPECT_EQ(run(scenario, Without::kNothing, &states), "")
            << "frames " << scenario.frames << ", end " << static_cast<int>(scenario.end)
            << (scenario.late ? ", placed late" : "");
    EXPECT_GT(states, 1000u);
}

TEST(CloseModel, EachRuleIsNeeded) {
    for (const Without without :
         {Without::kTaking, Without::kMarker, Without::kRound, Without::kNames}) {
        const auto all = scenarios();
        EXPECT_TRUE(
            std::any_of(all.begin(), all.end(),
                        [&](const Scenario& scenario) { return !run(scenario, without).empty(); }))
            << "rule " << static_cast<int>(without);
    }
}

// A peer may name frames that never come.
TEST(Hearing, WaitsForNamedFramesForALimitedTime) {
    Hearing hearing;
    EXPECT_FALSE(hearing.wants_look(false)) << "a completion is to come";
    hearing.begin(7);
    EXPECT_FALSE(hearing.look(false, true, 8, 0));
    EXPECT_TRUE(hearing.wants_look(true));
    EXPECT_FALSE(hearing.look(true, false, 9, 1)) << "a round of polls comes first";
    EXPECT_FALSE(hearing.look(true, true, 9, 2)) << "it is the same round";
    EXPECT_FALSE(hearing.look(true, false, 10, 2));
    EXPECT_TRUE(hearing.wants_look(true));
    EXPECT_FALSE(hearing.look(true, false, 11, 999'999'999));
    EXPECT_TRUE(hearing.look(true, false, 12, 1'000'000'002));
}

}  // namespace close_model_test
}  // namespace tern
