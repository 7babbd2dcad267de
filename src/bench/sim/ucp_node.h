// SPDX-License-Identifier: BSD-3-Clause
// A simulated rank's worker of UCP, and what the rank's processor needs for it.
#pragma once

#include <ucp/api/ucp.h>

#include <coroutine>
#include <cstdint>
#include <vector>

#include "bench/sim/costs.h"
#include "bench/sim/machine.h"

namespace bench::sim {

constexpr ucp_request_param_t kDefaults = {};
// All messages have the same tag, and receives take any.
constexpr ucp_tag_t kTag = 7;
constexpr ucp_tag_t kAllBits = ~ucp_tag_t{0};

class UcpNode {
  public:
    // `memory`: others may put to it and get from it. Null: tagged messages are all there is.
    UcpNode(Machine& machine, uint32_t rank, const TransportCosts& costs, char* memory = nullptr,
            uint64_t bytes = 0);
    UcpNode(const UcpNode&) = delete;
    UcpNode& operator=(const UcpNode&) = delete;

    struct Peer {
        ucp_ep_h endpoint = nullptr;
        uint64_t target = 0;  // its memory
        ucp_rkey_h key = nullptr;
    };
    // Makes an endpoint to one more peer.
    const Peer& connect(UcpNode& peer);
    ucp_worker_h worker() const { return worker_; }
    // By the order in which they were connected.
    const Peer& peer(size_t number = 0) const { return peers_[number]; }

    // Returns the request. Throws Failure if it is an error.
    static void* checked(void* request);
    // Whether the request has ended. It is given back then.
    bool ended(void* request);
    // Sends a tagged message to a peer. Returns the request; see send_by().
    void* send(ucp_ep_h endpoint, const void* data, uint64_t size, ucp_tag_t tag);
    // Progresses the worker. Returns how much was done.
    unsigned poll();

    // For programs: ends a step with a poll, or with a computation.
    std::suspend_always step() {
        poll();
        return {};
    }
    std::suspend_always compute(uint64_t ns) {
        machine_.compute(this, ns);
        ++done_;
        return {};
    }
    uint64_t now() const { return machine_.now(); }
    // Counts what it has done, polls that found nothing apart.
    uint64_t done() const { return done_; }

  protected:
    // A call of so many instructions has returned the request.
    void* began(double instructions, void* request) {
        machine_.spend(ns_of(instructions));
        ++done_;
        return checked(request);
    }

    Machine& machine_;
    const TransportCosts& costs_;
    uint64_t done_ = 0;

  private:
    uint64_t memory_;
    ucp_context_h context_ = nullptr;
    ucp_worker_h worker_ = nullptr;
    ucp_mem_h mapped_ = nullptr;
    std::vector<Peer> peers_;
};

}  // namespace bench::sim
