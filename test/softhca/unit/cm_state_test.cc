// SPDX-License-Identifier: BSD-3-Clause
// The states of two identifiers that connect, in every order of what their programs do, of their
// messages, and of one's death.
#include "softhca/cm/state.h"

#include <gtest/gtest.h>

#include <deque>
#include <set>
#include <string>
#include <vector>

namespace softhca::cm {
namespace {

struct Side {
    State state;
    bool alive = true;
    bool peer_gone = false;                        // and this side has been told
    std::string events;                            // that the program got, a letter each
    std::deque<std::optional<MessageKind>> inbox;  // nothing: the end of the connection
};

struct Both {
    Side side[2];

    std::string key() const {
        std::string text;
        for (const Side& one : side) {
            text += std::to_string(static_cast<int>(one.state)) + (one.alive ? "a" : "d") +
                    (one.peer_gone ? "g" : "-") + one.events + ":";
            for (const auto& message : one.inbox)
                text += message ? std::to_string(static_cast<int>(*message)) : "x";
            text += '|';
        }
        return text;
    }
};

char letter(rdma_cm_event_type event) {
    switch (event) {
        case RDMA_CM_EVENT_CONNECT_RESPONSE:
            return 'p';
        case RDMA_CM_EVENT_ESTABLISHED:
            return 'e';
        case RDMA_CM_EVENT_REJECTED:
            return 'r';
        case RDMA_CM_EVENT_UNREACHABLE:
            return 'u';
        case RDMA_CM_EVENT_DISCONNECTED:
            return 'd';
        case RDMA_CM_EVENT_CONNECT_REQUEST:
            return 'q';
        default:
            return '?';
    }
}

Input input_of(MessageKind kind) {
    switch (kind) {
        case MessageKind::kRequest:
            return Input::kRequest;
        case MessageKind::kReply:
            return Input::kReply;
        case MessageKind::kReject:
            return Input::kRejected;
        case MessageKind::kReady:
            return Input::kReady;
        case MessageKind::kDisconnect:
            return Input::kDisconnectRequest;
        default:
            return Input::kDisconnectReply;
    }
}

// False if the input does not fit.
bool give(Both& both, int who, Input input) {
    Side& side = both.side[who];
    const auto next = step(side.state, input);
    if (!next) return false;
    side.state = next->next;
    if (next->event) side.events += letter(*next->event);
    Side& peer = both.side[1 - who];
    if (next->message && peer.alive) peer.inbox.push_back(*next->message);
    return true;
}

void deliver(Both& both, int who) {
    Side& side = both.side[who];
    const auto message = side.inbox.front();
    side.inbox.pop_front();
    if (!message) side.peer_gone = true;
    give(both, who, message ? input_of(*message) : Input::kHangUp);
}

// The program destroys its identifier, or is killed, which says no farewell.
void end(Both& both, int who, bool killed) {
    Side& side = both.side[who];
    Side& peer = both.side[1 - who];
    if (!killed && peer.alive)
        if (const auto kind = farewell(side.state)) peer.inbox.push_back(*kind);
    if (peer.alive) peer.inbox.push_back(std::nullopt);
    side.alive = false;
    side.inbox.clear();
}

// What the program of a side may do, and what a side's events must be like at any time.
constexpr Input kActions[] = {Input::kAccept, Input::kEstablish, Input::kReject, Input::kDisconnect,
                              Input::kNotify};

size_t count(const std::string& text, const char* letters) {
    size_t found = 0;
    for (const char c : text) found += std::string(letters).find(c) != std::string::npos ? 1 : 0;
    return found;
}

void check(const Both& both) {
    for (int who = 0; who < 2; ++who) {
        const Side& side = both.side[who];
        const std::string& events = side.events;
        EXPECT_LE(count(events, "e"), 1u);
        EXPECT_LE(count(events, "rud"), 1u) << "it ends once: " << both.key();
        const size_t end = events.find_first_of("rud");
        EXPECT_TRUE(end == std::string::npos || end + 1 == events.size()) << "and nothing follows";
        if (!side.alive || !side.peer_gone || !side.inbox.empty()) continue;
        // A side that is left alone knows it, or has itself ended the connection.
        EXPECT_TRUE(count(events, "rud") == 1 || side.state == State::kFailed) << both.key();
        EXPECT_TRUE(side.state == State::kFailed || side.state == State::kDisconnected)
            << both.key();
    }
}

void explore(const Both& both, std::set<std::string>& seen) {
    if (!seen.insert(both.key()).second) return;
    check(both);
    for (int who = 0; who < 2; ++who) {
        const Side& side = both.side[who];
        if (!side.alive) continue;
        for (const Input action : kActions) {
            Both next = both;
            if (give(next, who, action)) explore(next, seen);
        }
        if (!side.inbox.empty()) {
            Both next = both;
            deliver(next, who);
            explore(next, seen);
        }
        for (const bool killed : {false, true}) {
            Both next = both;
            end(next, who, killed);
            explore(next, seen);
        }
    }
}

TEST(CmState, EveryOrderOfTwoSides) {
    Both both;
    both.side[0].state = State::kRoute;
    both.side[1].state = State::kArriving;
    ASSERT_TRUE(give(both, 0, Input::kConnect));
    ASSERT_EQ(both.side[1].inbox.size(), 1u);
    std::set<std::string> seen;
    explore(both, seen);
    EXPECT_GT(seen.size(), 100u);
    // The ways that a connection should take are among them.
    bool connected = false;
    for (const std::string& key : seen)
        connected = connected ||
                    (key.find("pd:") != std::string::npos && key.find("qed:") != std::string::npos);
    EXPECT_TRUE(connected) << "both were connected, and both saw the end";
}

// Only the inputs of the table are accepted; this counts them, so that a new row is deliberate.
TEST(CmState, OtherInputsHaveNoEffect) {
    int rows = 0;
    for (int state = 0; state < kStates; ++state)
        for (int input = 0; input < kInputs; ++input)
            rows += step(static_cast<State>(state), static_cast<Input>(input)).has_value() ? 1 : 0;
    EXPECT_EQ(rows, 47);
    EXPECT_FALSE(step(State::kListening, Input::kConnect));
    EXPECT_FALSE(step(State::kRoute, Input::kDisconnect));
    EXPECT_EQ(step(State::kFailed, Input::kDisconnect)->next, State::kFailed);
    EXPECT_FALSE(step(State::kIdle, Input::kHangUp));
}

TEST(CmState, NobodyWaitsForEver) {
    for (const State state : {State::kConnecting, State::kAccepted, State::kDisconnecting}) {
        const auto next = step(state, Input::kTimeout);
        ASSERT_TRUE(next);
        EXPECT_TRUE(next->event);
    }
}

TEST(CmState, DatagramsHaveNoConnection) {
    const auto accepted = step(State::kRequested, Input::kAccept, true);
    ASSERT_TRUE(accepted);
    EXPECT_EQ(accepted->next, State::kResolved);
    const auto resolved = step(State::kConnecting, Input::kReplyDatagram, true);
    ASSERT_TRUE(resolved);
    EXPECT_EQ(resolved->event, RDMA_CM_EVENT_ESTABLISHED);
    EXPECT_EQ(step(State::kConnecting, Input::kRejectedDatagram, true)->event,
              RDMA_CM_EVENT_UNREACHABLE);
    EXPECT_FALSE(step(State::kResolved, Input::kHangUp, true));
}

}  // namespace
}  // namespace softhca::cm
