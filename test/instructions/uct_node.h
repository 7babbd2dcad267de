// SPDX-License-Identifier: BSD-3-Clause
// An interface of the transport, by public UCT.
#pragma once

#include <uct/api/uct.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace instructions {

class UctNode {
  public:
    UctNode();
    ~UctNode();
    UctNode(const UctNode&) = delete;
    UctNode& operator=(const UctNode&) = delete;

    void connect(const UctNode& peer);
    // Sends 8 bytes, which must be accepted at once.
    void send();
    // Sends 8 bytes if that is possible now.
    void try_send();
    unsigned progress() { return uct_worker_progress(worker_); }
    uct_iface_h iface() { return iface_; }
    // Messages that have come.
    unsigned received() const { return received_; }

  private:
    void open();

    ucs_async_context_t* async_ = nullptr;
    uct_worker_h worker_ = nullptr;
    uct_md_h md_ = nullptr;
    uct_iface_h iface_ = nullptr;
    uct_ep_h ep_ = nullptr;
    unsigned received_ = 0;
};

}  // namespace instructions
