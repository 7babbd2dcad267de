// SPDX-License-Identifier: BSD-3-Clause
// The device's limit of queue pairs, which its processes share, and what it counts of queues.
#include <cerrno>
#include <vector>

#include "fabric.h"

namespace conformance::softhca {
namespace {

// Queue pairs that one process makes until it is refused, and the errno of that.
struct Made {
    explicit Made(const Hca& hca) : pd(hca.make_pd()), cq(hca.make_cq(16)) {
        ibv_qp_init_attr init = init_attr({}, cq.get(), cq.get());
        for (;;) {
            errno = 0;
            Qp qp(ibv_create_qp(pd.get(), &init));
            if (qp == nullptr) break;
            pairs.push_back(std::move(qp));
        }
        error = errno;
    }
    Pd pd;
    Cq cq;
    std::vector<Qp> pairs;
    int error = 0;
};

class QueueLimitTest : public FabricTest {};

TEST_F(QueueLimitTest, ProcessesShareIt) {
    set("RULES", "max-qp=5,limit-error=75");
    Team team;
    const int first = team.spawn([](Link& link) {
        const Hca hca;
        EXPECT_EQ(hca.attr().max_qp, 5);
        Made made(hca);
        EXPECT_EQ(made.pairs.size(), 5u);
        EXPECT_EQ(made.error, 75);
        made.pairs.resize(3);
        link.send();
        link.receive();
    });
    const int second = team.spawn([](Link& link) {
        link.receive();
        EXPECT_EQ(Made(Hca()).pairs.size(), 2u) << "the other process has three";
        link.send();
        link.receive();
        EXPECT_EQ(Made(Hca()).pairs.size(), 5u) << "the other process is dead";
    });
    team[first].receive();
    team[second].send();
    team[second].receive();
    team[first].send();
    team.kill(first);
    team[second].send();
    team.finish();
}

TEST_F(QueueLimitTest, DevicesHaveTheirOwn) {
    set("RULES", "max-qp=5");
    set("DEVICES", "2");
    alone([] {
        const Made first(open(0, 1));
        EXPECT_EQ(first.pairs.size(), 5u);
        EXPECT_EQ(first.error, ENOMEM);
        EXPECT_EQ(Made(open(1, 1)).pairs.size(), 5u);
    });
}

// Nobody else uses the device of a process that has its own addresses.
TEST_F(QueueLimitTest, OwnAddressesAreOwnDevices) {
    set("RULES", "max-qp=5");
    set("ADDRESSES", "per-process");
    Team team;
    for (int i = 0; i < 2; ++i) {
        team.spawn([](Link& link) {
            const Made made((Hca()));
            EXPECT_EQ(made.pairs.size(), 5u);
            link.send();
            link.receive();
        });
    }
    for (int i = 0; i < 2; ++i) team[i].receive();
    for (int i = 0; i < 2; ++i) team[i].send();
    team.finish();
}

TEST_F(QueueLimitTest, QueuesAreCounted) {
    set("PERSONALITY", "mlx5");
    Team team;
    const int process = team.spawn([](Link& link) {
        const Hca hca;
        const Pd pd = hca.make_pd();
        const auto wait = [&link] {
            link.send();
            link.receive();
        };
        {
            const Cq cq = hca.make_cq(100);
            const Srq srq = make_srq(pd.get(), 100, 1);
            ibv_qp_init_attr init = init_attr({}, cq.get(), cq.get());
            init.cap = {16, 16, 1, 1, 0};
            const Qp own(ibv_create_qp(pd.get(), &init));
            init.srq = srq.get();
            const Qp sharing(ibv_create_qp(pd.get(), &init));
            wait();
            ASSERT_EQ(ibv_resize_cq(cq.get(), 300), 0);
            wait();
        }
        wait();
    });
    // Of 256 bytes each 16 sends, in a page with 16 receives or without; 128 completions and 256
    // receives of the shared queue.
    constexpr uint64_t kSeparate = 2 * 4096 + 64 * 16 + 16 * 8, kSharing = 4096 + 64 * 16;
    constexpr uint64_t kShared = 256 * 32 + 256 * 8 + 256 / 8;
    constexpr uint64_t kRest = kSeparate + kSharing + kShared;
    const auto has = [](const std::string& kind, uint64_t live, uint64_t peak) {
        const std::string json = status();
        const size_t at = json.find("\"" + kind + "\"", json.find("\"queues\""));
        const std::string part = json.substr(at, json.find('}', at) - at);
        EXPECT_EQ(sum(part, "live"), live) << kind;
        EXPECT_EQ(sum(part, "peak"), peak) << kind;
    };
    const auto go_on = [&] { team[process].send(); };
    team[process].receive();
    has("queue_pairs", 2, 2);
    has("completion_entries", 127, 127);
    has("receive_queues", 2, 2);
    has("bytes", kRest + 128 * 64, kRest + 128 * 64);
    go_on();
    team[process].receive();
    has("completion_entries", 511, 511);
    has("bytes", kRest + 512 * 64, kRest + (128 + 512) * 64);
    go_on();
    team[process].receive();
    has("queue_pairs", 0, 2);
    has("receive_queues", 0, 2);
    has("bytes", 0, kRest + (128 + 512) * 64);
    go_on();
    team.finish();
}

// On mlx5, the 42 requests of a queue have 384 bytes each, or 192 if its creator names operations
// without memory windows.
TEST_F(QueueLimitTest, NamedOperationsTakeLess) {
    set("PERSONALITY", "mlx5");
    alone([] {
        const Hca hca;
        const Pd pd = hca.make_pd();
        const Cq cq = hca.make_cq(1);
        const Srq srq = make_srq(pd.get(), 1, 1);
        const auto bytes = [] {
            const std::string json = status();
            const size_t at = json.find("\"bytes\"", json.find("\"queues\""));
            return sum(json.substr(at, json.find('}', at) - at), "live");
        };
        ibv_qp_init_attr plain = init_attr({}, cq.get(), cq.get());
        plain.cap = {42, 0, 8, 0, 128};
        plain.srq = srq.get();
        const uint64_t before = bytes();
        const Qp legacy(ibv_create_qp(pd.get(), &plain));
        ASSERT_NE(legacy, nullptr);
        const uint64_t between = bytes();
        EXPECT_EQ(between - before, 16384u + 256 * 16);
        EXPECT_EQ(plain.cap.max_inline_data, 188u);
        ibv_qp_init_attr_ex named{};
        named.send_cq = named.recv_cq = cq.get();
        named.srq = srq.get();
        named.cap = {42, 0, 8, 0, 128};
        named.qp_type = IBV_QPT_RC;
        named.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        named.pd = pd.get();
        named.send_ops_flags =
            IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
        const Qp shorter(ibv_create_qp_ex(hca.get(), &named));
        ASSERT_NE(shorter, nullptr);
        EXPECT_EQ(bytes() - between, 8192u + 128 * 16);
        EXPECT_EQ(named.cap.max_inline_data, 140u);
    });
}

}  // namespace
}  // namespace conformance::softhca
