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
    // Sends 8 bytes, and at most 64 further ones, which must be accepted at once.
    void send(unsigned further = 0);
    // Sends so many bytes by a call that packs them; must be accepted at once.
    void send_packed(size_t bytes);
    // Sends 8 bytes if that is possible now.
    bool try_send();
    // Lets `peer` add to a word of this node.
    void share(UctNode& peer);
    // Adds 1 to the peer's word, and fetches the old value; must be accepted at once.
    void add();
    // Operations by add() that are under way.
    int adding() const { return completion_.count; }
    unsigned progress() { return uct_worker_progress(worker_); }
    uct_iface_h iface() { return iface_; }
    // Messages that have come.
    unsigned received() const { return received_; }

  private:
    void open();

    ucs_async_context_t* async_ = nullptr;
    uct_worker_h worker_ = nullptr;
    uct_component_h component_ = nullptr;
    uct_md_h md_ = nullptr;
    uct_iface_h iface_ = nullptr;
    uct_ep_h ep_ = nullptr;
    unsigned received_ = 0;
    alignas(64) uint64_t word_ = 0;
    uct_mem_h memory_ = nullptr;
    uct_rkey_bundle_t key_{};  // of the peer's word, at `there_`
    uint64_t there_ = 0;
    uint64_t old_ = 0;
    uct_completion_t completion_{};
};

}  // namespace instructions
