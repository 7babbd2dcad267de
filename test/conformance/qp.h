// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs: what they are created with, the transitions that connect them, pairs of them.
#pragma once

#include <infiniband/verbs.h>

#include "device.h"
#include "work.h"

namespace conformance {

inline constexpr uint32_t kQkey = 0x11223344;

// Everything about a queue pair that a test may want otherwise. Timer codes are the verbs' own.
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
    uint8_t retries = 6;    // 7 means forever on some devices
    uint8_t rnr_retry = 7;  // forever
    uint8_t rnr_timer = 1;  // 0.01 ms
    uint8_t reads = 1;      // outstanding RDMA reads and atomics, both ways
};

// Errors come soon: 4 ms of time-out, two retries, one RNR retry.
QpSpec quick(QpSpec spec = {});

// The far end of a connection. Plain bytes: may be sent to another process.
struct Peer {
    Address address;
    uint32_t qpn = 0;
    uint32_t psn = 0;
};

// One ibv_modify_qp.
struct Step {
    ibv_qp_attr attr{};
    int mask = 0;
    int apply(ibv_qp* qp) const;
};

Step to_init(const Hca& hca, const QpSpec& spec);
Step to_rtr(const Hca& hca, const QpSpec& spec, const Peer& peer);
Step to_rts(const QpSpec& spec);
Step to_state(ibv_qp_state state);

// Applies the steps in order; throws at the first refusal.
void apply_all(ibv_qp* qp, std::initializer_list<Step> steps);

ibv_qp_init_attr init_attr(const QpSpec& spec, ibv_cq* send_cq, ibv_cq* recv_cq);
Qp make_qp(ibv_pd* pd, const QpSpec& spec, ibv_cq* send_cq, ibv_cq* recv_cq);

ibv_qp_state state_of(ibv_qp* qp);
inline ibv_qp_state state_of(const Qp& qp) {
    return state_of(qp.get());
}

// Waits until the queue pair is in `state`.
testing::AssertionResult reaches(ibv_qp* qp, ibv_qp_state state);
inline testing::AssertionResult reaches(const Qp& qp, ibv_qp_state state) {
    return reaches(qp.get(), state);
}

// A queue pair with completion queues of its own, in RESET.
struct Endpoint {
    Endpoint(const Hca& hca, ibv_pd* pd, const QpSpec& wanted = {});

    QpSpec spec;
    Cq send_cq;
    Cq recv_cq;
    Qp qp;
};

// How this queue pair is reached by its peer.
Peer as_peer(const Hca& hca, ibv_qp* qp, const QpSpec& spec);

// Brings a queue pair from RESET to RTS towards `peer` (which a UD queue pair ignores).
void bring_up(const Hca& hca, ibv_qp* qp, const QpSpec& spec, const Peer& peer);

// Brings two queue pairs of this process, made alike, from RESET to RTS towards each other.
void connect(const Hca& hca, const Qp& a, const Qp& b, const QpSpec& spec = {});

// Two endpoints connected to each other in this process, and memory for each.
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

const char* transport_name(ibv_qp_type type);

// Names the cases of a test parametrised by transport.
inline std::string transport_case(const testing::TestParamInfo<ibv_qp_type>& test) {
    return transport_name(test.param);
}

}  // namespace conformance
