// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs: their parameters, and the transitions that connect them.
#pragma once

#include <infiniband/verbs.h>

#include "device.h"
#include "work.h"

namespace conformance {

inline constexpr uint32_t kQkey = 0x11223344;

// The parameters of a queue pair that tests vary. Timer codes are those of verbs.
struct QpSpec {
    ibv_qp_type type = IBV_QPT_RC;
    uint32_t send_wr = 64;
    uint32_t recv_wr = 64;
    uint32_t send_sge = 4;
    uint32_t recv_sge = 4;
    uint32_t inline_data = 0;
    bool signal_all = false;
    ibv_srq* srq = nullptr;
    unsigned access = kRemoteAccess;
    uint32_t psn = 0xfffff0;
    uint8_t timeout = 14;   // 67 ms
    uint8_t retries = 6;    // 7 means without limit on some devices
    uint8_t rnr_retry = 7;  // without limit
    uint8_t rnr_timer = 1;  // 0.01 ms
    uint8_t reads = 1;      // outstanding RDMA reads and atomics, as requester and as responder
};

// `spec` with parameters that report errors soon: a time-out of 4 ms, two retries, one RNR retry.
QpSpec quick(QpSpec spec = {});

// The remote end of a connection. Plain bytes: may be sent to another process.
struct Peer {
    Address address;
    uint32_t qpn = 0;
    uint32_t psn = 0;
};

// The arguments of one ibv_modify_qp.
struct Step {
    ibv_qp_attr attr{};
    int mask = 0;
    int apply(ibv_qp* qp) const;
};

Step to_init(const Hca& hca, const QpSpec& spec);
Step to_rtr(const Hca& hca, const QpSpec& spec, const Peer& peer);
Step to_rts(const QpSpec& spec);
Step to_state(ibv_qp_state state);

// Applies the steps in order; throws at the first one that is refused.
void apply_all(ibv_qp* qp, std::initializer_list<Step> steps);

ibv_qp_init_attr init_attr(const QpSpec& spec, ibv_cq* send_cq, ibv_cq* recv_cq);
Qp make_qp(ibv_pd* pd, const QpSpec& spec, ibv_cq* send_cq, ibv_cq* recv_cq);

ibv_qp_state state_of(ibv_qp* qp);
inline ibv_qp_state state_of(const Qp& qp) {
    return state_of(qp.get());
}

// Whether the queue pair gets to `state` before the deadline.
testing::AssertionResult reaches(ibv_qp* qp, ibv_qp_state state);
inline testing::AssertionResult reaches(const Qp& qp, ibv_qp_state state) {
    return reaches(qp.get(), state);
}

// A queue pair in RESET, with its own completion queues.
struct Endpoint {
    Endpoint(const Hca& hca, ibv_pd* pd, const QpSpec& wanted = {});

    QpSpec spec;
    Cq send_cq;
    Cq recv_cq;
    Qp qp;
};

// The data that the peer needs to connect to `qp`.
Peer as_peer(const Hca& hca, ibv_qp* qp, const QpSpec& spec);

// Brings a queue pair from RESET to RTS, connected to `peer` (which a UD queue pair ignores).
void bring_up(const Hca& hca, ibv_qp* qp, const QpSpec& spec, const Peer& peer);

// Connects two queue pairs of this process to each other: from RESET to RTS, with the same `spec`.
void connect(const Hca& hca, const Qp& a, const Qp& b, const QpSpec& spec = {});

// Two endpoints of this process, connected to each other, with memory for each.
struct Pair {
    Pair(const Hca& hca, ibv_pd* pd, const QpSpec& spec = {}, std::size_t bytes = 1 << 16)
        : Pair(hca, pd, spec, spec, bytes) {}
    Pair(const Hca& hca, ibv_pd* pd, const QpSpec& of_a, const QpSpec& of_b,
         std::size_t bytes = 1 << 16);

    Region a_mem;
    Region b_mem;
    Endpoint a;
    Endpoint b;
};

// A test with an opened device and a protection domain.
class VerbsTest : public testing::Test {
  protected:
    Hca hca_;
    Pd pd_ = hca_.make_pd();
};

// Whether the device has queue pairs of this type.
bool has_transport(const Hca& hca, ibv_pd* pd, ibv_qp_type type);

// A test for each of several transports; skipped where the device does not have it.
class TransportTest : public VerbsTest, public testing::WithParamInterface<ibv_qp_type> {
  protected:
    void SetUp() override;
};

const char* transport_name(ibv_qp_type type);

// Names the cases of a test parametrised by transport.
inline std::string transport_case(const testing::TestParamInfo<ibv_qp_type>& test) {
    return transport_name(test.param);
}

}  // namespace conformance
