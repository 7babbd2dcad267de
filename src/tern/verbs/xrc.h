// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tern/verbs/handles.h"
#include "tern/verbs/port.h"
#include "tern/verbs/queue_pair.h"

namespace tern::verbs {

// The small file that names an XRC domain: the processes of a user that open the same file share
// the domain. Each process holds a shared lock, and the last process to close the file removes it.
// If that process is killed, the last of the file's later users removes it.
class XrcFile {
  public:
    static constexpr const char* kFolder = "/dev/shm";

    // Opens or creates the file of this user and `device` in `folder`. Empty on failure, and if
    // other users have access to the file; `why` says why.
    static std::optional<XrcFile> open(const std::string& device, std::string& why,
                                       const std::string& folder = kFolder);
    ~XrcFile();
    XrcFile(XrcFile&& other) noexcept;
    XrcFile& operator=(XrcFile&& other) = delete;

    int fd() const { return fd_; }
    // Random, not 0: distinguishes the domain from all others, on any machine.
    uint64_t id() const { return id_; }
    const std::string& path() const { return path_; }

  private:
    XrcFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
    bool is_ours(std::string& why) const;
    bool linked() const;
    bool lock(int kind) const;
    bool read_id();
    bool write_id();

    int fd_;
    std::string path_;
    uint64_t id_ = 0;
    pid_t owner_ = 0;
};

// Not a Destroyer, since ibv_close_xrcd is inline.
struct XrcCloser {
    void operator()(ibv_xrcd* domain) const { ibv_close_xrcd(domain); }
};
using XrcDomainHandle = std::unique_ptr<ibv_xrcd, XrcCloser>;

// An XRC domain, shared by all processes of one user and device on a machine: each of its queue
// pairs reaches the shared receive queues of all these processes.
class XrcDomain {
  public:
    // Null if the device has no XRC, or the domain cannot be shared; `why` says why.
    static std::unique_ptr<XrcDomain> open(const Device& device, std::string& why,
                                           const std::string& folder = XrcFile::kFolder);

    ibv_xrcd* get() const { return domain_.get(); }
    // Random; identifies the domain to peers.
    uint64_t id() const { return file_.id(); }
    const std::string& path() const { return file_.path(); }

  private:
    explicit XrcDomain(XrcFile file) : file_(std::move(file)) {}

    XrcFile file_;
    XrcDomainHandle domain_;
};

// Creates a shared receive queue of the domain with `depth` entries, each of one scatter/gather
// entry. Its completions go to `cq`. Null and errno on failure.
SharedReceiveQueue create_xrc_receives(ibv_pd* pd, const XrcDomain& domain, ibv_cq* cq,
                                       uint32_t depth);
// The number by which senders address the shared receive queue; 0 on failure.
uint32_t xrc_number(ibv_srq* srq);

// The two ends of an XRC connection. The sender has only a send queue. The receiver has no queue:
// each message names the shared receive queue that it goes to. The receiver ends with this process
// at the latest. Null and errno on failure.
QueuePair create_xrc_sender(ibv_pd* pd, ibv_cq* cq, const QueueSizes& sizes, ibv_qp_cap& capacity);
QueuePair create_xrc_receiver(ibv_context* context, const XrcDomain& domain);

// Whether the device pages on demand the memory that XRC sends from and receives into.
bool xrc_pages_on_demand(ibv_context* context);

// Both return 0 or an errno value. The sender fails at once if the shared receive queue has no
// posted receive, or too short a one: no message may be sent without a receive posted for it.
// `pages_on_demand`: the receiver's memory may have no pages. The device then refuses a message as
// if there was no receive, until it has the pages; so the sender tries again without limit.
int connect_xrc_sender(ibv_qp* qp, const Port& port, const RetrySettings& retry,
                       const ibv_ah_attr& to, uint32_t peer_qp_num, uint32_t peer_psn,
                       uint32_t own_psn, ibv_mtu mtu, bool pages_on_demand = false);
int connect_xrc_receiver(ibv_qp* qp, const Port& port, const ibv_ah_attr& to, uint32_t peer_qp_num,
                         uint32_t peer_psn, ibv_mtu mtu, bool pages_on_demand = false);

}  // namespace tern::verbs
