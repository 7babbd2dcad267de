// SPDX-License-Identifier: BSD-3-Clause
// Kills a sender after random numbers of instructions of a send. Wherever the sender died, each
// receive of the survivor completes exactly once, and the survivor's queues keep working.
#include <gtest/gtest.h>
#include <sys/ptrace.h>

#include <map>
#include <random>

#include "fabric_process.h"
#include "seed.h"
#include "softhca/transport/cq.h"
#include "softhca/transport/qp.h"
#include "softhca/transport/region.h"
#include "softhca/transport/srq.h"

namespace softhca {
namespace {

using test::Child;
using test::shared_value;
using test::start_adapter;
using test::unique_fabric;
using test::wait_for;

constexpr uint32_t kReceives = 4;
constexpr uint32_t kPd = 1;

struct Shared {
    std::atomic<uint32_t> survivor_qp{0};
    std::atomic<uint32_t> victim_qp{0};
    std::atomic<uint32_t> rkey{0};
    std::atomic<uint64_t> address{0};
    std::atomic<int> connected{0};
    std::atomic<int> sent{0};
    std::atomic<int> killed{0};
    char message[64];
};

void connect(Qp& qp, uint32_t peer) {
    Qp::Change change;
    change.mask = qp_attr::kState | qp_attr::kPort | qp_attr::kAccessFlags | qp_attr::kDestQpn |
                  qp_attr::kAv | qp_attr::kMinRnrTimer | qp_attr::kRetryCnt | qp_attr::kRnrRetry |
                  qp_attr::kTimeout;
    change.state = QpState::kRts;
    change.access = access_flag::kRemoteWrite;
    change.peer_number = peer;
    change.min_rnr_timer = 1;
    change.retry_count = 1;
    change.rnr_retry = 1;
    change.timeout = 8;
    qp.modify(change);
}

Qp* make_qp(Adapter& adapter, Cq* cq, Srq* srq) {
    Qp::Attributes attributes;
    attributes.pd = kPd;
    attributes.send_cq = cq;
    attributes.recv_cq = cq;
    attributes.srq = srq;
    attributes.max_send_wr = 8;
    attributes.max_send_sge = 1;
    attributes.max_inline = 64;
    return Qp::create(adapter, attributes);
}

void post(Qp& qp, WrOpcode opcode, uint64_t address, uint32_t rkey) {
    {
        const std::lock_guard lock(qp.post_mutex);
        Wqe* wqe = qp.reserve_send();
        wqe->opcode = opcode;
        wqe->is_inline = true;
        wqe->length = 8;
        wqe->remote_address = address;
        wqe->rkey = rkey;
        wqe->flags = send_flag::kSignaled;
        qp.commit_send(*wqe, qp.post_time());
    }
    qp.start_sends();
}

int victim(const std::string& fabric, Shared& shared, WrOpcode opcode) {
    Adapter* adapter = start_adapter(fabric);
    Cq* cq = Cq::create(*adapter, 16);
    Qp* qp = make_qp(*adapter, cq, nullptr);
    shared.victim_qp = qp->number();
    wait_for([&] { return shared.connected == 1; });
    connect(*qp, shared.survivor_qp);
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    post(*qp, opcode, shared.address, shared.rkey);
    shared.sent = 1;
    pause();
    return 0;
}

// The process that outlives the sender. run() returns 0, or the number of the check that failed.
class Survivor {
  public:
    Survivor(const std::string& fabric, Shared& shared)
        : adapter_(*start_adapter(fabric)), shared_(shared) {
        memory_ = static_cast<char*>(
            mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        RegionAttributes region;
        region.address = region.iova = reinterpret_cast<uint64_t>(memory_);
        region.length = 4096;
        region.pd = kPd;
        region.access = access_flag::kLocalWrite | access_flag::kRemoteWrite;
        key_ = publish_region(adapter_, next_key(adapter_, allocate_key(adapter_)), region, {});
        cq_ = Cq::create(adapter_, 64);
        Srq::Attributes attributes;
        attributes.pd = kPd;
        attributes.max_wr = 16;
        attributes.max_sge = 1;
        srq_ = Srq::create(adapter_, attributes);
        for (uint64_t id = 0; id < kReceives; ++id) receive(id);
    }

    int run() {
        Qp* qp = make_qp(adapter_, cq_, srq_);
        shared_.rkey = key_;
        shared_.address = reinterpret_cast<uint64_t>(memory_);
        shared_.survivor_qp = qp->number();
        if (!wait_for([&] { return shared_.victim_qp != 0; })) return 2;
        connect(*qp, shared_.victim_qp);
        shared_.connected = 1;
        if (!wait_for([&] { return shared_.killed == 1; })) return 3;
        Qp::Change change;
        change.mask = qp_attr::kState;
        change.state = QpState::kErr;
        qp->modify(change);
        poll_all();
        const int status = use_the_rest();
        return status != 0 ? status : check();
    }

  private:
    void receive(uint64_t id) {
        const Sge sge{reinterpret_cast<uint64_t>(memory_) + 64 * id, 64, key_};
        srq_->post(id, &sge, 1);
    }

    void poll_all() {
        cq_->poll(64, [this](const Completion& wc) {
            if (wc.opcode == WcOpcode::kReceive || wc.opcode == WcOpcode::kReceiveRdmaWithImm)
                ++completed_[wc.wr_id];
            else if (wc.status == WcStatus::kSuccess)
                ++sent_;
        });
    }

    // Sends to itself through the same queues until no posted receive is left.
    int use_the_rest() {
        Qp* from = make_qp(adapter_, cq_, srq_);
        Qp* to = make_qp(adapter_, cq_, srq_);
        connect(*from, to->number());
        connect(*to, from->number());
        while (srq_->shared().ring.posted() != 0) {
            const int before = sent_;
            post(*from, WrOpcode::kSend, 0, 0);
            if (!wait_for([&] {
                    poll_all();
                    return sent_ > before;
                }))
                return 4;
        }
        poll_all();
        return 0;
    }

    int check() {
        for (uint64_t id = 0; id < kReceives; ++id)
            if (completed_[id] != 1)
                return completed_[id] == 0 ? 5 : 6;  // lost, or completed twice
        for (uint64_t id = 0; id < 16; ++id) {       // checks that every slot is free again
            const Sge sge{reinterpret_cast<uint64_t>(memory_), 64, key_};
            if (srq_->post(100 + id, &sge, 1) != 0) return 7;
        }
        return 0;
    }

    Adapter& adapter_;
    Shared& shared_;
    char* memory_;
    uint32_t key_;
    Cq* cq_;
    Srq* srq_;
    int sent_ = 0;
    std::map<uint64_t, int> completed_;
};

// Lets a stopped child execute `count` instructions; false if the send was over before.
bool step(pid_t pid, uint64_t count, const Shared& shared) {
    for (uint64_t i = 0; i < count; ++i) {
        int status;
        if (shared.sent != 0 || ptrace(PTRACE_SINGLESTEP, pid, nullptr, nullptr) != 0 ||
            waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status))
            return false;
    }
    return true;
}

// Kills a sender after `instructions`, and returns the survivor's exit status. *over: the send had
// ended before the kill.
int kill_after(uint64_t instructions, WrOpcode opcode, bool* over) {
    const std::string fabric = unique_fabric();
    auto* shared = shared_value<Shared>();
    Child survivor([&] { return Survivor(fabric, *shared).run(); });
    Child doomed([&] { return victim(fabric, *shared, opcode); });
    int status;
    if (waitpid(doomed.pid(), &status, __WALL) != doomed.pid() || !WIFSTOPPED(status)) return -1;
    *over = !step(doomed.pid(), instructions, *shared);
    doomed.kill();
    shared->killed = 1;
    const int said = survivor.join();
    munmap(shared, sizeof *shared);
    std::string error;
    Segment::remove_if_unused(fabric, &error);
    return said;
}

class KillAnywhereTest : public testing::TestWithParam<WrOpcode> {};

// An upper limit of the instructions of a send: the smallest power of two (from 512) after which
// the send is over.
uint64_t send_length(WrOpcode opcode) {
    for (uint64_t length = 512;; length *= 2) {
        bool over = false;
        EXPECT_EQ(kill_after(length, opcode, &over), 0) << "after " << length << " instructions";
        if (over || length > 1 << 20) {
            EXPECT_TRUE(over) << "a send that does not end";
            return length;
        }
    }
}

TEST_P(KillAnywhereTest, EveryReceiveCompletesOnce) {
    const uint32_t seed = tern::test::any_seed();
    std::mt19937_64 random(seed);
    const uint64_t length = send_length(GetParam());
    bool over = false;
    for (int i = 0; i < 60; ++i) {
        const uint64_t instructions = random() % length;
        ASSERT_EQ(kill_after(instructions, GetParam(), &over), 0)
            << "after " << instructions << " instructions";
    }
    // A kill after every instruction takes minutes, so it runs only on request: KILL_EVERY=1 tests
    // all of them, KILL_EVERY=7 every seventh.
    const char* stride = std::getenv("KILL_EVERY");
    const uint64_t every = stride == nullptr ? 0 : std::strtoull(stride, nullptr, 10);
    for (uint64_t at = 0; every != 0 && at < length && !(over && at > length / 2); at += every)
        EXPECT_EQ(kill_after(at, GetParam(), &over), 0) << "after " << at << " instructions";
}

INSTANTIATE_TEST_SUITE_P(Operations, KillAnywhereTest,
                         testing::Values(WrOpcode::kSend, WrOpcode::kRdmaWriteImm));

}  // namespace
}  // namespace softhca
