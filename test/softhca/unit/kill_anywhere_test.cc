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
constexpr uint32_t kRemote =
    access_flag::kRemoteWrite | access_flag::kRemoteRead | access_flag::kRemoteAtomic;

struct Operation {
    WrOpcode opcode;
    bool armed;  // the survivor's completion queue
};

// Counts the events of the completion queue.
struct Events : test::NoEvents {
    void completion_event(Cq&) override { ++count; }
    std::atomic<int> count{0};
};

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
    QpChange change;
    change.mask = qp_attr::kState | qp_attr::kPort | qp_attr::kAccessFlags | qp_attr::kDestQpn |
                  qp_attr::kAv | qp_attr::kMinRnrTimer | qp_attr::kRetryCnt | qp_attr::kRnrRetry |
                  qp_attr::kTimeout | qp_attr::kMaxQpRdAtomic | qp_attr::kMaxDestRdAtomic;
    change.state = QpState::kRts;
    change.responder.access = kRemote;
    change.responder.peer_number = peer;
    change.responder.min_rnr_timer = 1;
    change.requester.retry_count = 1;
    change.requester.rnr_retry = 1;
    change.requester.timeout = 8;
    change.requester.max_rd_atomic = change.responder.max_dest_rd_atomic = 1;
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

void post(Qp& qp, const Wqe& what, const Sge& local) {
    {
        const std::lock_guard lock(qp.requester.post_mutex);
        Wqe* wqe = qp.requester.queue().reserve();
        wqe->opcode = what.opcode;
        wqe->is_inline = what.gathers();
        wqe->num_sge = wqe->is_inline ? 0 : 1;
        if (!wqe->is_inline) wqe->sges()[0] = local;
        wqe->length = 8;
        wqe->remote = what.remote;
        wqe->atomic.compare_add = 1;
        wqe->flags = send_flag::kSignaled;
        qp.requester.commit(*wqe, qp.requester.post_time());
    }
    qp.requester.start();
}

// Memory of this process that the device may use, with its key.
struct Memory {
    explicit Memory(Adapter& adapter)
        : bytes(static_cast<char*>(
              mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
        RegionAttributes region;
        region.address = region.iova = reinterpret_cast<uint64_t>(bytes);
        region.length = 4096;
        region.pd = kPd;
        region.access = access_flag::kLocalWrite | kRemote;
        key = publish_region(adapter, next_key(adapter, allocate_key(adapter)), region, {});
    }
    Sge at(uint64_t offset, uint32_t length) const {
        return {reinterpret_cast<uint64_t>(bytes) + offset, length, key};
    }

    char* bytes;
    uint32_t key;
};

int victim(const std::string& fabric, Shared& shared, WrOpcode opcode) {
    Adapter* adapter = start_adapter(fabric);
    Cq* cq = Cq::create(*adapter, 16);
    Qp* qp = make_qp(*adapter, cq, nullptr);
    const Memory memory(*adapter);
    shared.victim_qp = qp->number();
    wait_for([&] { return shared.connected == 1; });
    connect(*qp, shared.survivor_qp);
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    Wqe what{};
    what.opcode = opcode;
    what.remote = {shared.address, shared.rkey};
    post(*qp, what, memory.at(0, 8));
    shared.sent = 1;
    pause();
    return 0;
}

// The process that outlives the sender. run() returns 0, or the number of the check that failed.
class Survivor {
  public:
    Survivor(const std::string& fabric, Shared& shared, bool armed)
        : adapter_(*start_adapter(fabric, events_)),
          shared_(shared),
          memory_(adapter_),
          armed_(armed) {
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
        shared_.rkey = memory_.key;
        shared_.address = memory_.at(0, 8).addr;
        shared_.survivor_qp = qp->number();
        if (!wait_for([&] { return shared_.victim_qp != 0; })) return 2;
        connect(*qp, shared_.victim_qp);
        if (armed_) cq_->arm(false);
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
        const Sge sge = memory_.at(64 * id, 64);
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
        return !armed_ || wait_for([&] { return events_.count == 1; }) ? 0 : 8;
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
    bool armed_;
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
    Child survivor([&] { return Survivor(fabric, *shared, operation.armed).run(); });
    Child doomed([&] { return victim(fabric, *shared, operation.opcode); });
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

std::string operation_name(const testing::TestParamInfo<Operation>& operation) {
    return std::string(name(operation.param.opcode)) + (operation.param.armed ? "_armed" : "");
}

INSTANTIATE_TEST_SUITE_P(Operations, KillAnywhereTest,
                         testing::Values(Operation{WrOpcode::kSend, false},
                                         Operation{WrOpcode::kSend, true},
                                         Operation{WrOpcode::kRdmaWriteImm, false},
                                         Operation{WrOpcode::kRdmaWriteImm, true},
                                         Operation{WrOpcode::kRdmaWrite, false},
                                         Operation{WrOpcode::kRdmaRead, false},
                                         Operation{WrOpcode::kFetchAdd, false}),
                         operation_name);

}  // namespace
}  // namespace softhca
