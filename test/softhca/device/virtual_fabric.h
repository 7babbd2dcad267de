// SPDX-License-Identifier: BSD-3-Clause
// A fabric in virtual time: all members in one process, and nothing happens before the test says
// that it is time.
#pragma once

#include <dlfcn.h>

#include "../../../src/softhca/core/virtual_time.h"
#include "fabric.h"

namespace conformance::softhca {
namespace virtual_time_test {

// 1 us, 1 byte a ns, 7 ns between messages; a completion 100 ns after its data.
inline constexpr char kModel[] =
    "latency=1us,bandwidth=1,gap=7ns,completion=100ns,reg-latency=5us,reg-bandwidth=2";
inline constexpr uint64_t kLatency = 1000;
inline constexpr uint64_t kCompletion = 100;
inline constexpr uint64_t kGap = 7;

template <typename Function>
Function* function(const char* name) {
    void* found = dlsym(RTLD_DEFAULT, name);
    if (found == nullptr) fail(std::string("the device has no ") + name);
    return reinterpret_cast<Function*>(found);
}

inline softhca_virtual_time& clock() {
    auto* now = function<softhca_virtual_clock_function>("softhca_virtual_clock")();
    if (now == nullptr) fail("the device's time is real");
    return *now;
}
// When something happens next.
inline constexpr uint64_t kNoEvent = ~uint64_t{0};
inline uint64_t next() {
    softhca_virtual_event event;
    return function<softhca_virtual_peek_function>("softhca_virtual_peek")(&event) != 0 ? event.time
                                                                                        : kNoEvent;
}
// The device does all that is due until then.
inline void run(uint64_t time) {
    const auto step = function<softhca_virtual_step_function>("softhca_virtual_step");
    for (uint64_t at = next(); at <= time && at != kNoEvent; at = next()) step();
}

// A member of the fabric.
struct Member {
    explicit Member(uint32_t number)
        : hca(open(number)), pd(hca.make_pd()), memory(pd.get(), 1 << 16) {}
    static Hca open(uint32_t number) {
        if (function<softhca_virtual_member_function>("softhca_virtual_member")(number) != 0)
            fail("no such member");
        return {};
    }
    Hca hca;
    Pd pd;
    Region memory;
};

// A connection from one member to another.
struct Way {
    Way(Member& sender, Member& receiver, const QpSpec& of_sender = {},
        const QpSpec& of_receiver = {})
        : from(sender),
          to(receiver),
          one(from.hca, from.pd.get(), of_sender),
          other(to.hca, to.pd.get(), of_receiver) {
        bring_up(from.hca, one.qp.get(), of_sender, as_peer(to.hca, other.qp.get(), of_receiver));
        bring_up(to.hca, other.qp.get(), of_receiver, as_peer(from.hca, one.qp.get(), of_sender));
    }
    void write(uint64_t id, std::size_t length, std::size_t offset = 0) const {
        SendWr wr(IBV_WR_RDMA_WRITE, id);
        wr.sge(from.memory.sge(0, length)).remote(to.memory.addr(offset), to.memory.rkey());
        if (wr.post(one.qp) != 0) fail("the post is refused");
    }
    void send(uint64_t id, std::size_t length) const {
        if (RecvWr(id).sge(to.memory.sge()).post(other.qp) != 0) fail("the receive is refused");
        SendWr wr(IBV_WR_SEND, id);
        if (wr.sge(from.memory.sge(0, length)).post(one.qp) != 0) fail("the post is refused");
    }
    Member& from;
    Member& to;
    Endpoint one;
    Endpoint other;
};

inline int polled(const Cq& cq) {
    ibv_wc completion{};
    return ibv_poll_cq(cq.get(), 1, &completion);
}

class VirtualTimeTest : public FabricTest {
  protected:
    void SetUp() override {
        FabricTest::SetUp();
        set("CLOCK", "virtual");
        set("MODEL", kModel);
    }
};

}  // namespace virtual_time_test
}  // namespace conformance::softhca
