// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "verbs/handles.h"
#include "verbs/port.h"
#include "verbs/queue_pair.h"
#include "verbs/xrc_file.h"

namespace tern::verbs {

// Of its own: ibv_close_xrcd is inline.
struct XrcCloser {
    void operator()(ibv_xrcd* domain) const { ibv_close_xrcd(domain); }
};
using XrcDomainHandle = std::unique_ptr<ibv_xrcd, XrcCloser>;

// An XRC domain that all processes of a node, a user and a device share: what is sent to it over
// any of its queue pairs reaches the shared receive queues of all of them.
class XrcDomain {
  public:
    // Null if the device has no XRC, or the domain cannot be shared; `why` says so.
    static std::unique_ptr<XrcDomain> open(const Device& device, std::string& why,
                                           const std::string& folder = XrcFile::kFolder);

    ibv_xrcd* get() const { return domain_.get(); }
    // Random: names the domain to peers.
    uint64_t id() const { return file_.id(); }
    const std::string& path() const { return file_.path(); }

  private:
    explicit XrcDomain(XrcFile file) : file_(std::move(file)) {}

    XrcFile file_;
    XrcDomainHandle domain_;
};

// A shared receive queue of a domain, with entries of one piece of memory. Its completions go to
// `cq`. Null and errno on failure.
SharedReceiveQueue create_xrc_receives(ibv_pd* pd, const XrcDomain& domain, ibv_cq* cq,
                                       uint32_t depth);
// By which senders name it; 0 on failure.
uint32_t xrc_number(ibv_srq* srq);

// The two ends of an XRC connection. A sender has a send queue only, a receiver no queue at all:
// what comes over it goes to the shared receive queue that each message names. The receiver lives
// as long as this process. Null and errno on failure.
QueuePair create_xrc_sender(ibv_pd* pd, ibv_cq* cq, const QueueSizes& sizes, ibv_qp_cap& capacity);
QueuePair create_xrc_receiver(ibv_context* context, const XrcDomain& domain);

// Both return 0 or an errno value. A sender that finds no receive, or too short a one, fails at
// once: nothing is sent that has no receive.
int connect_xrc_sender(ibv_qp* qp, const Port& port, const RetrySettings& retry,
                       const ibv_ah_attr& to, uint32_t peer_qp_num, uint32_t peer_psn,
                       uint32_t own_psn, ibv_mtu mtu);
int connect_xrc_receiver(ibv_qp* qp, const Port& port, const ibv_ah_attr& to, uint32_t peer_qp_num,
                         uint32_t peer_psn, ibv_mtu mtu);

}  // namespace tern::verbs
