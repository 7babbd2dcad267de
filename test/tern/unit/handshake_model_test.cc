// SPDX-License-Identifier: BSD-3-Clause
// The handshake of two sides: all orders of events, for few messages, lost and repeated packets,
// ends and failures; and that each rule is needed.
#include <gtest/gtest.h>

#include <optional>

#include "exhaustive.h"
#include "schedules.h"
#include "tern/connection/handshake.h"

namespace tern {
namespace handshake_model_test {

// A rule that is left out.
enum class Without : uint8_t {
    kNothing,
    kRepeat,            // a side sends again what is not answered
    kReady,             // a side is up only when the other one's queue pair is connected
    kKnowsReady,        // who does not know that this side is ready is answered
    kGoneTokens,        // kGone ends the connection that it names only
    kDisconnectTokens,  // so does kDisconnect
    kConnectTokens,     // a kConnect that names another connection is not for this one
    kNewer,             // a newer kConnect ends the known connection
    kStray,             // packets for a connection that is over are answered
    kDrained,           // a connection ends when the operations of both sides are over
    kNewToken,          // each connection has a token of its own
};

struct Scenario {
    const char* name = "";
    std::array<uint8_t, 2> sends{};
    std::array<uint8_t, 2> ends{};
    std::array<uint8_t, 2> failures{};
    uint8_t losses = 0;
    uint8_t repeats = 0;
    uint8_t early = 0;  // retransmissions while something else could happen
    // Packets that overtake others. A network that holds the first packet of each attempt until the
    // attempt is over could keep two sides from connecting for ever.
    uint8_t overtakes = 4;
};

struct Move {
    enum class Kind : uint8_t {
        kSend,
        kOpen,  // messages wait, and there is no connection
        kDeliver,
        kLose,
        kRepeat,
        kTick,
        kData,
        kEnd,
        kDrained,
        kFail,
    };
    Kind kind;
    uint32_t which;      // side, or place in the network
    bool costs = false;  // an early retransmission, or a packet that overtakes another

    std::string text() const {
        constexpr const char* kNames[] = {"send", "open", "deliver", "lose",    "repeat",
                                          "tick", "data", "end",     "drained", "fail"};
        return kNames[static_cast<size_t>(kind)] + (" " + std::to_string(which));
    }
};

class HandshakeModel {
  public:
    HandshakeModel(const Scenario& scenario, Without without) : without_(without), left_(scenario) {
        for (uint32_t i = 0; i < 2; ++i) {
            sides_[i].address.port.has_lid = true;
            sides_[i].address.port.lid = static_cast<uint16_t>(1 + i);
            sides_[i].address.interface = {1 + i, 1 + i};
            sides_[i].last_token = 10 * (1 + i);
        }
    }

    std::vector<Move> moves() const {
        using Kind = Move::Kind;
        std::vector<Move> all;
        for (uint32_t i = 0; i < network_.size(); ++i) {
            if (std::find_if(network_.begin(), network_.begin() + i, [&](const Packet& other) {
                    return hash(other) == hash(network_[i]);
                }) != network_.begin() + i)
                continue;
            const bool overtakes = overtaken(i);
            if (overtakes && left_.overtakes == 0) continue;
            all.push_back({Kind::kDeliver, i, overtakes});
            if (left_.losses != 0) all.push_back({Kind::kLose, i});
            if (left_.repeats != 0) all.push_back({Kind::kRepeat, i});
        }
        for (uint32_t i = 0; i < 2; ++i) {
            const Side& side = sides_[i];
            if (left_.sends[i] != 0) all.push_back({Kind::kSend, i});
            if (!side.handshake) {
                if (side.waiting != 0) all.push_back({Kind::kOpen, i});
                continue;
            }
            const Qp& own = side.qps.back();
            const bool idle = own.acked == own.posted;
            if (!idle) all.push_back({Kind::kData, i});
            if (up(side) && idle && left_.ends[i] != 0) all.push_back({Kind::kEnd, i});
            if (side.draining && (idle || without_ == Without::kDrained))
                all.push_back({Kind::kDrained, i});
            if (left_.failures[i] != 0) all.push_back({Kind::kFail, i});
        }
        // Time passes when nothing else can happen, and sometimes before.
        const bool early = !all.empty();
        if (without_ == Without::kRepeat || (early && left_.early == 0)) return all;
        for (uint32_t i = 0; i < 2; ++i)
            if (sides_[i].handshake && sides_[i].handshake->deadline() != UINT64_MAX)
                all.push_back({Kind::kTick, i, early});
        return all;
    }

    void apply(const Move& move) {
        using Kind = Move::Kind;
        switch (move.kind) {
            case Kind::kSend:
                --left_.sends[move.which];
                ++sides_[move.which].waiting;
                return post_waiting(move.which);
            case Kind::kOpen:
                return open(move.which, nullptr);
            case Kind::kDeliver:
                if (move.costs) --left_.overtakes;
                return receive(take(move.which));
            case Kind::kLose:
                --left_.losses;
                (void)take(move.which);
                return;
            case Kind::kRepeat: {
                --left_.repeats;
                const Packet packet = network_[move.which];
                return receive(packet);
            }
            case Kind::kTick: {
                if (move.costs) --left_.early;
                Side& side = sides_[move.which];
                side.now = side.handshake->deadline();
                const auto actions = side.handshake->tick(side.now);
                if (actions.closed) broken("a side gives up, though packets arrive");
                return act(move.which, actions);
            }
            case Kind::kData:
                return data(move.which);
            case Kind::kEnd:
                --left_.ends[move.which];
                return act(move.which,
                           sides_[move.which].handshake->disconnect(sides_[move.which].now, {}));
            case Kind::kDrained:
                return act(move.which, sides_[move.which].handshake->drained({}));
            case Kind::kFail:
                --left_.failures[move.which];
                failed_ = true;
                return act(move.which, sides_[move.which].handshake->abandon(), true);
        }
    }

    void expect_end() {
        for (const Side& side : sides_) {
            if (side.handshake && !up(side)) broken("a side is stuck");
            if (side.waiting != 0) broken("a message waits for ever");
        }
        if (sides_[0].handshake && sides_[1].handshake &&
            (sides_[0].qps.back().connected_to != sides_[1].handshake->token() ||
             sides_[1].qps.back().connected_to != sides_[0].handshake->token()))
            broken("both sides are up, but not with each other");
        if (!failed_ && sides_[0].delivered + sides_[1].delivered != sent_)
            broken("a message is lost");
    }
    const std::string& wrong() const { return wrong_; }

    Digest digest() const {
        Digester sink;
        for (const Side& side : sides_) {
            sink(side.handshake.has_value());
            if (side.handshake) side.handshake->save(sink, side.now);
            sink(side.last_token), sink(side.waiting), sink(side.delivered);
            sink(side.established), sink(side.draining);
            for (const Qp& qp : side.qps) {
                sink(qp.token), sink(qp.connected_to), sink(qp.alive), sink(qp.aborted);
                sink(qp.posted), sink(qp.acked), sink(qp.arrived);
            }
        }
        for (const Packet& packet : network_) sink(hash(packet));
        sink(network_.size()), sink(sent_), sink(failed_), sink(left_.overtakes);
        for (int i = 0; i < 2; ++i)
            sink(left_.sends[i]), sink(left_.ends[i]), sink(left_.failures[i]);
        sink(left_.losses), sink(left_.repeats), sink(left_.early);
        return sink.digest();
    }

  private:
    // Its number is the token of its connection.
    struct Qp {
        uint32_t token = 0;
        uint32_t connected_to = 0;
        bool alive = true;
        bool aborted = false;
        uint32_t posted = 0;   // messages
        uint32_t acked = 0;    // of them: at the other end
        uint32_t arrived = 0;  // from the other end
    };
    struct Side {
        PeerAddress address;
        std::optional<Handshake> handshake;
        uint32_t last_token = 0;
        uint64_t now = 0;
        bool established = false;
        bool draining = false;
        uint32_t waiting = 0;
        uint32_t delivered = 0;  // messages of the other side
        std::vector<Qp> qps;     // the last one is that of the connection
    };

    // Each retransmission takes one unit of time, and the limit is more than are ever needed.
    static constexpr HandshakeTimes kTimes{1, 1, 7, 7, 0};

    static bool up(const Side& side) {
        return side.handshake && side.handshake->state() == Handshake::State::kUp;
    }
    static uint64_t hash(const Packet& packet) {
        Digester sink;
        sink(static_cast<uint64_t>(packet.type)), sink(packet.ready), sink(packet.knows_ready);
        sink(packet.token), sink(packet.peer_token), sink(packet.to.qp_num);
        sink(packet.type == PacketType::kConnect ? packet.qp.qp_num : 0);
        return sink.digest()[1];
    }
    void broken(const char* rule) {
        if (wrong_.empty()) wrong_ = rule;
    }
    // Whether an older packet for the same side is still under way.
    bool overtaken(uint32_t place) const {
        return std::any_of(network_.begin(), network_.begin() + place,
                           [&](const Packet& older) { return older.to == network_[place].to; });
    }
    Packet take(uint32_t place) {
        const Packet packet = network_[place];
        network_.erase(network_.begin() + place);
        return packet;
    }

    void open(uint32_t index, const Packet* packet) {
        Side& side = sides_[index];
        if (without_ != Without::kNewToken || side.qps.empty()) ++side.last_token;
        side.qps.push_back({.token = side.last_token});
        side.established = side.draining = false;
        side.handshake.emplace(side.last_token, side.address, sides_[1 - index].address,
                               QpParameters{side.last_token, 3, 1}, kTimes);
        act(index, packet != nullptr ? side.handshake->receive(*packet, side.now)
                                     : side.handshake->connect(side.now));
    }

    void receive(Packet packet) {
        const uint32_t index = packet.to.qp_num - 1;
        Side& side = sides_[index];
        if (!side.handshake) return stray(index, packet);
        if (!leave_out(*side.handshake, packet)) return;
        const auto actions = side.handshake->receive(packet, side.now);
        act(index, actions);
        if (actions.closed && packet.type == PacketType::kConnect) stray(index, packet);
    }
    // Changes the packet as if a rule did not look at a part of it. False: it has no effect.
    bool leave_out(const Handshake& handshake, Packet& packet) const {
        const bool connect = packet.type == PacketType::kConnect;
        const auto same_connection = [&] {
            packet.peer_token = handshake.token();
            if (handshake.peer_token() != 0) packet.token = handshake.peer_token();
        };
        switch (without_) {
            case Without::kReady:
                if (connect) packet.ready = true;
                return true;
            case Without::kKnowsReady:
                if (connect && handshake.peer_token() != 0) packet.knows_ready = true;
                return true;
            case Without::kGoneTokens:
                if (packet.type == PacketType::kGone) same_connection();
                return true;
            case Without::kDisconnectTokens:
                if (packet.type == PacketType::kDisconnect) same_connection();
                return true;
            case Without::kConnectTokens:
                if (connect && packet.peer_token != 0) packet.peer_token = handshake.token();
                return true;
            case Without::kNewer:
                return !connect || handshake.peer_token() == 0 ||
                       packet.token <= handshake.peer_token();
            default:
                return true;
        }
    }
    void stray(uint32_t index, const Packet& packet) {
        if (packet.type == PacketType::kConnect && packet.peer_token == 0)
            return open(index, &packet);
        if (without_ == Without::kStray) return;
        if (const auto answer = answer_stray(packet, sides_[index].address))
            network_.push_back(*answer);
    }

    void act(uint32_t index, const Handshake::Actions& actions, bool failed = false) {
        Side& side = sides_[index];
        Qp& own = side.qps.back();
        if (actions.connect_qp) {
            if (own.connected_to != 0) broken("a queue pair is connected twice");
            own.connected_to = side.handshake->peer().qp_num;
        }
        if (actions.send) network_.push_back(actions.packet);
        if (actions.established) {
            if (side.established) broken("a connection is established twice");
            side.established = true;
            const Qp* const end = end_of(index);
            if (end == nullptr || end->connected_to != own.token)
                broken("a side is up, but the queue pairs are not connected to each other");
            post_waiting(index);
        }
        if (actions.drain) side.draining = true;
        if (!actions.closed) return;
        own.alive = false;
        own.aborted = failed || actions.lost || actions.timed_out;
        const Qp* const end = end_of(index);
        if (actions.lost && end != nullptr && end->alive && end->connected_to == own.token)
            broken("a connection is called lost that the other side still has");
        if (!own.aborted && own.acked != own.posted)
            broken("an orderly end with messages outstanding");
        if (!own.aborted && end != nullptr && end->connected_to == own.token && !end->aborted &&
            end->posted != own.arrived)
            broken("an orderly end loses messages of the other side");
        // What was posted and did not arrive is lost with the connection.
        if (own.aborted && own.acked != own.posted) failed_ = true;
        side.handshake.reset();
    }
    // The queue pair to which that of this side is connected.
    Qp* end_of(uint32_t index) {
        const uint32_t token = sides_[index].qps.back().connected_to;
        for (Qp& qp : sides_[1 - index].qps)
            if (qp.token == token) return &qp;
        return nullptr;
    }

    void post_waiting(uint32_t index) {
        Side& side = sides_[index];
        if (!up(side)) return;
        side.qps.back().posted += side.waiting;
        sent_ += side.waiting;
        side.waiting = 0;
    }
    // The next message arrives and is used. If there is no end any more, the queue pair fails.
    void data(uint32_t index) {
        Qp& own = sides_[index].qps.back();
        Qp* const end = end_of(index);
        if (end == nullptr || !end->alive || end->connected_to != own.token) {
            if (!failed_) broken("the end of a queue pair is missing");
            return act(index, sides_[index].handshake->abandon(), true);
        }
        ++own.acked;
        ++end->arrived;
        Side& other = sides_[1 - index];
        ++other.delivered;
        act(1 - index, other.handshake->data_arrived(other.now));
    }

    const Without without_;
    Scenario left_;
    Side sides_[2];
    std::vector<Packet> network_;
    uint32_t sent_ = 0;  // messages posted
    bool failed_ = false;
    std::string wrong_;
};

const Scenario kScenarios[] = {
    {.name = "BothConnect", .sends = {1, 1}, .losses = 1, .repeats = 1, .early = 1},
    {.name = "OneConnects", .sends = {2, 0}, .losses = 2, .repeats = 1, .early = 1},
    {.name = "Ends", .sends = {1, 1}, .ends = {1, 0}, .repeats = 1},
    {.name = "BothEnd", .sends = {1, 1}, .ends = {1, 1}, .losses = 1},
    {.name = "ConnectsAgain", .sends = {2, 0}, .ends = {1, 1}, .repeats = 2},
    {.name = "Fails", .sends = {2, 1}, .failures = {1, 0}, .repeats = 1, .overtakes = 2},
    {.name = "BothFail", .sends = {1, 1}, .failures = {1, 1}, .losses = 1, .overtakes = 1},
};

class HandshakeModels : public testing::TestWithParam<Scenario> {};

TEST_P(HandshakeModels, EveryOrderOfEvents) {
    Exhaustive<HandshakeModel> search;
    EXPECT_TRUE(search.run(HandshakeModel(GetParam(), Without::kNothing))) << search.report();
    if (number_from_environment("TERN_VERBOSE", 0) != 0)
        printf("%s: %lu states, %lu ends\n", GetParam().name, search.states(), search.ends());
}

INSTANTIATE_TEST_SUITE_P(All, HandshakeModels, testing::ValuesIn(kScenarios),
                         [](const auto& each) { return std::string(each.param.name); });

struct Rule {
    Without without;
    const char* name;
    const char* scenario;
    const char* wrong;
};

constexpr const char* kStuck = "a side is stuck";
constexpr const char* kNotConnected =
    "a side is up, but the queue pairs are not connected to each other";
constexpr const char* kGivesUp = "a side gives up, though packets arrive";
constexpr const char* kNoEnd = "the end of a queue pair is missing";
constexpr const char* kLoses = "an orderly end loses messages of the other side";
constexpr const char* kOutstanding = "an orderly end with messages outstanding";

const Rule kRules[] = {
    {Without::kRepeat, "Repeat", "BothConnect", kStuck},
    {Without::kReady, "Ready", "BothConnect", kNotConnected},
    {Without::kKnowsReady, "KnowsReady", "BothConnect", kGivesUp},
    {Without::kGoneTokens, "GoneTokens", "ConnectsAgain", kNoEnd},
    {Without::kDisconnectTokens, "DisconnectTokens", "ConnectsAgain", kLoses},
    {Without::kConnectTokens, "ConnectTokens", "ConnectsAgain", kNotConnected},
    {Without::kNewer, "Newer", "Fails", kGivesUp},
    {Without::kStray, "Stray", "BothEnd", kGivesUp},
    {Without::kDrained, "Drained", "Ends", kOutstanding},
    {Without::kNewToken, "NewToken", "ConnectsAgain", kLoses},
};

class HandshakeRule : public testing::TestWithParam<Rule> {};

TEST_P(HandshakeRule, IsMissedWhenItIsLeftOut) {
    const auto scenario = std::find_if(
        std::begin(kScenarios), std::end(kScenarios),
        [](const Scenario& each) { return std::string(each.name) == GetParam().scenario; });
    ASSERT_NE(scenario, std::end(kScenarios));
    Exhaustive<HandshakeModel> search;
    EXPECT_FALSE(search.run(HandshakeModel(*scenario, GetParam().without)));
    EXPECT_TRUE(search.report().starts_with(GetParam().wrong)) << search.report();
}

INSTANTIATE_TEST_SUITE_P(All, HandshakeRule, testing::ValuesIn(kRules),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace handshake_model_test
}  // namespace tern
