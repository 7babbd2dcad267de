// SPDX-License-Identifier: BSD-3-Clause
// Several workers in several threads, and one worker that threads use in turn.
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "traffic.h"

namespace uct_test {
namespace {

class ThreadTest : public testing::Test {
  protected:
    Stream stream(uint64_t count, std::size_t number = 0) {
        Stream it;
        it.seed = seed_ + number;
        it.count = count;
        it.id = static_cast<uint8_t>(2 * number);
        return it;
    }

    uint64_t seed_ = any_seed();
};

// Collects results for the test's own thread to check.
class Outcomes {
  public:
    void add(const testing::AssertionResult& result) {
        const std::lock_guard lock(mutex_);
        if (!result) text_ += std::string(result.message()) + "\n";
    }
    void add(const std::exception& error) { add(testing::AssertionFailure() << error.what()); }
    std::string text() {
        const std::lock_guard lock(mutex_);
        return text_;
    }

  private:
    std::mutex mutex_;
    std::string text_;
};

TEST_F(ThreadTest, EachHasItsOwnWorker) {
    Outcomes outcomes;
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < 4; ++i) {
        threads.emplace_back([&, i] {
            try {
                Entity a, b;
                Flow there(a, b, stream(10000, i)), back(b, a, stream(10000, i + 4));
                outcomes.add(run({&there, &back}));
            } catch (const std::exception& error) {
                outcomes.add(error);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(outcomes.text(), "");
}

// Each thread's worker exchanges messages with the next thread's worker.
TEST_F(ThreadTest, WorkersTalkToEachOther) {
    constexpr std::size_t kThreads = 3;
    Outcomes outcomes;
    std::array<Address, kThreads> addresses;
    std::atomic<std::size_t> ready = 0, done = 0;
    const auto meet = [](std::atomic<std::size_t>& count, Entity& self) {
        ++count;
        const auto end = Clock::now() + deadline();
        while (count < kThreads && Clock::now() < end) self.progress();
        return count == kThreads;
    };
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
        threads.emplace_back([&, i] {
            try {
                Entity self;
                addresses[i] = self.address();
                Receiver receiver(self, stream(20000, (i + kThreads - 1) % kThreads), self.attr());
                if (!meet(ready, self)) fail("the others did not come");
                const Endpoint ep = self.connect(addresses[(i + 1) % kThreads]);
                Sender sender(self, ep, stream(20000, i));
                outcomes.add(run({&self}, {&sender}, {&receiver}));
                meet(done, self);
            } catch (const std::exception& error) {
                outcomes.add(error);
                ++ready;
                ++done;
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(outcomes.text(), "");
}

TEST_F(ThreadTest, InTurnOnOneWorker) {
    constexpr std::size_t kThreads = 4;
    auto host = std::make_shared<Host>(UCS_THREAD_MODE_SERIALIZED);
    std::mutex turn;
    Entity a({}, host), b({}, host);
    std::vector<std::unique_ptr<Flow>> flows;
    for (std::size_t i = 0; i < kThreads; ++i)
        flows.push_back(std::make_unique<Flow>(a, b, stream(5000, i)));
    const auto end = Clock::now() + deadline();
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
        threads.emplace_back([&, i] {
            for (bool done = false; !done && Clock::now() < end;) {
                const std::lock_guard lock(turn);
                flows[i]->sender.step();
                a.progress();
                done = flows[i]->done();
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& flow : flows) {
        EXPECT_TRUE(flow->done()) << flow->sender.sent() << ", " << flow->receiver.received();
        EXPECT_EQ(flow->receiver.wrong(), "");
    }
}

// Interfaces open and close while others have traffic.
TEST_F(ThreadTest, OpenAndCloseBesideTraffic) {
    Outcomes outcomes;
    std::atomic<bool> stop = false;
    std::thread opener([&] {
        try {
            while (!stop) {
                Entity a, b;
                Flow flow(a, b, stream(20, 2));
                outcomes.add(run({&flow}));
            }
        } catch (const std::exception& error) {
            outcomes.add(error);
        }
    });
    {
        Entity a, b;
        Flow flow(a, b, stream(50000, 0));
        outcomes.add(run({&flow}));
    }
    stop = true;
    opener.join();
    EXPECT_EQ(outcomes.text(), "");
}

TEST_F(ThreadTest, WorkerThatAllThreadsUseAtOnceIsRefused) {
    if (!is_tern()) GTEST_SKIP() << "others may allow it";
    auto host = std::make_shared<Host>(UCS_THREAD_MODE_MULTI);
    EXPECT_THROW(Entity({}, host), std::runtime_error);
}

}  // namespace
}  // namespace uct_test
