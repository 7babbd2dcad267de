// SPDX-License-Identifier: BSD-3-Clause
// A simulated rank's worker of UCP, and what the rank's processor needs for it.
#pragma once

#include <ucp/api/ucp.h>

#include <cstdint>

#include "bench/sim/costs.h"
#include "bench/sim/machine.h"

namespace bench::sim {

constexpr ucp_request_param_t kDefaults = {};
// All messages have the same tag, and receives take any.
constexpr ucp_tag_t kTag = 7;
constexpr ucp_tag_t kAllBits = ~ucp_tag_t{0};

class UcpNode {
  public:
    // `memory`: others may put to it and get from it.
    UcpNode(Machine& machine, uint32_t rank, const TransportCosts& costs, char* memory,
            uint64_t bytes);
    UcpNode(const UcpNode&) = delete;
    UcpNode& operator=(const UcpNode&) = delete;

    // Makes the endpoint, to a peer.
    void connect(UcpNode& peer);
    ucp_worker_h worker() const { return worker_; }
    ucp_ep_h endpoint() const { return endpoint_; }
    // The peer's memory.
    uint64_t target() const { return target_; }
    ucp_rkey_h key() const { return key_; }

    // Returns the request. Throws Failure if it is an error.
    static void* checked(void* request);
    // Whether the request has ended. It is given back then.
    bool ended(void* request);
    const Machine& machine() const { return machine_; }
    // A message has gone with others.
    void appended() { machine_.spend(costs_.append_ns()); }
    // Progresses the worker. Returns how much was done.
    unsigned poll();

  private:
    Machine& machine_;
    const TransportCosts& costs_;
    uint64_t memory_;
    ucp_context_h context_ = nullptr;
    ucp_worker_h worker_ = nullptr;
    ucp_ep_h endpoint_ = nullptr;
    ucp_mem_h mapped_ = nullptr;
    ucp_rkey_h key_ = nullptr;
    uint64_t target_ = 0;
};

}  // namespace bench::sim
