// SPDX-License-Identifier: BSD-3-Clause
// Kills a requester after random numbers of instructions of an operation. Wherever it died, each
// receive of the survivor completes exactly once, a completion queue that is armed has one event,
// and the survivor's queues keep working.
#include <gtest/gtest.h>
#include <sys/ptrace.h>

#include <cinttypes>
#include <cstdio>
#include <map>
#include <random>

#include "common/seed.h"
#include "fabric_process.h"
#include "requests.h"

namespace softhca {
namespace {

using test::Child;
using test::connect;
using test::kPd;
using test::make_qp;
using test::Memory;
using test::post;
using test::shared_value;
using test::start_adapter;
using test::unique_fabric;
using test::wait_for;

constexpr uint32_t kReceives = 4;
constexpr uint32_t kDatagramKey = 7;

struct Operation {
    WrOpcode opcode;
    bool armed = false;  // the survivor's completion queue
    const char* profile = nullptr;
    QpType type = QpType::kRc;
    uint32_t length = 8;
};

// Counts the events of the completion queue.
struct Events : test::NoEvents {
    void completion_event(Cq&) override { ++count; }
    std::atomic<int> count{0};
};

struct Shared {
    std::atomic<uint32_t> survivor_qp{0};
    std::atomic<uint32_t> victim_qp{0};
    std::atomic<uint32_t> srq{0};
    std::atomic<uint32_t> rkey{0};
    std::atomic<uint64_t> address{0};
    std::atomic<int> connected{0};
    std::atomic<int> sent{0};
    std::atomic<int> killed{0};
    char message[64];
};

void connect(Qp& qp, const Operation& operation, uint32_t peer) {
    connect(qp, peer);
    if (operation.type != QpType::kUd) return;
    QpChange change;
    change.mask = qp_attr::kQkey;
    change.responder.qkey = kDatagramKey;
    qp.modify(change);
}

int victim(const std::string& fabric, Shared& shared, const Operation& operation) {
    Adapter* adapter = start_adapter(fabric, test::no_events, operation.profile);
    Cq* cq = Cq::create(*adapter, 16);
    const QpType type = operation.type == QpType::kXrcRecv ? QpType::kXrcSend : operation.type;
    Qp* qp = make_qp(*adapter, cq, nullptr, type);
    const Memory memory(*adapter, 64 << 10);
    shared.victim_qp = qp->number();
    wait_for([&] { return shared.connected == 1; });
    connect(*qp, operation, shared.survivor_qp);
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    Wqe what{};
    what.opcode = operation.opcode;
    what.length = operation.length;
    what.remote = {shared.address, shared.rkey};
    what.srq = shared.srq;
    what.datagram.path.link = 0;
    what.datagram.qp = shared.survivor_qp;
    what.datagram.qkey = kDatagramKey;
    post(*qp, what, memory.at(0, operation.length));
    shared.sent = 1;
    pause();
    return 0;
}

// The process that outlives the sender. run() returns 0, or the number of the check that failed.
class Survivor {
  public:
    Survivor(const std::string& fabric, Shared& shared, const Operation& operation)
        : adapter_(*start_adapter(fabric, events_, operation.profile)),
          shared_(shared),
          memory_(adapter_, kReceives * (64 << 10)),
          operation_(operation) {
        cq_ = Cq::create(adapter_, 64);
        Srq::Attributes attributes;
        attributes.pd = kPd;
        attributes.max_wr = 16;
        attributes.max_sge = 1;
        attributes.xrc_domain = test::kXrcDomain;
        attributes.cq = cq_;
        srq_ = Srq::create(adapter_, attributes);
        for (uint64_t id = 0; id < kReceives; ++id) receive(id);
    }

    int run() {
        Qp* qp = make_qp(adapter_, cq_, srq_, operation_.type);
        shared_.srq = srq_->number();
        shared_.rkey = memory_.key;
        shared_.address = memory_.at(0, 8).addr;
        shared_.survivor_qp = qp->number();
        if (!wait_for([&] { return shared_.victim_qp != 0; })) return 2;
        connect(*qp, operation_, shared_.victim_qp);
        if (operation_.armed) cq_->arm(false);
        shared_.connected = 1;
        // The victim is stopped after each instruction, which takes long if others want the
        // processors; this process must not be one of them.
        const auto killed = [&] {
            usleep(1000);
            return shared_.killed == 1;
        };
        if (!wait_for(killed, std::chrono::minutes(2))) return 3;
        QpChange change;
        change.mask = qp_attr::kState;
        change.state = QpState::kErr;
        qp->modify(change);
        poll_all();
        const int status = use_the_rest();
        return status != 0 ? status : check();
    }

  private:
    void receive(uint64_t id) {
        const uint32_t size = std::max(operation_.length, 64u);
        const Sge sge = memory_.at(size * id, size);
        Srq::Posts(*srq_).post(id, &sge, 1);
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
        Wqe what{};
        what.opcode = WrOpcode::kSend;
        what.length = 8;
        while (srq_->shared().ring.posted() != 0) {
            const int before = sent_;
            post(*from, what, {});
            if (!wait_for([&] {
                    poll_all();
                    return sent_ > before;
                }))
                return 4;
        }
        poll_all();
        // For the first completion, from whomever it is.
        return !operation_.armed || wait_for([&] { return events_.count == 1; }) ? 0 : 8;
    }

    int check() {
        for (uint64_t id = 0; id < kReceives; ++id)
            if (completed_[id] != 1)
                return completed_[id] == 0 ? 5 : 6;  // lost, or completed twice
        for (uint64_t id = 0; id < 16; ++id) {       // checks that every slot is free again
            const Sge sge = memory_.at(0, 64);
            if (Srq::Posts(*srq_).post(100 + id, &sge, 1) != 0) return 7;
        }
        return 0;
    }

    Events events_;
    Adapter& adapter_;
    Shared& shared_;
    Memory memory_;
    const Operation& operation_;
    Cq* cq_;
    Srq* srq_;
    int sent_ = 0;
    std::map<uint64_t, int> completed_;
};

// Lets a stopped child execute `most` instructions, but not more than the operation has. Returns
// how many it has executed.
uint64_t step(pid_t pid, uint64_t most, const Shared& shared) {
    uint64_t done = 0;
    for (int status; done < most && shared.sent == 0; ++done)
        if (ptrace(PTRACE_SINGLESTEP, pid, nullptr, nullptr) != 0 ||
            waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status))
            break;
    return done;
}

// Kills a requester after `*instructions`, or after the whole operation if that has fewer: then
// says how many. Returns the survivor's exit status.
int kill_after(const Operation& operation, uint64_t* instructions) {
    const std::string fabric = unique_fabric();
    auto* shared = shared_value<Shared>();
    Child survivor([&] { return Survivor(fabric, *shared, operation).run(); });
    Child doomed([&] { return victim(fabric, *shared, operation); });
    int status;
    if (waitpid(doomed.pid(), &status, __WALL) != doomed.pid() || !WIFSTOPPED(status)) return -1;
    *instructions = step(doomed.pid(), *instructions, *shared);
    doomed.kill();
    shared->killed = 1;
    const int said = survivor.join();
    munmap(shared, sizeof *shared);
    std::string error;
    Segment::remove_if_unused(fabric, &error);
    return said;
}

const char* name(WrOpcode opcode) {
    switch (opcode) {
        case WrOpcode::kSend:
            return "send";
        case WrOpcode::kRdmaWrite:
            return "write";
        case WrOpcode::kRdmaWriteImm:
            return "write_with_immediate";
        case WrOpcode::kRdmaRead:
            return "read";
        default:
            return "fetch_and_add";
    }
}

class KillAnywhereTest : public testing::TestWithParam<Operation> {};

TEST_P(KillAnywhereTest, EveryReceiveCompletesOnce) {
    std::mt19937_64 random(tern::test::any_seed());
    constexpr uint64_t kMost = 1 << 20;
    uint64_t length = kMost;
    ASSERT_EQ(kill_after(GetParam(), &length), 0) << "after the operation";
    ASSERT_LT(length, kMost) << "the operation does not end";
    for (int i = 0; i < 30; ++i) {
        uint64_t instructions = random() % length;
        ASSERT_EQ(kill_after(GetParam(), &instructions), 0)
            << "after " << instructions << " of " << length << " instructions";
    }
    // A kill after every instruction takes minutes, so it runs only on request: KILL_EVERY=1 tests
    // all of them, KILL_EVERY=7 every seventh.
    const char* stride = std::getenv("KILL_EVERY");
    const uint64_t every = stride == nullptr ? 0 : std::strtoull(stride, nullptr, 10);
    if (every != 0) std::printf("%" PRIu64 " instructions\n", length);
    for (uint64_t at = 0; every != 0 && at < length; at += every) {
        uint64_t instructions = at;
        EXPECT_EQ(kill_after(GetParam(), &instructions), 0)
            << "after " << at << " of " << length << " instructions";
    }
}

std::string operation_name(const testing::TestParamInfo<Operation>& info) {
    const Operation& operation = info.param;
    std::string text = name(operation.opcode);
    if (operation.armed) text += "_armed";
    if (operation.type == QpType::kUd) text += "_datagram";
    if (operation.type == QpType::kXrcRecv) text += "_xrc";
    if (operation.length != 8) text += "_long";
    return operation.profile == nullptr ? text : text + "_" + operation.profile;
}

constexpr const char* kModel = "graphene";

INSTANTIATE_TEST_SUITE_P(
    Operations, KillAnywhereTest,
    testing::Values(Operation{WrOpcode::kSend}, Operation{WrOpcode::kSend, true},
                    Operation{WrOpcode::kRdmaWriteImm}, Operation{WrOpcode::kRdmaWriteImm, true},
                    Operation{WrOpcode::kRdmaWrite}, Operation{WrOpcode::kRdmaRead},
                    Operation{WrOpcode::kFetchAdd},
                    Operation{WrOpcode::kSend, false, nullptr, QpType::kUd},
                    Operation{WrOpcode::kSend, false, nullptr, QpType::kXrcRecv},
                    Operation{WrOpcode::kSend, false, nullptr, QpType::kRc, 64 << 10},
                    Operation{WrOpcode::kSend, false, kModel},
                    Operation{WrOpcode::kSend, true, kModel},
                    Operation{WrOpcode::kRdmaWriteImm, false, kModel},
                    Operation{WrOpcode::kRdmaWrite, false, kModel},
                    Operation{WrOpcode::kRdmaWrite, false, kModel, QpType::kRc, 16 << 10},
                    Operation{WrOpcode::kRdmaRead, false, kModel},
                    Operation{WrOpcode::kSend, false, kModel, QpType::kUd},
                    Operation{WrOpcode::kSend, false, kModel, QpType::kXrcRecv},
                    Operation{WrOpcode::kSend, false, kModel, QpType::kRc, 64 << 10}),
    operation_name);

}  // namespace
}  // namespace softhca
