// SPDX-License-Identifier: BSD-3-Clause

// Many interfaces connect at once, each to each, and end their connections again.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "node.h"

namespace tern::test {
namespace {

// Interfaces with short queues, of this process, and their endpoints to all others, which may be of
// other processes.
class Crowd {
  public:
    // `retry`: nanoseconds until a packet is repeated at first.
    explicit Crowd(size_t size, uint64_t retry = 50'000'000) {
        EngineSettings settings = small_settings();
        settings.send_queue = 16;
        settings.send_buffers = 32;
        settings.handshake.retry_first = retry;
        settings.handshake.retry_most = 20 * retry;
        settings.handshake.connect_limit = 300'000'000'000;
        settings.handshake.jitter = 25;
        while (nodes_.size() < size) nodes_.push_back(std::make_unique<Node>(settings));
        ways_.resize(size);
    }

    Node& node(size_t at) { return *nodes_[at]; }
    std::vector<PeerAddress> addresses() const {
        std::vector<PeerAddress> addresses;
        for (const auto& node : nodes_) addresses.push_back(node->engine->address());
        return addresses;
    }

    void attach(size_t from, const PeerAddress& to) {
        std::string why;
        Channel*& way = ways_[from].emplace_back(nullptr);
        way = node(from).engine->attach(to, &way, why);
        ASSERT_NE(way, nullptr) << why;
    }
    void attach_all(std::span<const PeerAddress> all) {
        for (size_t from = 0; from < nodes_.size(); ++from)
            for (const PeerAddress& to : all)
                if (to != node(from).engine->address()) attach(from, to);
    }
    void leave_all() {
        for (size_t from = 0; from < nodes_.size(); ++from)
            for (Channel*& way : ways_[from])
                if (way != nullptr) node(from).engine->leave(std::exchange(way, nullptr), &way);
    }
    void poll() {
        for (const auto& node : nodes_) {
            node->poll();
            for (const auto& [user, status] : node->closures) {
                *static_cast<Channel**>(user) = nullptr;
                EXPECT_EQ(status, Status::kOk) << node->reason;
            }
            node->closures.clear();
        }
    }
    bool all_up() const {
        for (const auto& ways : ways_)
            for (const Channel* way : ways)
                if (way != nullptr && !way->up()) return false;
        return true;
    }
    bool all_ended() const { return queue_pairs() == 0; }
    // Packets of handshakes so far.
    uint64_t packets() const { return sum(&Counters::packets_sent); }
    uint64_t dropped() const { return sum(&Counters::packets_dropped); }
    uint64_t queue_pairs() const {
        uint64_t queue_pairs = 0;
        for (const auto& node : nodes_) queue_pairs += node->engine->connections();
        return queue_pairs;
    }
    size_t losses() const {
        size_t losses = 0;
        for (const auto& node : nodes_) losses += node->losses.size();
        return losses;
    }

  private:
    uint64_t sum(uint64_t Counters::*count) const {
        uint64_t sum = 0;
        for (const auto& node : nodes_) sum += node->engine->counters().*count;
        return sum;
    }

    std::vector<std::unique_ptr<Node>> nodes_;
    std::vector<std::deque<Channel*>> ways_;  // do not move
};

template <class Done>
bool poll_until(Crowd& crowd, Done&& done) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(9);
    while (!done()) {
        if (std::chrono::steady_clock::now() > limit) return false;
        for (int i = 0; i < 16; ++i) crowd.poll();
    }
    return true;
}

// What the processes of a storm share.
struct Shared {
    static constexpr size_t kMost = 1024;

    std::atomic<size_t> opened, up, counted, ended;  // processes
    std::atomic<uint64_t> packets_up, packets, dropped, losses, queue_pairs;
    PeerAddress addresses[kMost];
};

// `own` of `size` interfaces connect to all others at once, and disconnect. There are `processes`
// that do this.
void take_part(Shared& shared, size_t first, size_t own, size_t size, size_t processes,
               uint64_t retry) {
    Crowd crowd(own, retry);
    const auto wait_for_all = [&](std::atomic<size_t>& arrived) {
        ++arrived;
        ASSERT_TRUE(poll_until(crowd, [&] { return arrived == processes; }));
    };
    std::ranges::copy(crowd.addresses(), shared.addresses + first);
    wait_for_all(shared.opened);
    crowd.attach_all({shared.addresses, size});
    ASSERT_TRUE(poll_until(crowd, [&] { return crowd.all_up(); }));
    wait_for_all(shared.up);
    const uint64_t up = crowd.packets();
    shared.queue_pairs += crowd.queue_pairs();
    wait_for_all(shared.counted);
    crowd.leave_all();
    ASSERT_TRUE(poll_until(crowd, [&] { return crowd.all_ended(); }));
    wait_for_all(shared.ended);
    shared.packets_up += up;
    shared.packets += crowd.packets();
    shared.dropped += crowd.dropped();
    shared.losses += crowd.losses();
}

void expect_few_packets(const Shared& shared, size_t size) {
    const auto connections = static_cast<double>(size * (size - 1) / 2);
    const double up = static_cast<double>(shared.packets_up) / connections;
    const double down = static_cast<double>(shared.packets) / connections - up;
    std::cout << size << " interfaces: packets of a connection: " << up << " until it is up, "
              << down << " to end it; " << shared.dropped << " dropped\n";
    // Both sides begin: three packets each, and what a busy machine makes them repeat.
    EXPECT_LE(up, 8);
    EXPECT_LE(down, 6);
    EXPECT_EQ(shared.queue_pairs, size * (size - 1));
    EXPECT_EQ(shared.losses, 0u);
}

TEST(ConnectStormTest, PacketsGrowWithTheConnections) {
    for (const size_t size : {8, 48}) {
        const auto shared = std::make_unique<Shared>();
        take_part(*shared, 0, size, size, 1, 50'000'000);
        expect_few_packets(*shared, size);
        EXPECT_EQ(shared->dropped, 0u);
    }
}

// TERN_STORM=N: so many, in as few processes as the queue pairs of the device allow.
TEST(ConnectStormTest, Many) {
    const char* const text = getenv("TERN_STORM");
    if (text == nullptr) GTEST_SKIP() << "TERN_STORM is not set";
    const auto size = std::min<size_t>(static_cast<size_t>(atoi(text)), Shared::kMost);
    constexpr size_t kQueuePairs = 8000;  // of a process
    const size_t each = std::max<size_t>(kQueuePairs / (size + 1), 1);
    const size_t processes = (size + each - 1) / each;
    void* const memory =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    auto& shared = *new (memory) Shared{};
    std::vector<pid_t> children;
    for (size_t first = 0; first < size; first += each) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(580);
            // Turns on a processor are long when many processes share it.
            take_part(shared, first, std::min(each, size - first), size, processes, 2'000'000'000);
            _exit(testing::Test::HasFailure() ? 1 : 0);
        }
        ASSERT_GT(child, 0);
        children.push_back(child);
    }
    for (const pid_t child : children) {
        int status = -1;
        EXPECT_EQ(waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
    }
    expect_few_packets(shared, size);
    munmap(memory, sizeof(Shared));
}

// One interface connects to many, none of which is polled: no packet is dropped that must then be
// repeated.
TEST(ConnectStormTest, PacketsWaitForPlacesInTheSendQueue) {
    constexpr size_t kPeers = 100;
    Crowd crowd(kPeers + 1);
    const auto addresses = crowd.addresses();
    for (size_t i = 1; i <= kPeers; ++i) crowd.attach(0, addresses[i]);
    Node& node = crowd.node(0);
    EXPECT_TRUE(until([&] { node.poll(); },
                      [&] { return node.engine->counters().packets_sent >= kPeers; }));
    uint64_t received = 0;
    for (size_t i = 1; i <= kPeers; ++i) {
        for (int polls = 0; polls < 200; ++polls) crowd.node(i).poll();
        received += crowd.node(i).engine->counters().packets_received != 0;
    }
    EXPECT_EQ(received, kPeers);
    EXPECT_EQ(crowd.dropped(), 0u);
}

// Many connect to one that is polled only now and then: it gets more receives.
TEST(ConnectStormTest, ReceivesGrow) {
    constexpr size_t kPeers = 200;
    Crowd crowd(kPeers + 1);
    Node& node = crowd.node(0);
    const uint64_t before = node.engine->usage().registered_bytes;
    for (size_t i = 1; i <= kPeers; ++i) crowd.attach(i, node.engine->address());
    ASSERT_TRUE(poll_until(crowd, [&] { return crowd.all_up(); }));
    EXPECT_GT(node.engine->usage().registered_bytes, before);
    EXPECT_EQ(crowd.losses(), 0u);
}

}  // namespace
}  // namespace tern::test
