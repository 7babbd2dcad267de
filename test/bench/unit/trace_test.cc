// SPDX-License-Identifier: BSD-3-Clause
// Traces of MPI jobs: what was written is read, and what is no trace is refused; which memory of
// messages a recorder tells of.
#include "bench/replay/trace.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "../../tern/unit/schedules.h"
#include "bench/replay/given_back.h"
#include "bench/report/text.h"

namespace bench::replay {
namespace {

using Kind = Event::Kind;

constexpr const char* kSmall =
    "tern-trace 1\n"
    "a 1f\n"
    "e 0 2e\n"
    "s 0 0 ff 100 7f0000 1\n"
    "c 250\n"
    "r 1 a ffffffffffffffff 64 8000\n"
    "w 1\n"
    "t 0\n"
    "x 0\n"
    "p b f 1\n"
    "m 2 32 9000\n"
    "u 8000 4096\n";

Trace read(const std::string& text) {
    std::istringstream from(text);
    return read_trace(from, "file");
}

// What it says about a text that it refuses; empty: it took it.
std::string refusal(const std::string& text) {
    try {
        (void)read(text);
        return {};
    } catch (const report::Failure& failure) {
        return failure.what();
    }
}

// As the recorder writes it.
std::string text_of(const Trace& trace) {
    std::ostringstream text;
    text << kTraceHeader << '\n';
    for (const uint64_t worker : trace.workers) text << "a " << std::hex << worker << '\n';
    for (size_t i = 0; i < trace.endpoints.size(); ++i)
        text << "e " << std::dec << i << ' ' << std::hex << trace.endpoints[i] << '\n';
    for (const Event& event : trace.events) {
        text << static_cast<char>(event.kind) << std::dec;
        switch (event.kind) {
            case Kind::kCompute:
                text << ' ' << event.bytes;
                break;
            case Kind::kSend:
                text << ' ' << event.id << ' ' << event.peer << ' ' << std::hex << event.tag << ' '
                     << std::dec << event.bytes << ' ' << std::hex << event.address << ' '
                     << event.flag;
                break;
            case Kind::kReceive:
                text << ' ' << event.id << ' ' << std::hex << event.tag << ' ' << event.mask << ' '
                     << std::dec << event.bytes << ' ' << std::hex << event.address;
                break;
            case Kind::kProbe:
                text << ' ' << std::hex << event.tag << ' ' << event.mask << ' ' << event.flag;
                break;
            case Kind::kReceiveMessage:
                text << ' ' << event.id << ' ' << event.bytes << ' ' << std::hex << event.address;
                break;
            case Kind::kWait:
            case Kind::kChoice:
            case Kind::kCancel:
                text << ' ' << event.id;
                break;
            case Kind::kGiveBack:
                text << ' ' << std::hex << event.address << ' ' << std::dec << event.bytes;
                break;
        }
        text << '\n';
    }
    return text.str();
}

Trace random_trace(tern::Random& random) {
    Trace trace;
    // Small numbers and large ones.
    const auto number = [&random] { return random() >> random.below(64); };
    for (uint64_t i = random.between(1, 3); i != 0; --i) trace.workers.push_back(number());
    for (uint64_t i = random.between(1, 5); i != 0; --i) trace.endpoints.push_back(number());
    constexpr std::array kKinds = {Kind::kCompute, Kind::kSend,           Kind::kReceive,
                                   Kind::kProbe,   Kind::kReceiveMessage, Kind::kWait,
                                   Kind::kChoice,  Kind::kCancel,         Kind::kGiveBack};
    for (uint64_t i = random.below(50); i != 0; --i) {
        Event event{kKinds[random.below(kKinds.size())]};
        const bool ends = event.waits() || event.kind == Kind::kCancel;
        if (ends && trace.requests == 0) continue;
        if (event.kind == Kind::kSend) event.peer = random.below(trace.endpoints.size());
        if (event.kind == Kind::kSend || event.kind == Kind::kReceive || event.kind == Kind::kProbe)
            event.tag = number();
        if (event.kind == Kind::kReceive || event.kind == Kind::kProbe) event.mask = number();
        const bool has_memory = event.has_buffer() || event.kind == Kind::kGiveBack;
        if (event.kind == Kind::kCompute || has_memory) event.bytes = number() >> 1;
        if (has_memory) event.address = number() >> 1;
        if (event.kind == Kind::kSend || event.kind == Kind::kProbe) event.flag = random.chance(50);
        if (event.has_buffer()) event.id = trace.requests++;
        if (ends) event.id = random.below(trace.requests);
        trace.events.push_back(event);
    }
    return trace;
}

TEST(Trace, IsReadAsItWasWritten) {
    const Trace trace = read(kSmall);
    EXPECT_EQ(trace.workers, std::vector<uint64_t>{0x1f});
    EXPECT_EQ(trace.endpoints, std::vector<uint64_t>{0x2e});
    EXPECT_EQ(trace.requests, 3U);
    ASSERT_EQ(trace.events.size(), 9U);
    const Event& send = trace.events[0];
    EXPECT_EQ(send.kind, Kind::kSend);
    EXPECT_EQ(send.tag, 0xffU);
    EXPECT_EQ(send.bytes, 100U);
    EXPECT_EQ(send.address, 0x7f0000U);
    EXPECT_TRUE(send.flag);
    EXPECT_EQ(trace.events[1].bytes, 250U);
    EXPECT_EQ(trace.events[2].mask, ~uint64_t{0});
    EXPECT_EQ(trace.events[8].kind, Kind::kGiveBack);
    EXPECT_EQ(trace.events[8].address, 0x8000U);
    EXPECT_EQ(trace.events[8].bytes, 4096U);
    EXPECT_EQ(text_of(trace), kSmall);
}

TEST(Trace, RandomTracesComeBack) {
    tern::each_schedule(300, [](tern::Random random) -> std::string {
        const std::string text = text_of(random_trace(random));
        const std::string again = text_of(read(text));
        return text == again ? "" : "read as\n" + again + "from\n" + text;
    });
}

TEST(Trace, OneThatIsCutWithinALineIsRefused) {
    const std::string whole = kSmall;
    for (size_t size = 0; size < whole.size(); ++size) {
        // Between lines it cannot be seen: a job may end anywhere.
        if (size != 0 && whole[size - 1] == '\n') continue;
        const std::string said = refusal(whole.substr(0, size));
        EXPECT_NE(said, "") << size;
        if (size > std::string(kTraceHeader).size()) {
            EXPECT_NE(said.find("cut off"), std::string::npos) << said;
        }
    }
}

TEST(Trace, WhatIsNoEventIsRefusedWithItsLine) {
    const std::string before = "tern-trace 1\na 1\ne 0 2\ns 0 0 1 8 1000 0\n";
    EXPECT_EQ(refusal(before), "");
    for (const char* line : {
             "",
             "q 1",
             "cc 1",
             "c",
             "c -5",
             "c 5 6",
             "c 5x",
             "c  5",
             "c 99999999999999999999",
             "a",
             "a g",
             "a 1 2",
             "e 2 1",  // endpoints are counted
             "e 0 1",
             "s 2 0 1 8 1000 0",  // and so are requests
             "s 1 1 1 8 1000 0",  // there is no such endpoint
             "s 1 0 1 8 1000 2",
             "s 1 0 1 8 1000",
             "s 1 0 1 8 0x1000 0",
             "r 0 1 1 8 1000",
             "r 1 1 8 1000",
             "r 1 1 1 8 ffffffffffffffff",  // ends beyond all memory
             "p 1 1 2",
             "m 1 8",
             "w 1",  // nothing began
             "t 1",
             "x 1",
             "u 1000",
             "u 1000 8 1",
             "u ffffffffffffffff 1",  // ends beyond all memory
         }) {
        const std::string said = refusal(before + line + "\n");
        EXPECT_NE(said.find("file, line 5: not an event: '" + std::string(line)), std::string::npos)
            << line << ": " << said;
    }
    for (const char* header : {"", "\n", "tern-trace 2\n", "tern-trace 1 \n", "c 5\n"})
        EXPECT_NE(refusal(header).find("not a trace"), std::string::npos) << header;
}

TEST(Trace, EndpointsBecomeRanks) {
    std::vector<Trace> traces;
    traces.push_back(
        read("tern-trace 1\na 10\ne 0 20\ne 1 10\ns 0 0 1 8 1000 0\n"
             "s 1 1 1 8 1000 0\n"));
    traces.push_back(read("tern-trace 1\na 20\n"));
    find_peers(traces);
    EXPECT_EQ(traces[0].events[0].peer, 1U);
    EXPECT_EQ(traces[0].events[1].peer, 0U);
    traces.pop_back();
    traces[0] = read("tern-trace 1\na 10\ne 0 20\ns 0 0 1 8 1000 0\n");
    EXPECT_THROW(find_peers(traces), report::Failure);
}

// What GivenBack tells, as text.
std::string told(GivenBack& memory) {
    std::ostringstream text;
    memory.take([&text](uint64_t address, uint64_t bytes) {
        text << std::hex << address << '+' << bytes << ' ';
    });
    return text.str();
}

TEST(GivenBack, OnlyPagesOfMessagesAreTold) {
    GivenBack memory;
    EXPECT_TRUE(memory.unmapped(0x1000, 0x9000));
    EXPECT_EQ(told(memory), "");
    memory.used(0x1ff0, 0x20);  // two pages
    memory.used(0x3000, 0x1000);
    memory.used(0x8000, 1);
    memory.used(0x9000, 0);
    EXPECT_TRUE(memory.unmapped(0x4000, 0x4000));
    EXPECT_TRUE(memory.unmapped(0x9000, 0x4000));
    EXPECT_EQ(told(memory), "");
    EXPECT_TRUE(memory.unmapped(0, 0x10000));
    EXPECT_EQ(told(memory), "1000+3000 8000+1000 ");
}

TEST(GivenBack, EachPageIsToldOnceUntilItIsUsedAgain) {
    GivenBack memory;
    memory.used(0x1000, 0x5000);
    EXPECT_TRUE(memory.unmapped(0x2000, 0x1000));
    EXPECT_TRUE(memory.unmapped(0x2000, 0x2000));
    EXPECT_TRUE(memory.unmapped(0x1000, 0x1000));
    EXPECT_EQ(told(memory), "2000+1000 3000+1000 1000+1000 ");
    memory.used(0x2000, 8);
    EXPECT_TRUE(memory.unmapped(0x1000, 0x4000));
    EXPECT_EQ(told(memory), "2000+1000 4000+1000 ");
    EXPECT_TRUE(memory.unmapped(0x1000, 0x8000));
    EXPECT_EQ(told(memory), "5000+1000 ");
    EXPECT_TRUE(memory.unmapped(0x1000, 0x8000));
    EXPECT_EQ(told(memory), "");
}

TEST(GivenBack, SaysWhenThereIsNoRoom) {
    GivenBack memory;
    memory.used(0x1000, 0x1000);
    int kept = 0;
    while (kept < 100'000 && memory.unmapped(0x1000, 0x1000)) ++kept;
    EXPECT_GT(kept, 1000);
    EXPECT_LT(kept, 100'000);
    EXPECT_EQ(told(memory), "1000+1000 ");
    memory.used(0x1000, 0x1000);
    EXPECT_TRUE(memory.unmapped(0x1000, 0x1000));
}

}  // namespace
}  // namespace bench::replay
