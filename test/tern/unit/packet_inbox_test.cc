// SPDX-License-Identifier: BSD-3-Clause
// Which packets are handled, and when, in all orders of events.
#include "tern/connection/packet.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <string>

namespace tern {
namespace {

// The token of a packet is its number.
struct PacketSource {
    std::deque<Packet> sent;
    uint32_t next = 1;

    void send() {
        Packet packet;
        packet.token = next++;
        sent.push_back(packet);
    }
    bool receive(Packet& packet) {
        if (sent.empty()) return false;
        packet = sent.front();
        sent.pop_front();
        return true;
    }
};

// The events are the digits of `code`. All that has come when gather() is called can be taken, in
// order, and nothing else.
void try_inbox(uint32_t code, unsigned steps) {
    PacketSource source;
    PacketInbox<PacketSource> inbox(source);
    std::string events;
    uint32_t taken = 0;
    uint32_t gathered = 0;
    for (unsigned i = 0; i < steps; ++i, code /= 4) {
        const unsigned event = code % 4;
        events += "sgtw"[event];
        SCOPED_TRACE(events);
        Packet packet;
        switch (event) {
            case 0:
                source.send();
                break;
            case 1:
                inbox.gather();
                gathered = source.next - 1;
                break;
            case 2:
                ASSERT_EQ(inbox.take(packet), taken != gathered);
                if (taken != gathered) {
                    ASSERT_EQ(packet.token, ++taken);
                }
                break;
            default:
                ASSERT_EQ(inbox.waits(), taken != source.next - 1);
        }
    }
}

TEST(PacketInboxTest, OnlyGatheredPacketsAreTaken) {
    constexpr unsigned kSteps = 8;
    for (uint32_t code = 0; code < 1u << (2 * kSteps) && !HasFatalFailure(); ++code)
        try_inbox(code, kSteps);
}

TEST(PacketInboxTest, ManyPacketsStayInTheSource) {
    PacketSource source;
    PacketInbox<PacketSource> inbox(source);
    for (int i = 0; i < 1000; ++i) source.send();
    inbox.gather();
    EXPECT_TRUE(inbox.waits());
    const size_t left = source.sent.size();
    EXPECT_GT(left, 0u);
    Packet packet;
    uint32_t taken = 0;
    while (inbox.take(packet)) ASSERT_EQ(packet.token, ++taken);
    EXPECT_EQ(taken, 1000 - left);
    EXPECT_TRUE(inbox.waits());
    while (inbox.waits()) {
        inbox.gather();
        while (inbox.take(packet)) ASSERT_EQ(packet.token, ++taken);
    }
    EXPECT_EQ(taken, 1000u);
}

}  // namespace
}  // namespace tern
