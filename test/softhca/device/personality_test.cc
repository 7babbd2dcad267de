// SPDX-License-Identifier: BSD-3-Clause
// The personalities: what each of them reports, gives and refuses, as a program sees it.
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <ostream>
#include <string>
#include <vector>

#include "fabric.h"

namespace conformance::softhca::personality {
namespace {

// What a program sees of a personality. Sizes are those that it gets when it asks for 10 sends and
// receives, 20 completions, 2 elements and 20 bytes of inline data.
struct Kind {
    const char* name;
    uint8_t link_layer;
    int sge, read_sge, queue_entries, cq_entries, srqs, rd_atomic;
    uint32_t most_inline;
    uint32_t sends, inline_data;
    int completions;
    bool uc, xrc, atomics, windows;
    int resize_cq;  // what ibv_resize_cq() returns
    int in_order_rts, in_order_reset;
    int too_many_elements, too_long_inline, full, early;
};

std::ostream& operator<<(std::ostream& out, const Kind& kind) {
    return out << kind.name;
}

constexpr uint8_t kIb = IBV_LINK_LAYER_INFINIBAND, kEth = IBV_LINK_LAYER_ETHERNET;
constexpr int kMega = 1 << 20;

const Kind kKinds[] = {
    {"default", kIb,  30,   30,   32768, kMega, 8191, 16,     1024,   16,     20,    32,
     true,      true, true, true, 0,     1,     1,    EINVAL, EINVAL, ENOMEM, EINVAL},
    {"mlx5", kIb,  30,   30,   32768, kMega - 1, 8191, 16,     828,    16,     60,    31,
     true,   true, true, true, 0,     1,         0,    ENOMEM, ENOMEM, ENOMEM, ENOMEM},
    {"mlx4", kIb,  30,   30,   16351, kMega - 1, 8191, 16,     928,    16,     60, 31,
     true,   true, true, true, 0,     0,         0,    ENOMEM, ENOMEM, ENOMEM, 0},
    {"irdma", kEth,  13,    13,    4063, 1048574, 0, 8,      101,    10,     20, 20,
     false,   false, false, false, 0,    0,       0, EINVAL, EINVAL, ENOMEM, 0},
    {"bnxt_re", kEth,  6,     6,     65407, kMega, 8191, 126,    96,     10,     20, 20,
     false,     false, false, false, 0,     0,     0,    ENOMEM, ENOMEM, ENOMEM, 0},
    {"hns", kEth, 30,   1,     32768,      kMega, 8191, 128,    1024,   64,     32,    64,
     false, true, true, false, EOPNOTSUPP, 0,     0,    EINVAL, EINVAL, ENOMEM, EINVAL},
    {"rxe", kEth,  30,   30,   16384, 32767, 960, 128,    512,    15,     32,    31,
     true,  false, true, true, 0,     0,     0,   EINVAL, EINVAL, ENOMEM, EINVAL},
    {"strict", kIb,  6,    1,    4063,       32767, 960, 8,       96,      10,      20,     20,
     true,     true, true, true, EOPNOTSUPP, 1,     0,   -EINVAL, -EINVAL, -ENOMEM, -EINVAL},
};

class RuleTest : public FabricTest {
  public:
    using FabricTest::alone;
    // Runs `body` in a process on the fabric; with a name, on one of that personality.
    using Body = std::function<void(const Hca& hca, ibv_pd* pd)>;
    static void on_device(const Body& body) {
        alone([&body] {
            const Hca hca;
            body(hca, hca.make_pd().get());
        });
    }
    static void on_device(const char* personality, const Body& body) {
        set("PERSONALITY", personality);
        on_device(body);
    }
};

class PersonalityTest : public RuleTest, public testing::WithParamInterface<Kind> {
  public:
    const Kind& kind = GetParam();
};

std::string kind_case(const testing::TestParamInfo<Kind>& test) {
    return test.param.name;
}

QpSpec small() {
    QpSpec spec;
    spec.send_wr = spec.recv_wr = 10;
    spec.send_sge = spec.recv_sge = 2;
    spec.inline_data = 20;
    return spec;
}

TEST_P(PersonalityTest, AttributesAreThoseOfTheDevice) {
    on_device(kind.name, [this](const Hca& hca, ibv_pd* pd) {
        EXPECT_EQ(hca.port_attr().link_layer, kind.link_layer);
        EXPECT_EQ(hca.attr().max_sge, kind.sge);
        EXPECT_EQ(hca.attr().max_sge_rd, kind.read_sge);
        EXPECT_EQ(hca.attr().max_qp_wr, kind.queue_entries);
        EXPECT_EQ(hca.attr().max_cqe, kind.cq_entries);
        EXPECT_EQ(hca.attr().max_srq, kind.srqs);
        EXPECT_EQ(hca.attr().max_qp_rd_atom, kind.rd_atomic);
        EXPECT_EQ(hca.attr().max_qp_init_rd_atom, kind.rd_atomic);
        EXPECT_EQ(hca.has_atomics(), kind.atomics);
        EXPECT_EQ(hca.has(IBV_DEVICE_XRC), kind.xrc);
        EXPECT_EQ(hca.attr().max_mw != 0, kind.windows);
        EXPECT_EQ(hca.has(IBV_DEVICE_MEM_WINDOW), kind.windows);
        EXPECT_EQ(has_transport(hca, pd, IBV_QPT_UC), kind.uc);
    });
}

TEST_P(PersonalityTest, QueuesHaveTheSizesThatTheDeviceGives) {
    on_device(kind.name, [this](const Hca& hca, ibv_pd* pd) {
        const Cq cq = hca.make_cq(20);
        EXPECT_EQ(cq->cqe, kind.completions);
        ibv_qp_init_attr init = init_attr(small(), cq.get(), cq.get());
        const Qp qp(ibv_create_qp(pd, &init));
        ASSERT_NE(qp, nullptr);
        EXPECT_EQ(init.cap.max_send_wr, kind.sends);
        EXPECT_EQ(init.cap.max_recv_wr, kind.sends);
        EXPECT_EQ(init.cap.max_inline_data, kind.inline_data);
        EXPECT_EQ(init.cap.max_send_sge, 2u);
        EXPECT_EQ(ibv_resize_cq(cq.get(), 40), kind.resize_cq);
    });
}

// Devices without ibv_wr_* refuse a list of operations. On mlx5 a request of which the list has no
// memory windows is shorter: 48 bytes and 32, of which 20 are inline, in a unit of 64.
TEST_P(PersonalityTest, OperationsMayBeNamed) {
    on_device(kind.name, [this](const Hca& hca, ibv_pd* pd) {
        const std::string name = kind.name;
        const Cq cq = hca.make_cq(20);
        const ibv_qp_init_attr plain = init_attr(small(), cq.get(), cq.get());
        ibv_qp_init_attr_ex init{};
        init.send_cq = init.recv_cq = cq.get();
        init.cap = plain.cap;
        init.qp_type = IBV_QPT_RC;
        init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        init.pd = pd;
        init.send_ops_flags =
            IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ;
        errno = 0;
        const Qp qp(ibv_create_qp_ex(hca.get(), &init));
        if (name == "mlx4" || name == "irdma") {
            EXPECT_EQ(qp, nullptr);
            EXPECT_EQ(errno, EOPNOTSUPP);
            return;
        }
        ASSERT_NE(qp, nullptr);
        EXPECT_EQ(init.cap.max_send_wr, kind.sends);
        EXPECT_EQ(init.cap.max_inline_data, name == "mlx5" ? 128u - 48 - 4 : kind.inline_data);
    });
}

// The most that a queue pair can have, and one more.
TEST_P(PersonalityTest, LimitsHold) {
    on_device(kind.name, [this](const Hca& hca, ibv_pd* pd) {
        const Cq cq = hca.make_cq(20);
        const auto create = [&](const ibv_qp_cap& cap, ibv_qp_cap* got) {
            ibv_qp_init_attr init = init_attr(small(), cq.get(), cq.get());
            init.cap = cap;
            const Qp qp(ibv_create_qp(pd, &init));
            *got = init.cap;
            return qp != nullptr;
        };
        const auto entries = static_cast<uint32_t>(kind.queue_entries);
        const auto sges = static_cast<uint32_t>(kind.sge);
        ibv_qp_cap got;
        EXPECT_TRUE(create({entries, entries, 1, 1, 0}, &got));
        EXPECT_EQ(got.max_send_wr, entries);
        EXPECT_FALSE(create({entries + 1, 1, 1, 1, 0}, &got));
        EXPECT_FALSE(create({1, entries + 1, 1, 1, 0}, &got));
        EXPECT_TRUE(create({1, 1, sges, sges, 0}, &got));
        EXPECT_FALSE(create({1, 1, sges + 1, 1, 0}, &got));
        EXPECT_FALSE(create({1, 1, 1, sges + 1, 0}, &got));
        EXPECT_TRUE(create({1, 1, 1, 1, kind.most_inline}, &got));
        EXPECT_EQ(got.max_inline_data, kind.most_inline);
        const bool more = create({1, 1, 1, 1, kind.most_inline + 1}, &got);
        EXPECT_EQ(more, std::string(kind.name) == "hns") << "it cuts the size";
        EXPECT_TRUE(!more || got.max_inline_data == kind.most_inline);
    });
}

TEST_P(PersonalityTest, PostsAreRefusedWithTheErrorsOfTheDevice) {
    on_device(kind.name, [this](const Hca& hca, ibv_pd* pd) {
        const Pair pair(hca, pd, small());
        const std::vector<ibv_sge> list(3, pair.a_mem.sge(0, 1));
        EXPECT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1).sges(list).remote(pair.b_mem).post(pair.a.qp),
                  kind.too_many_elements);
        EXPECT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1)
                      .sge(pair.a_mem.sge(0, kind.inline_data + 1))
                      .flags(IBV_SEND_INLINE | IBV_SEND_SIGNALED)
                      .remote(pair.b_mem)
                      .post(pair.a.qp),
                  kind.too_long_inline);
        for (uint32_t i = 0; i < kind.sends; ++i)
            ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, i).post(pair.a.qp), 0) << i;
        EXPECT_EQ(SendWr(IBV_WR_RDMA_WRITE, 99).post(pair.a.qp), kind.full);
        const std::vector<ibv_sge> read(2, pair.b_mem.sge(0, 1));
        EXPECT_EQ(SendWr(IBV_WR_RDMA_READ, 1).sges(read).remote(pair.a_mem).post(pair.b.qp),
                  kind.read_sge >= 2 ? 0 : kind.too_many_elements);
    });
}

TEST_P(PersonalityTest, SendBeforeReadyToSend) {
    on_device(kind.name, [this](const Hca& hca, ibv_pd* pd) {
        const QpSpec spec = small();
        Region memory(pd, 4096);
        Endpoint a(hca, pd, spec);
        Endpoint b(hca, pd, spec);
        bring_up(hca, b.qp.get(), spec, as_peer(hca, a.qp.get(), spec));
        apply_all(a.qp.get(), {to_init(hca, spec)});
        memory.word(0) = 1;
        EXPECT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1).sge(memory.sge(0, 8)).remote(memory, 64).post(a.qp),
                  kind.early);
        EXPECT_TRUE(quiet(a.send_cq));
        apply_all(a.qp.get(), {to_rtr(hca, spec, as_peer(hca, b.qp.get(), spec)), to_rts(spec)});
        const bool queued = kind.early == 0 || std::string(kind.name) == "rxe";
        EXPECT_TRUE(queued ? next_are(a.send_cq, {1}) : quiet(a.send_cq));
        EXPECT_EQ(memory.word(8), queued ? 1u : 0u);
    });
}

TEST_P(PersonalityTest, OrderOfDataIsPromisedInTheStatesOfTheDevice) {
    on_device(kind.name, [this](const Hca& hca, ibv_pd* pd) {
        const Endpoint end(hca, pd);
        const Pair pair(hca, pd);
        EXPECT_EQ(ibv_query_qp_data_in_order(end.qp.get(), IBV_WR_RDMA_WRITE, 0),
                  kind.in_order_reset);
        EXPECT_EQ(ibv_query_qp_data_in_order(pair.a.qp.get(), IBV_WR_RDMA_WRITE, 0),
                  kind.in_order_rts);
    });
}

INSTANTIATE_TEST_SUITE_P(All, PersonalityTest, testing::ValuesIn(kKinds), kind_case);

// Makes, destroys and makes again a queue pair and a region, and compares their numbers.
void compare_numbers(bool same_qp, bool same_key) {
    const Hca hca;
    const Pd pd = hca.make_pd();
    const Endpoint stays(hca, pd.get());
    uint32_t qpn = 0;
    {
        const Endpoint first(hca, pd.get());
        qpn = first.qp->qp_num;
    }
    const Endpoint second(hca, pd.get());
    EXPECT_EQ(second.qp->qp_num == qpn, same_qp);
    EXPECT_NE(second.qp->qp_num, stays.qp->qp_num);
    Region region(pd.get(), 4096);
    const uint32_t key = region.rkey();
    region.deregister();
    const Region next(pd.get(), 4096);
    EXPECT_EQ(next.rkey() == key, same_key);
}

TEST_F(RuleTest, NumbersAreNotReusedSoonByDefault) {
    alone([] { compare_numbers(false, false); });
}

TEST_F(RuleTest, LowestFreeNumberAndLastKeyComeBackAtOnceInStrict) {
    set("PERSONALITY", "strict");
    alone([] { compare_numbers(true, true); });
}

TEST_F(RuleTest, KeyOfADeadRegionHitsItsSuccessorInMlx5) {
    on_device("mlx5", [](const Hca& hca, ibv_pd* pd) {
        const Pair pair(hca, pd);
        Region dead(pd, 4096);
        const uint32_t stale = dead.rkey();
        dead.deregister();
        const Region next(pd, 4096);
        ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1)
                      .sge(pair.a_mem.sge(0, 8))
                      .remote(next.addr(), stale)
                      .post(pair.a.qp),
                  0);
        EXPECT_TRUE(next_are(pair.a.send_cq, {1}));
    });
}

TEST_F(RuleTest, SingleRuleChangesThePersonality) {
    set("PERSONALITY", "mlx5");
    set("RULES", "inline=64,cq-resize=0,in-order=0,max-qp=3,max-cqe=500");
    on_device([](const Hca& hca, ibv_pd* pd) {
        const Pair pair(hca, pd);
        EXPECT_EQ(hca.attr().max_qp, 3);
        EXPECT_EQ(hca.attr().max_cqe, 500);
        EXPECT_EQ(Cq(ibv_create_cq(hca.get(), 501, nullptr, nullptr, 0)), nullptr) << "max_cqe";
        EXPECT_EQ(ibv_resize_cq(pair.a.send_cq.get(), 40), EOPNOTSUPP);
        EXPECT_EQ(ibv_query_qp_data_in_order(pair.a.qp.get(), IBV_WR_RDMA_WRITE, 0), 0);
        ibv_qp_init_attr init = init_attr({}, pair.a.send_cq.get(), pair.a.send_cq.get());
        const Qp third(ibv_create_qp(pd, &init));
        EXPECT_NE(third, nullptr);
        EXPECT_EQ(Qp(ibv_create_qp(pd, &init)), nullptr) << "max_qp";
    });
}

TEST_F(RuleTest, RefusedCreationMayLeaveErrnoAlone) {
    for (const char* name : {"default", "bnxt_re"}) {
        on_device(name, [name](const Hca& hca, ibv_pd* pd) {
            const Cq cq = hca.make_cq(20);
            ibv_qp_init_attr init = init_attr({}, cq.get(), cq.get());
            init.cap.max_send_sge = 1000;
            errno = 0;
            EXPECT_EQ(ibv_create_qp(pd, &init), nullptr);
            EXPECT_EQ(errno, std::string(name) == "default" ? EINVAL : 0);
        });
    }
}

TEST_F(RuleTest, SharedReceiveQueueHasItsOwnErrors) {
    const std::pair<const char*, int> kinds[] = {
        {"default", ENOMEM}, {"mlx4", -1}, {"strict", -ENOMEM}};
    for (const auto& [name, full] : kinds) {
        on_device(name, [error = full](const Hca&, ibv_pd* pd) {
            const Srq srq = make_srq(pd, 4, 1);
            ibv_srq_attr attr{};
            ASSERT_EQ(ibv_query_srq(srq.get(), &attr), 0);
            for (uint32_t i = 0; i < attr.max_wr; ++i) ASSERT_EQ(RecvWr(i).post(srq), 0);
            EXPECT_EQ(RecvWr(9).post(srq), error);
        });
    }
}

// An RC connection whose sides differ in one attribute.
struct Mismatch {
    QpSpec a = quick();
    QpSpec b = quick();
    ibv_mtu mtu_of_b = IBV_MTU_4096;
};

// Connects the two sides, and lets `a` post `wr` and see `status`.
void post_over(const Mismatch& sides, ibv_wr_opcode opcode, uint32_t bytes, ibv_wc_status status) {
    const Hca hca;
    const Pd pd = hca.make_pd();
    const Region memory(pd.get(), 1 << 16);
    const Endpoint a(hca, pd.get(), sides.a);
    const Endpoint b(hca, pd.get(), sides.b);
    Step rtr = to_rtr(hca, sides.b, as_peer(hca, a.qp.get(), sides.b));
    rtr.attr.path_mtu = sides.mtu_of_b;
    apply_all(b.qp.get(), {to_init(hca, sides.b), rtr, to_rts(sides.b)});
    bring_up(hca, a.qp.get(), sides.a, as_peer(hca, b.qp.get(), sides.a));
    ASSERT_EQ(SendWr(opcode, 1).sge(memory.sge(0, bytes)).remote(memory, 1 << 15).post(a.qp), 0);
    EXPECT_TRUE(next_are(a.send_cq, {1}, status));
}

void expect_checked(const char* rule, const Mismatch& sides, ibv_wr_opcode opcode, uint32_t bytes,
                    ibv_wc_status status) {
    set("RULES", std::string(rule) + "=1");
    RuleTest::alone([&] { post_over(sides, opcode, bytes, status); });
    set("RULES", std::string(rule) + "=0");
    RuleTest::alone([&] { post_over(sides, opcode, bytes, IBV_WC_SUCCESS); });
}

TEST_F(RuleTest, PsnsOfTheTwoSidesMustAgree) {
    Mismatch sides;
    sides.b.psn = 7;
    expect_checked("psn", sides, IBV_WR_RDMA_WRITE, 8, IBV_WC_RETRY_EXC_ERR);
}

TEST_F(RuleTest, PathMtusMustAgreeForLongMessages) {
    Mismatch sides;
    sides.mtu_of_b = IBV_MTU_1024;
    expect_checked("path-mtu", sides, IBV_WR_RDMA_WRITE, 1025, IBV_WC_REM_INV_REQ_ERR);
    expect_checked("path-mtu", sides, IBV_WR_RDMA_WRITE, 1024, IBV_WC_SUCCESS);
}

TEST_F(RuleTest, ResponderMustAcceptTheReadsThatTheRequesterMayHave) {
    Mismatch sides;
    sides.a.reads = 4;
    expect_checked("rd-atomic-match", sides, IBV_WR_RDMA_READ, 8, IBV_WC_REM_INV_REQ_ERR);
    expect_checked("rd-atomic-match", sides, IBV_WR_RDMA_WRITE, 8, IBV_WC_SUCCESS);
}

void drop_capabilities() {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    const __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
    if (syscall(SYS_capset, &header, none) != 0) fail_errno("capset");
}

TEST_F(RuleTest, RegisteredMemoryCountsAsLocked) {
    for (const int rule : {0, 1}) {
        set("RULES", "locked-memory=" + std::to_string(rule));
        on_device([rule](const Hca&, ibv_pd* pd) {
            drop_capabilities();
            const rlimit limit{1 << 16, 1 << 16};
            ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
            Region most(pd, 1 << 16);
            static char more[4096];
            errno = 0;
            const Mr mr(ibv_reg_mr(pd, more, sizeof more, kAllAccess));
            EXPECT_EQ(mr == nullptr, rule == 1);
            EXPECT_EQ(errno, rule == 1 ? ENOMEM : 0);
            most.deregister();
            EXPECT_NE(Mr(ibv_reg_mr(pd, more, sizeof more, kAllAccess)), nullptr);
        });
    }
}

// Posts a write of 8 bytes.
void write_word(const Pair& pair, uint64_t id) {
    ASSERT_EQ(
        SendWr(IBV_WR_RDMA_WRITE, id).sge(pair.a_mem.sge(0, 8)).remote(pair.b_mem).post(pair.a.qp),
        0);
}

// Forks a child that does nothing.
void fork_once() {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(0);
    ASSERT_EQ(::waitpid(pid, nullptr, 0), pid);
}

TEST_F(RuleTest, ForkWithoutForkInitLosesTheRegions) {
    set("RULES", "fork=1");
    alone([] {
        EXPECT_EQ(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED) << "no device is open yet";
        const Hca hca;
        EXPECT_EQ(ibv_is_fork_initialized(), IBV_FORK_DISABLED);
        const Pd pd = hca.make_pd();
        const Pair pair(hca, pd.get(), quick());
        EXPECT_EQ(ibv_fork_init(), EINVAL) << "memory is registered";
        fork_once();
        write_word(pair, 1);
        EXPECT_TRUE(next_are(pair.a.send_cq, {1}, IBV_WC_LOC_PROT_ERR));
    });
}

TEST_F(RuleTest, ForkInitInTimeProtects) {
    set("RULES", "fork=1");
    alone([] {
        ASSERT_EQ(ibv_fork_init(), 0);
        const Hca hca;
        EXPECT_EQ(ibv_is_fork_initialized(), IBV_FORK_ENABLED);
        const Pd pd = hca.make_pd();
        const Pair pair(hca, pd.get(), quick());
        fork_once();
        write_word(pair, 1);
        EXPECT_TRUE(next_are(pair.a.send_cq, {1}));
    });
}

TEST_F(RuleTest, CompletionsOfADestroyedQueuePair) {
    for (const char* name : {"mlx5", "rxe", "strict"}) {
        on_device(name, [name](const Hca& hca, ibv_pd* pd) {
            Pair pair(hca, pd, quick());
            write_word(pair, 5);
            EXPECT_TRUE(quiet(pair.b.send_cq));  // time for the write
            pair.a.qp.reset();
            const bool delivered = std::string(name) != "mlx5";
            EXPECT_TRUE(delivered ? next_are(pair.a.send_cq, {5}) : quiet(pair.a.send_cq));
        });
    }
}

TEST_F(RuleTest, LastReceiveOfASharedQueueIsAnnouncedOrNot) {
    for (const char* name : {"mlx5", "rxe"}) {
        on_device(name, [name](const Hca& hca, ibv_pd* pd) {
            const Srq srq = make_srq(pd);
            QpSpec attached = quick();
            attached.srq = srq.get();
            const Pair pair(hca, pd, quick(), attached);
            apply_all(pair.b.qp.get(), {to_state(IBV_QPS_ERR)});
            if (std::string(name) == "mlx5")
                wait_event(hca, IBV_EVENT_QP_LAST_WQE_REACHED);
            else
                EXPECT_TRUE(no_event(hca, IBV_EVENT_QP_LAST_WQE_REACHED));
        });
    }
}

// A queue pair that has used receives of a shared queue takes another one when it fails: that comes
// back later, before the event, unless the queue pair is destroyed.
TEST_F(RuleTest, ReceivesTakenAheadAreFlushedOrLost) {
    set("PERSONALITY", "strict");
    alone([] {
        const Hca hca;
        const Pd pd = hca.make_pd();
        const Srq srq = make_srq(pd.get(), 4, 1);
        const Region inbox(pd.get(), 64);
        for (int i = 0; i < 4; ++i) ASSERT_EQ(RecvWr(i).sge(inbox.sge(0, 64)).post(srq), 0);
        QpSpec attached = quick();
        attached.srq = srq.get();
        QpSpec impatient = quick();
        impatient.rnr_retry = 0;
        const auto make = [&] {
            return std::make_unique<Pair>(hca, pd.get(), impatient, attached);
        };
        const auto send = [](Pair& pair, uint64_t received) {
            ASSERT_EQ(SendWr(IBV_WR_SEND, 9).post(pair.a.qp), 0);
            ASSERT_TRUE(next_are(pair.a.send_cq, {9}));
            ASSERT_TRUE(next_are(pair.b.recv_cq, {received}));
        };
        auto pair = make();
        ASSERT_NO_FATAL_FAILURE(send(*pair, 0));
        apply_all(pair->b.qp.get(), {to_state(IBV_QPS_ERR)});
        EXPECT_TRUE(next_are(pair->b.recv_cq, {1}, IBV_WC_WR_FLUSH_ERR));
        EXPECT_EQ(wait_event(hca, IBV_EVENT_QP_LAST_WQE_REACHED).element.qp, pair->b.qp.get());
        pair = make();
        apply_all(pair->b.qp.get(), {to_state(IBV_QPS_ERR)});
        EXPECT_EQ(wait_event(hca, IBV_EVENT_QP_LAST_WQE_REACHED).element.qp, pair->b.qp.get());
        EXPECT_TRUE(quiet(pair->b.recv_cq)) << "it has used none, and takes none";
        pair = make();
        ASSERT_NO_FATAL_FAILURE(send(*pair, 2));
        pair = make();  // the other one is destroyed, and the last receive is lost
        ASSERT_EQ(SendWr(IBV_WR_SEND, 9).post(pair->a.qp), 0);
        EXPECT_TRUE(next_are(pair->a.send_cq, {9}, IBV_WC_RNR_RETRY_EXC_ERR));
    });
}

TEST_F(RuleTest, PortThatNeedsAGrhSaysSoAndRefusesOthers) {
    set("PERSONALITY", "strict");
    alone([] {
        const Hca hca;
        EXPECT_EQ(hca.port_attr().link_layer, IBV_LINK_LAYER_INFINIBAND);
        EXPECT_NE(hca.port_attr().flags & IBV_QPF_GRH_REQUIRED, 0);
        const Pd pd = hca.make_pd();
        ibv_ah_attr path = hca.path_to(hca.address());
        EXPECT_EQ(path.is_global, 1);
        EXPECT_NE(hca.make_ah(pd.get(), hca.address()), nullptr);
        path.is_global = 0;
        EXPECT_EQ(ibv_create_ah(pd.get(), &path), nullptr);
    });
}

TEST_F(RuleTest, AddressOfAPortThatDoesNotAnswerTimesOut) {
    set("LINK_LAYER", "ethernet");
    set("RULES", "neighbor-timeout=50");
    on_device([](const Hca& hca, ibv_pd* pd) {
        Address nobody = hca.address();
        nobody.gid.raw[15] = 0x77;
        ibv_ah_attr path = hca.path_to(nobody);
        const Stopwatch watch;
        errno = 0;
        EXPECT_EQ(ibv_create_ah(pd, &path), nullptr);
        EXPECT_EQ(errno, ETIMEDOUT);
        const Endpoint end(hca, pd);
        apply_all(end.qp.get(), {to_init(hca, {})});
        EXPECT_EQ(to_rtr(hca, {}, {nobody, 1, 1}).apply(end.qp.get()), ETIMEDOUT);
        EXPECT_GE(watch.elapsed().count(), 100);
        EXPECT_NE(hca.make_ah(pd, hca.address()), nullptr);
    });
}

// As the kernel, which resolves the address from the sender's own.
TEST_F(RuleTest, NoWayFromOneKindOfGidToTheOther) {
    set("LINK_LAYER", "ethernet");
    set("PERSONALITY", "mlx5");
    alone([] {
        const Hca link_local = open(0, 1, 1);
        const Hca ipv4 = open(0, 1, 3);
        const Pd pd = link_local.make_pd();
        EXPECT_NE(link_local.make_ah(pd.get(), link_local.address()), nullptr);
        ibv_ah_attr path = link_local.path_to(ipv4.address());
        errno = 0;
        EXPECT_EQ(ibv_create_ah(pd.get(), &path), nullptr);
        EXPECT_EQ(errno, EINVAL);
        const Endpoint end(link_local, pd.get());
        apply_all(end.qp.get(), {to_init(link_local, {})});
        EXPECT_EQ(to_rtr(link_local, {}, {ipv4.address(), 1, 1}).apply(end.qp.get()), EINVAL);
    });
}

}  // namespace
}  // namespace conformance::softhca::personality
