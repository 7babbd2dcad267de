// SPDX-License-Identifier: BSD-3-Clause
// What the owner of objects sees of the death of others, and of its own deregistrations.
#include <gtest/gtest.h>
#include <pthread.h>

#include "fabric_process.h"
#include "softhca/transport/cq.h"
#include "softhca/transport/region.h"
#include "softhca/verbs/event_queue.h"

namespace softhca {
namespace owner_test {

using test::Child;
using test::shared_value;
using test::wait_for;

struct Events : test::NoEvents {
    std::atomic<int> completions{0};
    void completion_event(Cq&) override { ++completions; }
};

// Takes a lock in the name of a process that has died.
struct DeadOwner {
    uint32_t dead;
    uint32_t tag() const { return dead; }
    bool owner_dead(uint32_t) const { return false; }
    void yield(uint32_t) const {}
};

class OwnerTest : public testing::Test {
  protected:
    const std::string name_ = test::unique_fabric();
    Events events_;
    Adapter* start() {
        std::string error;
        return Adapter::start(test::open_segment(name_), false, events_, &error).release();
    }
    void TearDown() override {
        std::string error;
        EXPECT_TRUE(Segment::remove_if_unused(name_, &error)) << error;
    }
};

enum class Death { kAfterCommit, kAfterPublication, kAfterEventTime };

// Takes the queue's lock, begins to write a completion, and dies.
void die_in_write(Host& host, CqShared& cq, Death death) {
    cq.lock.lock(DeadOwner{host.tag() - (1 << 9)}, [] {});
    CompletionRing ring(reinterpret_cast<Cqe*>(host.arena() + cq.ring), cq.mask);
    const uint64_t tail = cq.tail;
    ring.write(tail, {}, 0);
    if (death == Death::kAfterCommit) return;
    cq.tail = tail + 1;
    if (death == Death::kAfterPublication) return;
    cq.event_at = CqShared::kEventNow;
}

TEST_F(OwnerTest, DeathOfAProducerLosesNoEvent) {
    Child child([&] {
        Adapter* adapter = start();
        Cq* cq = Cq::create(*adapter, 16);
        int number = 0;
        for (const Death death :
             {Death::kAfterCommit, Death::kAfterPublication, Death::kAfterEventTime}) {
            cq->arm(false);
            die_in_write(adapter->host(), cq->shared(), death);
            repair_completions(adapter->host(), cq->shared());
            ++number;
            if (!wait_for([&] { return events_.completions == number; })) return number;
            int polled = 0;
            cq->poll(16, [&](const Completion&) { ++polled; });
            if (polled != 1) return 10 + number;
        }
        return 0;
    });
    EXPECT_EQ(child.join(), 0);
}

// The device announces events under locks of the fabric.
TEST(EventQueue, AnnouncementIsNoCancellationPoint) {
    EventQueue<int> queue;
    bool announced = false;
    std::thread thread([&] {
        pthread_cancel(pthread_self());
        queue.put(1);
        queue.remove_if([](int) { return true; });
        announced = true;
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
    });
    thread.join();
    EXPECT_TRUE(announced);
}

// A region with a bound window keeps its key while the deregistration fails: here the latter does
// not even wait for the access of another thread.
TEST_F(OwnerTest, DeregistrationThatFailsDoesNotTouchTheKey) {
    Child child([&] {
        Adapter* adapter = start();
        Host& host = adapter->host();
        RegionAttributes attributes;
        attributes.address = attributes.iova = reinterpret_cast<uint64_t>(&attributes);
        attributes.length = 8;
        const uint32_t key =
            publish_region(*adapter, next_key(*adapter, allocate_key(*adapter)), attributes, {});
        const auto valid = [&] { return host.key(key)->key == key; };
        std::atomic<int> step{0};
        std::thread user([&] {
            const AccessGuard guard(host, host.slot());
            step = 1;
            wait_for([&] { return step == 2; });
            step = 3;
        });
        wait_for([&] { return step == 1; });
        const bool refused = !withdraw_region(*adapter, KeyNumber::index(key), [] {
            return true;
        }) && valid() && step == 1;
        step = 2;
        user.join();
        const bool withdrawn =
            withdraw_region(*adapter, KeyNumber::index(key), [] { return false; }) && !valid();
        return refused ? withdrawn ? 0 : 2 : 1;
    });
    EXPECT_EQ(child.join(), 0);
}

// All slots but one look taken, so that two processes use the same slot one after the other.
TEST_F(OwnerTest, NumbersOfASlotsNextProcessAreOthers) {
    auto* numbers = shared_value<std::array<std::atomic<uint32_t>, 4>>();
    auto* ready = shared_value<std::atomic<int>>();
    Child keeper([&] {
        Host& host = start()->host();
        const uint32_t left = (host.slot() + 1) % kMaxProcesses;
        for (uint32_t slot = 0; slot < kMaxProcesses; ++slot) {
            if (slot != left && slot != host.slot())
                host.process(slot).life = Life{SlotState::kDead, 1}.word();
        }
        *ready = 1;
        pause();
        return 0;
    });
    ASSERT_TRUE(wait_for([&] { return *ready == 1; }));
    for (uint32_t i = 0; i < 2; ++i) {
        Child child([&] {
            Adapter* adapter = start();
            (*numbers)[2 * i] = Cq::create(*adapter, 16)->number();
            (*numbers)[2 * i + 1] = next_key(*adapter, allocate_key(*adapter));
            return 0;
        });
        ASSERT_EQ(child.join(), 0);
    }
    EXPECT_EQ(ObjectNumber::process((*numbers)[0]), ObjectNumber::process((*numbers)[2]));
    EXPECT_NE((*numbers)[0], (*numbers)[2]);
    EXPECT_NE((*numbers)[1], (*numbers)[3]);
    keeper.kill();
}

}  // namespace owner_test
}  // namespace softhca
