// SPDX-License-Identifier: BSD-3-Clause
#include "bench/sim/programs.h"

#include <algorithm>
#include <map>

namespace bench::sim {

Program ping(Node& me, uint32_t peer, uint32_t size, uint32_t trips, uint64_t& took) {
    const uint64_t before = me.received();
    const uint64_t start = me.now();
    for (uint32_t i = 0; i < trips; ++i) {
        if (me.rank() == 0)
            while (!me.send(peer, size)) co_await me.step();
        while (me.received() == before + i) co_await me.step();
        if (me.rank() != 0)
            while (!me.send(peer, size)) co_await me.step();
    }
    took = me.now() - start;
}

Program send_stream(Node& me, uint32_t peer, uint32_t size, uint32_t messages) {
    for (uint32_t i = 0; i < messages; ++i) {
        while (!me.send(peer, size)) co_await me.step();
        if (i % 16 == 15) co_await me.step();
    }
}

Program receive(Node& me, uint64_t messages, uint64_t& took) {
    const uint64_t end = me.received() + messages;
    const uint64_t start = me.now();
    while (me.received() < end) co_await me.step();
    took = me.now() - start;
}

Program send_burst(Node& me, uint32_t peer, uint32_t size, uint32_t messages, uint64_t work,
                   uint64_t& sent) {
    const uint64_t start = me.now();
    for (uint32_t i = 0; i < messages; ++i) {
        sent = me.now() - start;
        while (!me.send(peer, size)) {
            co_await me.step();
            sent = me.now() - start;
        }
        co_await me.turn();
    }
    co_await me.compute(work);
}

Program send_windows(Node& me, std::vector<uint32_t> peers, uint32_t size, uint32_t windows,
                     uint64_t& took) {
    std::vector<uint64_t> answers, sent(peers.size());  // answers that came before
    for (const uint32_t peer : peers) answers.push_back(me.received_from(peer));
    const uint64_t start = me.now();
    for (uint64_t left = peers.size() * windows * kWindow; left != 0;) {
        const uint64_t before = left;
        for (size_t i = 0; i < peers.size(); ++i) {
            const uint64_t open = me.received_from(peers[i]) - answers[i] + 1;
            if (sent[i] == std::min<uint64_t>(open, windows) * kWindow) continue;
            if (!me.send(peers[i], size)) continue;
            ++sent[i];
            --left;
        }
        if (left != before)
            co_await me.turn();
        else
            co_await me.step();
    }
    for (size_t i = 0; i < peers.size(); ++i)
        while (me.received_from(peers[i]) < answers[i] + windows) co_await me.step();
    took = me.now() - start;
}

Program answer_windows(Node& me, uint32_t peer, uint32_t windows) {
    uint64_t end = me.received_from(peer);
    for (uint32_t i = 0; i < windows; ++i) {
        end += kWindow;
        while (me.received_from(peer) < end) co_await me.step();
        while (!me.send(peer, 8)) co_await me.step();
    }
}

Program access_stream(Node& me, Access access, uint32_t peer, uint64_t size, uint32_t times,
                      uint64_t work, uint64_t& took) {
    const uint64_t start = me.now();
    for (uint32_t i = 0; i < times; ++i)
        while (!(me.*access)(peer, size)) co_await me.step();
    if (work != 0) co_await me.compute(work);
    while (!me.flush()) co_await me.step();
    took = me.now() - start;
}

Program idle(Node&) {
    co_return;
}

Program exchange(Node& me, uint32_t ranks, uint32_t size, uint64_t& took) {
    const uint64_t end = me.received() + ranks - 1;
    const uint64_t start = me.now();
    for (uint32_t i = 1; i < ranks; ++i)
        while (!me.send((me.rank() + i) % ranks, size)) co_await me.step();
    while (me.received() < end) co_await me.step();
    took = me.now() - start;
}

Program exchange_faces(Node& me, std::vector<uint32_t> neighbours, uint32_t size, uint32_t times,
                       uint64_t& took) {
    std::map<uint32_t, uint64_t> expected;
    for (const uint32_t peer : neighbours) expected[peer] = me.received_from(peer);
    const uint64_t start = me.now();
    for (uint32_t i = 0; i < times; ++i) {
        for (const uint32_t peer : neighbours) {
            while (!me.send(peer, size)) co_await me.step();
            ++expected[peer];
        }
        for (const auto& [peer, count] : expected)
            while (me.received_from(peer) < count) co_await me.step();
    }
    took = me.now() - start;
}

Program timed_ping(Node& me, uint32_t peer, uint32_t size, uint32_t trips, bool& over,
                   std::vector<uint64_t>& took) {
    for (uint32_t i = 0; i < trips; ++i) {
        const uint64_t answers = me.received_from(peer);
        const uint64_t start = me.now();
        while (!me.send(peer, size)) co_await me.step();
        while (me.received_from(peer) == answers) co_await me.step();
        took.push_back(me.now() - start);
    }
    over = true;
}

Program answer_until(Node& me, uint32_t peer, uint32_t size, const bool& over) {
    uint64_t answered = me.received_from(peer);
    while (!over) {
        if (me.received_from(peer) == answered) {
            co_await me.step();
            continue;
        }
        while (!me.send(peer, size)) co_await me.step();
        ++answered;
    }
}

Program send_until(Node& me, uint32_t peer, uint32_t size, const bool& over) {
    uint32_t i = 0;
    while (!over) {
        const bool turn = i++ % 16 == 15;
        if (!me.send(peer, size) || turn) co_await me.step();
    }
}

Program scatter(Node& me, std::vector<uint32_t> peers, uint32_t size, uint64_t expected,
                uint64_t& took) {
    const uint64_t end = me.received() + expected;
    const uint64_t start = me.now();
    for (const uint32_t peer : peers)
        while (!me.send(peer, size)) co_await me.step();
    while (me.received() < end) co_await me.step();
    took = me.now() - start;
}

}  // namespace bench::sim
