// SPDX-License-Identifier: BSD-3-Clause
// XRC (extended reliable connections): domains, their shared receive queues and queue pairs.
#pragma once

#include <fcntl.h>
#include <infiniband/verbs.h>

#include "qp.h"

namespace conformance {

// Opens a new XRC domain (fd -1) or the domain of a file; nullptr, with errno, when refused.
Xrcd open_xrcd(const Hca& hca, int fd = -1, int flags = O_CREAT);

// Makes a shared receive queue of a domain; its completions go to `cq`.
Srq make_xrc_srq(const Hca& hca, ibv_pd* pd, ibv_xrcd* xrcd, ibv_cq* cq, uint32_t max_wr = 64);
uint32_t srq_number(const Srq& srq);

// Make the sending and the receiving end of an XRC connection, in RESET.
Qp make_xrc_sender(const Hca& hca, ibv_pd* pd, ibv_cq* cq, const QpSpec& spec);
Qp make_xrc_receiver(const Hca& hca, ibv_xrcd* xrcd);

QpSpec xrc_send_spec(QpSpec spec = {});
QpSpec xrc_recv_spec(QpSpec spec = {});

// Connects a sender and a receiver of this process.
void connect_xrc(const Hca& hca, const Qp& sender, const Qp& receiver, const QpSpec& spec = {});

// A test that is skipped on a device without XRC.
class XrcTest : public VerbsTest {
  protected:
    void SetUp() override;
};

}  // namespace conformance
