// SPDX-License-Identifier: BSD-3-Clause
// An endpoint of UCP between the two workers of a pair, with the transports that the environment
// selects.
#pragma once

#include <ucp/api/ucp.h>

#include <string>

#include "bench/measure/peer.h"

namespace bench {

// Throws Failure if the call `what` has failed.
void check(const std::string& what, ucs_status_t status);

// Closes its handles in the order that UCP requires.
class UcpHandles {
  public:
    UcpHandles() = default;
    UcpHandles(const UcpHandles&) = delete;
    UcpHandles& operator=(const UcpHandles&) = delete;
    ~UcpHandles();

    ucp_context_h context = nullptr;
    ucp_worker_h worker = nullptr;
    ucp_ep_h endpoint = nullptr;

  private:
    void close_endpoint();
};

class UcpLink {
  public:
    // Connects to the peer, which must construct its link at the same time. `features` are those of
    // ucp_params_t. Throws Failure.
    UcpLink(Peer& peer, uint64_t features);
    // Waits until the peer has no more messages on the way either.
    ~UcpLink();
    UcpLink(const UcpLink&) = delete;
    UcpLink& operator=(const UcpLink&) = delete;

    ucp_context_h context() const { return ucp_.context; }
    ucp_worker_h worker() const { return ucp_.worker; }
    ucp_ep_h endpoint() const { return ucp_.endpoint; }
    void progress() { ucp_worker_progress(ucp_.worker); }
    // Waits for the end of an operation. `request` is the result of the call that started it.
    // Throws Failure.
    void finish(void* request, const char* what);

  private:
    struct WorkerAddress;

    void open(uint64_t features);
    WorkerAddress address();
    void connect(const WorkerAddress& theirs);

    Peer& peer_;
    UcpHandles ucp_;
};

}  // namespace bench
