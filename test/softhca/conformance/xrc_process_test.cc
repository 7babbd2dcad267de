// SPDX-License-Identifier: BSD-3-Clause
// XRC between processes. One process holds the domain and the receiving queue pairs. Owners of
// shared receive queues join the domain by its file descriptor alone. Senders reach the queues of
// all owners.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <map>
#include <utility>
#include <vector>

#include "process.h"
#include "xrc.h"

namespace conformance {
namespace {

constexpr int kSenders = 3;
constexpr int kOwners = 2;
constexpr int kQueuesPerOwner = 2;
constexpr uint64_t kMessages = 40;  // from each sender to each queue

struct Numbers {
    std::array<uint32_t, kQueuesPerOwner> srqn;
};

struct Note {
    uint32_t sender;
    uint32_t queue;
    uint64_t sequence;
};

class XrcProcessTest : public testing::Test {
  protected:
    void SetUp() override {
        if (!Hca().has(IBV_DEVICE_XRC)) GTEST_SKIP() << "no XRC";
    }

    // The process that holds the domain, with one receiving queue pair for each of the `senders`,
    // in order.
    static void hub(Link& link, int senders, const QpSpec& spec) {
        Hca hca;
        const int file = memfd_create("xrc-domain", MFD_CLOEXEC);
        Xrcd xrcd = open_xrcd(hca, file, O_CREAT | O_EXCL);
        if (!xrcd) fail_errno("ibv_open_xrcd");
        link.send_file(file);
        close(file);
        std::vector<Qp> receivers;
        const QpSpec in = xrc_recv_spec(spec);
        for (int i = 0; i < senders; ++i) {
            const Peer peer = link.receive<Peer>();
            receivers.push_back(make_xrc_receiver(hca, xrcd.get()));
            bring_up(hca, receivers.back().get(), in, peer);
            link.send(as_peer(hca, receivers.back().get(), in));
        }
        link.await();
    }

    // Joins the domain of the file that comes through the link.
    static Xrcd join(const Hca& hca, Link& link) {
        const int file = link.receive_file();
        Xrcd xrcd = open_xrcd(hca, file, 0);
        close(file);
        if (!xrcd) fail_errno("joining the domain");
        return xrcd;
    }

    // A sending queue pair, connected through the test to a receiving queue pair of the hub.
    struct Sender {
        Sender(Link& link, const QpSpec& spec)
            : qp(make_xrc_sender(hca, pd.get(), cq.get(), spec)) {
            const QpSpec out = xrc_send_spec(spec);
            link.send(as_peer(hca, qp.get(), out));
            bring_up(hca, qp.get(), out, link.receive<Peer>());
        }
        Hca hca;
        Pd pd = hca.make_pd();
        Cq cq = hca.make_cq();
        Region mem{pd.get(), 1 << 16};
        Qp qp;
    };

    // The test's part: passes the domain to the owners, then connects the senders.
    static void introduce(Team& team, int hub, const std::vector<int>& owners,
                          const std::vector<int>& senders) {
        const int file = team[hub].receive_file();
        for (int owner : owners) team[owner].send_file(file);
        close(file);
        for (int sender : senders) {
            team[hub].send(team[sender].receive<Peer>());
            team[sender].send(team[hub].receive<Peer>());
        }
    }
};

// Owns queues, takes kMessages of every sender in each, and checks which memory they reached.
void own_and_check(Link& link, uint32_t first_queue, Xrcd (*join)(const Hca&, Link&)) {
    constexpr uint64_t kSlots = 16;
    Hca hca;
    Pd pd = hca.make_pd();
    Xrcd xrcd = join(hca, link);
    Cq cq = hca.make_cq(1024);
    Region mem(pd.get(), kQueuesPerOwner * kSlots * sizeof(Note));
    std::vector<Srq> queues;
    Numbers numbers{};
    auto post = [&](uint64_t id) {
        return RecvWr(id).sge(mem.sge(id * sizeof(Note), sizeof(Note))).post(queues[id / kSlots]);
    };
    for (int q = 0; q < kQueuesPerOwner; ++q) {
        queues.push_back(make_xrc_srq(hca, pd.get(), xrcd.get(), cq.get(), kSlots));
        numbers.srqn[q] = srq_number(queues.back());
    }
    for (uint64_t id = 0; id < kQueuesPerOwner * kSlots; ++id) ASSERT_EQ(post(id), 0);
    link.send(numbers);
    std::map<std::pair<uint32_t, uint32_t>, uint64_t> next;
    for (uint64_t i = 0; i < kQueuesPerOwner * kSenders * kMessages; ++i) {
        const ibv_wc wc = poll_one(cq);
        ASSERT_EQ(wc.status, IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
        ASSERT_EQ(wc.byte_len, sizeof(Note));
        const auto& note = reinterpret_cast<const Note*>(mem.data())[wc.wr_id];
        ASSERT_EQ(note.queue, first_queue + wc.wr_id / kSlots) << "landed in another queue";
        ASSERT_EQ(note.sequence, (next[{note.sender, note.queue}]++)) << "out of order";
        ASSERT_EQ(post(wc.wr_id), 0);
    }
    EXPECT_EQ(next.size(), std::size_t{kQueuesPerOwner} * kSenders);
}

TEST_F(XrcProcessTest, SeveralSendersReachTheQueuesOfSeveralOwners) {
    Team team;
    const int holder = team.spawn([](Link& link) { hub(link, kSenders, {}); });
    std::vector<int> owners, senders;
    for (uint32_t i = 0; i < kOwners; ++i) {
        owners.push_back(
            team.spawn([i](Link& link) { own_and_check(link, i * kQueuesPerOwner, join); }));
    }
    for (uint32_t i = 0; i < kSenders; ++i) {
        senders.push_back(team.spawn([i](Link& link) {
            Sender sender(link, {});
            const auto numbers = link.receive<std::array<Numbers, kOwners>>();
            auto* note = reinterpret_cast<Note*>(sender.mem.data());
            for (uint64_t sequence = 0; sequence < kMessages; ++sequence) {
                for (uint32_t queue = 0; queue < kOwners * kQueuesPerOwner; ++queue) {
                    const uint32_t number =
                        numbers[queue / kQueuesPerOwner].srqn[queue % kQueuesPerOwner];
                    *note = {i, queue, sequence};
                    ASSERT_EQ(SendWr(IBV_WR_SEND, sequence)
                                  .sge(sender.mem.sge(0, sizeof *note))
                                  .srqn(number)
                                  .post(sender.qp),
                              0);
                    ASSERT_TRUE(next_are(sender.cq, {sequence}));
                }
                link.send();
            }
        }));
    }
    introduce(team, holder, owners, senders);
    std::array<Numbers, kOwners> numbers;
    for (int i = 0; i < kOwners; ++i) numbers[i] = team[owners[i]].receive<Numbers>();
    for (int sender : senders) team[sender].send(numbers);
    // The deadline is that of a round, not of all messages: with the executor `thread` and much
    // other work, each message waits several times for a processor.
    for (uint64_t sequence = 0; sequence < kMessages; ++sequence)
        for (int sender : senders) team[sender].receive();
    team[holder].send();
    team.finish();
}

// An owner of one queue that obeys commands: the size of a buffer to post, or 0 to end.
void obedient_owner(Link& link, Xrcd (*join)(const Hca&, Link&)) {
    Hca hca;
    Pd pd = hca.make_pd();
    Xrcd xrcd = join(hca, link);
    Cq cq = hca.make_cq();
    Region mem(pd.get(), 1 << 16);
    Srq srq = make_xrc_srq(hca, pd.get(), xrcd.get(), cq.get());
    link.send(srq_number(srq));
    while (const uint32_t size = link.receive<uint32_t>()) {
        ASSERT_EQ(RecvWr(size).sge(mem.sge(0, size)).post(srq), 0);
        link.send();
        link.send(poll_one(cq));
    }
}

TEST_F(XrcProcessTest, MessageForAnEmptyQueueStallsAndLaterCompletes) {
    Team team;
    const int holder = team.spawn([](Link& link) { hub(link, 1, quick()); });
    const int owner = team.spawn([](Link& link) { obedient_owner(link, join); });
    const int sender = team.spawn([](Link& link) {
        QpSpec spec = quick();
        spec.rnr_retry = 7;
        Sender end(link, spec);
        const uint32_t number = link.receive<uint32_t>();
        ASSERT_EQ(SendWr(IBV_WR_SEND, 5).sge(end.mem.sge(0, 64)).srqn(number).post(end.qp), 0);
        EXPECT_TRUE(quiet(end.cq));
        link.send();
        EXPECT_TRUE(next_are(end.cq, {5}));
    });
    introduce(team, holder, {owner}, {sender});
    team[sender].send(team[owner].receive<uint32_t>());
    team[sender].receive();
    team[owner].send(uint32_t{64});
    team[owner].receive();
    const ibv_wc wc = team[owner].receive<ibv_wc>();
    EXPECT_TRUE(is_done(wc, 64));
    EXPECT_EQ(wc.byte_len, 64u);
    team[owner].send(uint32_t{0});
    team[holder].send();
    team.finish();
}

TEST_F(XrcProcessTest, MessageThatIsTooLongFailsBothProcesses) {
    Team team;
    const int holder = team.spawn([](Link& link) { hub(link, 1, quick()); });
    const int owner = team.spawn([](Link& link) { obedient_owner(link, join); });
    const int sender = team.spawn([](Link& link) {
        Sender end(link, quick());
        const uint32_t number = link.receive<uint32_t>();
        link.receive();
        ASSERT_EQ(SendWr(IBV_WR_SEND, 5).sge(end.mem.sge(0, 65)).srqn(number).post(end.qp), 0);
        EXPECT_TRUE(next_are(end.cq, {5}, IBV_WC_REM_INV_REQ_ERR));
    });
    introduce(team, holder, {owner}, {sender});
    team[sender].send(team[owner].receive<uint32_t>());
    team[owner].send(uint32_t{64});
    team[owner].receive();
    team[sender].send();
    EXPECT_TRUE(is_done(team[owner].receive<ibv_wc>(), 64, IBV_WC_LOC_LEN_ERR));
    team[owner].send(uint32_t{0});
    team[holder].send();
    team.finish();
}

TEST_F(XrcProcessTest, NumberThatNoQueueHasIsRefused) {
    Team team;
    const int holder = team.spawn([](Link& link) { hub(link, 1, quick()); });
    const int owner = team.spawn([](Link& link) { obedient_owner(link, join); });
    const int sender = team.spawn([](Link& link) {
        Sender end(link, quick());
        const uint32_t number = link.receive<uint32_t>();
        ASSERT_EQ(SendWr(IBV_WR_SEND, 5).srqn(number ^ 0x400000).post(end.qp), 0);
        EXPECT_NE(poll_one(end.cq).status, IBV_WC_SUCCESS);
        link.send();
    });
    introduce(team, holder, {owner}, {sender});
    team[sender].send(team[owner].receive<uint32_t>());
    team[sender].receive();
    team[owner].send(uint32_t{0});
    team[holder].send();
    team.finish();
}

// Sends until a request fails. Reports that the traffic is flowing, then the failure.
void send_until_error(Link& link, uint32_t number, const Qp& qp, const Cq& cq) {
    const auto end = Clock::now() + deadline();
    for (uint64_t i = 0;; ++i) {
        if (Clock::now() > end) fail("nothing failed within the deadline");
        ASSERT_EQ(SendWr(IBV_WR_SEND, i).srqn(number).post(qp), 0);
        const ibv_wc wc = poll_one(cq);
        ASSERT_EQ(wc.wr_id, i);
        if (i == 0) link.send();
        if (wc.status != IBV_WC_SUCCESS) break;
    }
    link.send();
}

// Receives without end.
void busy_owner(Link& link, Xrcd (*join)(const Hca&, Link&)) {
    Hca hca;
    Pd pd = hca.make_pd();
    Xrcd xrcd = join(hca, link);
    Cq cq = hca.make_cq();
    Srq srq = make_xrc_srq(hca, pd.get(), xrcd.get(), cq.get());
    for (uint64_t i = 0; i < 32; ++i) ASSERT_EQ(RecvWr(i).post(srq), 0);
    link.send(srq_number(srq));
    for (;;) ASSERT_EQ(RecvWr(poll_one(cq).wr_id).post(srq), 0);
}

class XrcDeathTest : public XrcProcessTest, public testing::WithParamInterface<bool> {};

TEST_P(XrcDeathTest, SenderGetsAnErrorAndOthersGoOn) {
    // Either the owner of the queue dies, or the process that holds the receiving queue pair.
    const bool owner_dies = GetParam();
    Team team;
    const int holder = team.spawn([](Link& link) { hub(link, 1, quick()); });
    const int owner = team.spawn([](Link& link) { busy_owner(link, join); });
    const int sender = team.spawn([](Link& link) {
        QpSpec spec = quick();
        spec.rnr_retry = 6;
        spec.rnr_timer = 14;  // 1 ms, since the owner may be slow without being dead
        Sender end(link, spec);
        const uint32_t number = link.receive<uint32_t>();
        send_until_error(link, number, end.qp, end.cq);
    });
    introduce(team, holder, {owner}, {sender});
    team[sender].send(team[owner].receive<uint32_t>());
    team[sender].receive();
    team.kill(owner_dies ? owner : holder);
    team[sender].receive();
    if (owner_dies)
        team[holder].send();
    else
        team.kill(owner);
    team.finish();
}

INSTANTIATE_TEST_SUITE_P(Victims, XrcDeathTest, testing::Values(true, false),
                         [](const auto& test) { return test.param ? "Owner" : "Holder"; });

}  // namespace
}  // namespace conformance
