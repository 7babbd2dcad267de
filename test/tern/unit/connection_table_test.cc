// SPDX-License-Identifier: BSD-3-Clause

// Connections are found by their queue pairs, and looked at when their times come, however many
// there are.

#include "tern/connection/connection_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "common/seed.h"
#include "tern/connection/timers.h"

namespace tern {
namespace {

// A table whose queue pairs no device knows.
class Table {
  public:
    ~Table() {
        while (!connections_.empty()) remove(connections_.begin()->first);
    }

    Connection& add(uint32_t qp_num) {
        queue_pairs_[qp_num] = std::make_unique<ibv_qp>();
        queue_pairs_[qp_num]->qp_num = qp_num;
        const Handshake handshake(1, {}, {}, {}, {});
        auto connection =
            std::make_unique<Connection>(table.next_index(), PeerAddress{}, handshake);
        Connection& added =
            table.add(std::move(connection), verbs::QueuePair(queue_pairs_[qp_num].get()));
        connections_[qp_num] = &added;
        return added;
    }
    void remove(uint32_t qp_num) {
        Connection& connection = *connections_[qp_num];
        table.unindex(connection);
        (void)connection.qp.release();
        table.end();
        table.destroy(connection);
        connections_.erase(qp_num);
        queue_pairs_.erase(qp_num);
    }
    const std::map<uint32_t, Connection*>& connections() const { return connections_; }

    ConnectionTable table;

  private:
    std::map<uint32_t, std::unique_ptr<ibv_qp>> queue_pairs_;
    std::map<uint32_t, Connection*> connections_;
};

// Numbers that collide in small tables, as the devices' own do not.
TEST(ConnectionTableTest, ConnectionsAreFoundByTheirQueuePairs) {
    const uint32_t seed = tern::test::any_seed();
    std::mt19937 random(seed);
    Table world;
    for (int step = 0; step < 20000; ++step) {
        const uint32_t qp_num = 1 + random() % 8 * 4096 + random() % 16;
        if (world.connections().contains(qp_num))
            world.remove(qp_num);
        else if (world.connections().size() < 100)
            world.add(qp_num);
        if (step % 64 != 0) continue;
        for (uint32_t high = 0; high < 8; ++high)
            for (uint32_t low = 1; low < 17; ++low) {
                const uint32_t each = high * 4096 + low;
                const auto known = world.connections().find(each);
                ASSERT_EQ(world.table.find(each),
                          known != world.connections().end() ? known->second : nullptr)
                    << each;
            }
    }
}

TEST(TimersTest, EachIsTakenWhenItsTimeComesAndNotBefore) {
    const uint32_t seed = tern::test::any_seed();
    std::mt19937 random(seed);
    Table world;
    Alarm alarm;
    Timers timers(world.table, alarm);
    std::map<uint32_t, uint64_t> times;  // by the number of the queue pair
    uint64_t now = 1;
    size_t taken = 0;
    for (int step = 0; step < 50000; ++step) {
        const uint32_t qp_num = 1 + random() % 50;
        const bool known = world.connections().contains(qp_num);
        switch (random() % 4) {
            case 0:
                if (known) {
                    world.remove(qp_num);
                    times.erase(qp_num);
                } else {
                    timers.make_room();
                    world.add(qp_num);
                }
                break;
            case 1:
                if (!known) break;
                Timers::cancel(*world.connections().at(qp_num));
                times.erase(qp_num);
                break;
            case 2:
            case 3: {
                if (!known) break;
                const uint64_t time = now + random() % 100;
                timers.set(*world.connections().at(qp_num), time);
                if (!times.contains(qp_num) || times[qp_num] > time) times[qp_num] = time;
                break;
            }
        }
        uint64_t first = UINT64_MAX;
        for (const auto& [number, time] : times) first = std::min(first, time);
        ASSERT_EQ(timers.next(), first);
        if (step % 8 == 0) ++now;
        while (Connection* connection = timers.take(now)) {
            const auto due = times.find(connection->qp->qp_num);
            ASSERT_NE(due, times.end());
            ASSERT_LE(due->second, now);
            times.erase(due);
            ++taken;
        }
        for (const auto& [number, time] : times) ASSERT_GT(time, now);
    }
    EXPECT_GT(taken, 1000u);
    EXPECT_LT(timers.size(), 400u) << "what is left over does not pile up";
}

}  // namespace
}  // namespace tern
