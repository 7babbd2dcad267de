// SPDX-License-Identifier: BSD-3-Clause
#include "tern/verbs/xrc.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "tern/verbs/async_events.h"

namespace tern::verbs {

namespace {

// Exclusive locks are held only briefly, unless their holder is stopped.
constexpr int kAttempts = 1000;
constexpr useconds_t kPause = 1000;

}  // namespace

std::optional<XrcFile> XrcFile::open(const std::string& device, std::string& why,
                                     const std::string& folder) {
    const std::string path = folder + "/tern-xrc-" + std::to_string(geteuid()) + "-" + device;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
        if (attempt != 0) usleep(kPause);
        const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0) {
            why = "cannot open " + path + ": " + strerror(errno);
            return std::nullopt;
        }
        XrcFile file(fd, path);
        if (!file.is_ours(why)) return std::nullopt;
        // The last user may have removed the file before it was locked here.
        if (!file.lock(LOCK_SH) || !file.linked()) continue;
        if (!file.read_id()) {
            if (!file.lock(LOCK_EX) || !file.linked()) continue;
            if (!file.read_id() && !file.write_id()) {
                why = "cannot write " + path + ": " + strerror(errno);
                (void)unlink(path.c_str());
                return std::nullopt;
            }
            // Changing the lock is not atomic.
            if (!file.lock(LOCK_SH) || !file.linked()) continue;
        }
        file.owner_ = getpid();
        return file;
    }
    why = path + " is locked";
    return std::nullopt;
}

XrcFile::XrcFile(XrcFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)),
      id_(other.id_),
      owner_(other.owner_) {}

XrcFile::~XrcFile() {
    if (fd_ < 0) return;
    const int saved = errno;
    // A child of fork() shares its parent's lock.
    if (owner_ == getpid() && lock(LOCK_EX) && linked()) (void)unlink(path_.c_str());
    close(fd_);
    errno = saved;
}

bool XrcFile::is_ours(std::string& why) const {
    struct stat status {};
    if (fstat(fd_, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
        (status.st_mode & 07777) == 0600 && status.st_nlink <= 1)
        return true;
    why = path_ + " is not a file of this user's alone";
    return false;
}

// Whether the path still names this file.
bool XrcFile::linked() const {
    struct stat file {};
    struct stat named {};
    return fstat(fd_, &file) == 0 && lstat(path_.c_str(), &named) == 0 &&
           file.st_dev == named.st_dev && file.st_ino == named.st_ino;
}

bool XrcFile::lock(int kind) const {
    return flock(fd_, kind | LOCK_NB) == 0;
}

bool XrcFile::read_id() {
    return pread(fd_, &id_, sizeof(id_), 0) == sizeof(id_) && id_ != 0;
}

bool XrcFile::write_id() {
    std::random_device random;
    do id_ = uint64_t{random()} << 32 | random();
    while (id_ == 0);
    return pwrite(fd_, &id_, sizeof(id_), 0) == sizeof(id_);
}

std::unique_ptr<XrcDomain> XrcDomain::open(const Device& device, std::string& why,
                                           const std::string& folder) {
    if ((device.attributes.device_cap_flags & IBV_DEVICE_XRC) == 0) {
        why = device.name() + " has no XRC";
        return nullptr;
    }
    auto file = XrcFile::open(device.name(), why, folder);
    if (!file) return nullptr;
    std::unique_ptr<XrcDomain> domain(new XrcDomain(std::move(*file)));
    ibv_xrcd_init_attr attributes{};
    attributes.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    attributes.fd = domain->file_.fd();
    attributes.oflags = O_CREAT;
    domain->domain_.reset(ibv_open_xrcd(device.context.get(), &attributes));
    if (!domain->domain_) {
        why = std::string("cannot open an XRC domain: ") + strerror(errno);
        return nullptr;
    }
    return domain;
}

SharedReceiveQueue create_xrc_receives(ibv_pd* pd, const XrcDomain& domain, ibv_cq* cq,
                                       uint32_t depth) {
    ibv_srq_init_attr_ex attributes{};
    attributes.srq_context = next_identity();
    attributes.attr.max_wr = depth;
    attributes.attr.max_sge = 1;
    attributes.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                           IBV_SRQ_INIT_ATTR_CQ;
    attributes.srq_type = IBV_SRQT_XRC;
    attributes.pd = pd;
    attributes.xrcd = domain.get();
    attributes.cq = cq;
    return SharedReceiveQueue(ibv_create_srq_ex(pd->context, &attributes));
}

uint32_t xrc_number(ibv_srq* srq) {
    uint32_t number = 0;
    return ibv_get_srq_num(srq, &number) == 0 ? number : 0;
}

QueuePair create_xrc_sender(ibv_pd* pd, ibv_cq* cq, const QueueSizes& sizes, ibv_qp_cap& capacity) {
    ibv_qp_init_attr_ex attributes{};
    attributes.qp_type = IBV_QPT_XRC_SEND;
    attributes.send_cq = cq;
    attributes.cap.max_send_wr = sizes.sends;
    attributes.cap.max_send_sge = sizes.pieces;
    attributes.cap.max_inline_data = sizes.inline_bytes;
    attributes.comp_mask = IBV_QP_INIT_ATTR_PD;
    attributes.pd = pd;
    QueuePair qp(ibv_create_qp_ex(pd->context, &attributes));
    capacity = attributes.cap;
    return qp;
}

bool xrc_pages_on_demand(ibv_context* context) {
    ibv_device_attr_ex attributes{};
    if (ibv_query_device_ex(context, nullptr, &attributes) != 0) return false;
    constexpr uint32_t kNeeded = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_SRQ_RECV;
    return (attributes.xrc_odp_caps & kNeeded) == kNeeded;
}

QueuePair create_xrc_receiver(ibv_context* context, const XrcDomain& domain) {
    ibv_qp_init_attr_ex attributes{};
    attributes.qp_type = IBV_QPT_XRC_RECV;
    attributes.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    attributes.xrcd = domain.get();
    return QueuePair(ibv_create_qp_ex(context, &attributes));
}

namespace {

constexpr uint8_t kWithoutLimit = 7;   // of rnr_retry
constexpr double kPageFault = 100e-6;  // seconds; a fault takes about as long, or longer

}  // namespace

int connect_xrc_sender(ibv_qp* qp, const Port& port, const RetrySettings& retry,
                       const ibv_ah_attr& to, uint32_t peer_qp_num, uint32_t peer_psn,
                       uint32_t own_psn, ibv_mtu mtu, bool pages_on_demand) {
    int error = to_init(qp, port, 0);
    if (error != 0) return error;
    ibv_qp_attr attributes = toward(port, to, peer_qp_num, peer_psn, mtu);
    error = ibv_modify_qp(qp, &attributes, kToward);
    if (error != 0) return error;
    RetrySettings own = retry;
    own.rnr_retries = pages_on_demand ? kWithoutLimit : 0;
    return to_ready(qp, own, own_psn, 1);
}

int connect_xrc_receiver(ibv_qp* qp, const Port& port, const ibv_ah_attr& to, uint32_t peer_qp_num,
                         uint32_t peer_psn, ibv_mtu mtu, bool pages_on_demand) {
    const int error = to_init(qp, port, 0);
    if (error != 0) return error;
    ibv_qp_attr attributes = toward(port, to, peer_qp_num, peer_psn, mtu);
    attributes.max_dest_rd_atomic = 1;
    attributes.min_rnr_timer = rnr_timer_code(pages_on_demand ? kPageFault : 0);
    return ibv_modify_qp(qp, &attributes,
                         kToward | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

}  // namespace tern::verbs
