// SPDX-License-Identifier: BSD-3-Clause
#include "bench/measure/link.h"

#include <cerrno>

namespace bench {
namespace {

constexpr uint32_t kInline = 64;
constexpr int kBatch = 16;

}  // namespace

bool has_device(const std::string& name) {
    const std::vector<std::string> names = tern::verbs::device_names();
    return name.empty() ? !names.empty() : std::ranges::count(names, name) != 0;
}

Device::Device(const DeviceName& name, int gid_index) {
    auto device = tern::verbs::open_device(
        name.device.empty() && has_device({}) ? tern::verbs::device_names().front() : name.device);
    if (!device) throw call_failed("opening the device " + name.device);
    device_ = std::move(*device);
    tern::verbs::PortTrouble trouble;
    const auto port = tern::verbs::open_port(device_, name.port, {.gid_index = gid_index}, trouble);
    if (!port) throw Failure(trouble.why);
    port_ = *port;
    if (port_.attributes.state != IBV_PORT_ACTIVE) throw Failure("the port is not active");
}

tern::verbs::MemoryRegion Device::register_memory(void* data, size_t size) {
    tern::verbs::MemoryRegion mr(
        ibv_reg_mr(pd(), data, size,
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ));
    if (!mr) throw call_failed("ibv_reg_mr");
    return mr;
}

Link::Link(Device& device, Peer& peer, char* memory, size_t size)
    : memory_(memory), half_(size / 2), mr_(device.register_memory(memory, size)) {
    make_queues(device);
    const tern::verbs::Port& port = device.port();
    remote_ = peer.exchange(Address{port.attributes.lid, port.gid, qp_->qp_num, mr_->rkey,
                                    reinterpret_cast<uint64_t>(in())});
    connect(device);
    peer.meet();
}

void Link::make_queues(Device& device) {
    cq_.reset(ibv_create_cq(device.context(), kDepth, nullptr, nullptr, 0));
    if (!cq_) throw call_failed("ibv_create_cq");
    ibv_qp_init_attr attributes = {};
    attributes.send_cq = attributes.recv_cq = cq_.get();
    attributes.cap = {kDepth, 1, 1, 1, kInline};
    attributes.qp_type = IBV_QPT_RC;
    qp_.reset(ibv_create_qp(device.pd(), &attributes));
    if (!qp_) throw call_failed("ibv_create_qp");
    inline_limit_ = attributes.cap.max_inline_data;
}

void Link::connect(Device& device) {
    const tern::verbs::Port& port = device.port();
    const ibv_ah_attr to = port.address_vector(remote_.lid, remote_.gid, port.global);
    errno = tern::verbs::init_reliable(qp_.get(), port);
    if (errno != 0) throw call_failed("ibv_modify_qp to INIT");
    const tern::verbs::RetrySettings retry = {
        .timeout = 14, .retries = 7, .rnr_timer = 1, .rnr_retries = 7};
    errno = tern::verbs::connect_reliable(qp_.get(), port, retry, to, remote_.qp_number, 0, 0,
                                          port.mtu, port.reads);
    if (errno != 0) throw call_failed("ibv_modify_qp to RTR or RTS");
}

void Link::write(uint64_t offset, uint32_t length, bool signaled) {
    if (outstanding() == kDepth) reap_until(kDepth - 1);
    ibv_sge piece = {reinterpret_cast<uint64_t>(out() + offset), length, mr_->lkey};
    ibv_send_wr work = {};
    work.wr_id = ++posted_;
    work.sg_list = &piece;
    work.num_sge = 1;
    work.opcode = IBV_WR_RDMA_WRITE;
    work.wr.rdma.remote_addr = remote_.in + offset;
    work.wr.rdma.rkey = remote_.key;
    // A send queue without a signaled request could stay full for ever, so each quarter of it has
    // one.
    if (signaled || posted_ % (kDepth / 4) == 0) work.send_flags = IBV_SEND_SIGNALED;
    if (length <= inline_limit_) work.send_flags |= IBV_SEND_INLINE;
    ibv_send_wr* bad = nullptr;
    errno = ibv_post_send(qp_.get(), &work, &bad);
    if (errno != 0) throw call_failed("ibv_post_send");
}

int Link::reap() {
    ibv_wc completions[kBatch];
    const int got = ibv_poll_cq(cq_.get(), kBatch, completions);
    if (got < 0) throw Failure("ibv_poll_cq failed");
    const uint64_t before = done_;
    for (int i = 0; i < got; ++i) {
        if (completions[i].status != IBV_WC_SUCCESS)
            throw Failure(std::string("request: ") + ibv_wc_status_str(completions[i].status));
        done_ = completions[i].wr_id;
    }
    return static_cast<int>(done_ - before);
}

void Link::reap_until(uint32_t outstanding) {
    wait_until(
        "completions", [&] { return this->outstanding() <= outstanding; }, [&] { reap(); });
}

}  // namespace bench
