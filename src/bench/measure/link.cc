// SPDX-License-Identifier: BSD-3-Clause
#include "bench/measure/link.h"

#include <cerrno>

namespace bench {
namespace {

constexpr uint32_t kInline = 64;
constexpr int kBatch = 16;

// Polls at most one batch of completions and passes each to take(). Returns their number.
template <typename Take>
int poll(ibv_cq* cq, const char* what, Take&& take) {
    ibv_wc completions[kBatch];
    const int got = ibv_poll_cq(cq, kBatch, completions);
    if (got < 0) throw Failure("ibv_poll_cq failed");
    for (int i = 0; i < got; ++i) {
        if (completions[i].status != IBV_WC_SUCCESS) {
            throw Failure(std::string(what) + ": " + ibv_wc_status_str(completions[i].status));
        }
        take(completions[i]);
    }
    return got;
}

void modify(ibv_qp* qp, ibv_qp_attr* attributes, int mask, const char* what) {
    errno = ibv_modify_qp(qp, attributes, mask);
    if (errno != 0) throw call_failed(std::string("ibv_modify_qp to ") + what);
}

using DeviceList = std::unique_ptr<ibv_device*, tern::verbs::Destroyer<ibv_free_device_list>>;

ibv_device* find(const DeviceList& list, const std::string& name) {
    if (!list) return nullptr;
    for (ibv_device** device = list.get(); *device != nullptr; ++device) {
        if (name.empty() || name == ibv_get_device_name(*device)) return *device;
    }
    return nullptr;
}

}  // namespace

std::vector<std::string> device_names() {
    const DeviceList list(ibv_get_device_list(nullptr));
    std::vector<std::string> names;
    for (ibv_device** device = list.get(); device != nullptr && *device != nullptr; ++device) {
        names.emplace_back(ibv_get_device_name(*device));
    }
    return names;
}

bool has_device(const std::string& name) {
    return find(DeviceList(ibv_get_device_list(nullptr)), name) != nullptr;
}

Device::Device(const DeviceName& name) : port_number_(name.port) {
    const DeviceList list(ibv_get_device_list(nullptr));
    ibv_device* device = find(list, name.device);
    if (device == nullptr) throw Failure("no device " + name.device);
    context_.reset(ibv_open_device(device));
    if (!context_) throw call_failed("ibv_open_device");
    pd_.reset(ibv_alloc_pd(context_.get()));
    if (!pd_) throw call_failed("ibv_alloc_pd");
    errno = ibv_query_port(context_.get(), port_number_, &port_);
    if (errno != 0) throw call_failed("ibv_query_port");
    if (port_.state != IBV_PORT_ACTIVE) throw Failure("the port is not active");
}

tern::verbs::MemoryRegion Device::register_memory(void* data, size_t size) {
    tern::verbs::MemoryRegion mr(
        ibv_reg_mr(pd(), data, size,
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ));
    if (!mr) throw call_failed("ibv_reg_mr");
    return mr;
}

Link::Link(Device& device, Peer& peer, int gid_index, char* memory, size_t size)
    : memory_(memory), half_(size / 2), mr_(device.register_memory(memory, size)) {
    send_cq_ = make_cq(device);
    receive_cq_ = make_cq(device);
    make_qp(device);
    Address mine = {};
    mine.lid = device.port().lid;
    if (ibv_query_gid(device.context(), device.port_number(), gid_index, &mine.gid) != 0) {
        throw call_failed("ibv_query_gid");
    }
    mine.qp_number = qp_->qp_num;
    mine.key = mr_->rkey;
    mine.in = reinterpret_cast<uint64_t>(in());
    remote_ = peer.exchange(mine);
    connect(device, gid_index);
    peer.meet();
}

tern::verbs::CompletionQueue Link::make_cq(Device& device) {
    tern::verbs::CompletionQueue cq(ibv_create_cq(device.context(), kDepth, nullptr, nullptr, 0));
    if (!cq) throw call_failed("ibv_create_cq");
    return cq;
}

void Link::make_qp(Device& device) {
    ibv_qp_init_attr attributes = {};
    attributes.send_cq = send_cq_.get();
    attributes.recv_cq = receive_cq_.get();
    attributes.cap = {kDepth, kDepth, 1, 1, kInline};
    attributes.qp_type = IBV_QPT_RC;
    attributes.sq_sig_all = 0;
    qp_.reset(ibv_create_qp(device.pd(), &attributes));
    if (!qp_) throw call_failed("ibv_create_qp");
    inline_limit_ = attributes.cap.max_inline_data;
}

void Link::connect(Device& device, int gid_index) {
    ibv_qp_attr attributes = {};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = device.port_number();
    attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    modify(qp_.get(), &attributes,
           IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT");

    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = device.port().active_mtu;
    attributes.dest_qp_num = remote_.qp_number;
    attributes.max_dest_rd_atomic = 4;
    attributes.min_rnr_timer = 1;
    attributes.ah_attr.dlid = remote_.lid;
    attributes.ah_attr.port_num = device.port_number();
    if (device.port().link_layer == IBV_LINK_LAYER_ETHERNET) {
        attributes.ah_attr.is_global = 1;
        attributes.ah_attr.grh.dgid = remote_.gid;
        attributes.ah_attr.grh.sgid_index = static_cast<uint8_t>(gid_index);
        attributes.ah_attr.grh.hop_limit = 1;
    }
    modify(qp_.get(), &attributes,
           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
           "RTR");

    attributes.qp_state = IBV_QPS_RTS;
    attributes.timeout = 14;
    attributes.retry_cnt = 7;
    attributes.rnr_retry = 7;
    attributes.max_rd_atomic = 4;
    modify(qp_.get(), &attributes,
           IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
               IBV_QP_MAX_QP_RD_ATOMIC,
           "RTS");
}

Link::Request Link::request(ibv_wr_opcode opcode, uint64_t offset, uint32_t length) const {
    const bool reads = opcode == IBV_WR_RDMA_READ;
    Request request = {};
    request.piece.addr = reinterpret_cast<uint64_t>(memory_ + (reads ? half_ : 0)) + offset;
    request.piece.length = length;
    request.piece.lkey = mr_->lkey;
    request.work.opcode = opcode;
    request.work.wr.rdma.remote_addr = (reads ? remote_out() : remote_in()) + offset;
    request.work.wr.rdma.rkey = remote_.key;
    return request;
}

Link::Request Link::request(const Write& write) {
    Request request = {};
    request.piece.addr = reinterpret_cast<uint64_t>(write.from);
    request.piece.length = write.length;
    request.piece.lkey = write.key;
    request.work.opcode = IBV_WR_RDMA_WRITE;
    request.work.wr.rdma.remote_addr = write.to;
    request.work.wr.rdma.rkey = write.remote_key;
    return request;
}

template <size_t kCount>
void Link::post(Request (&chain)[kCount], bool signaled) {
    if (outstanding() > kDepth - kCount) reap_until(kDepth - kCount);
    for (size_t i = 0; i < kCount; ++i) {
        ibv_send_wr& work = chain[i].work;
        work.sg_list = &chain[i].piece;
        work.num_sge = 1;
        work.wr_id = ++posted_;
        if (i + 1 < kCount) work.next = &chain[i + 1].work;
        // A send queue without a signaled request could stay full for ever, so each quarter of it
        // has one.
        if ((signaled && i + 1 == kCount) || work.wr_id % (kDepth / 4) == 0)
            work.send_flags = IBV_SEND_SIGNALED;
        if (work.opcode != IBV_WR_RDMA_READ && chain[i].piece.length <= inline_limit_)
            work.send_flags |= IBV_SEND_INLINE;
    }
    ibv_send_wr* bad = nullptr;
    errno = ibv_post_send(qp_.get(), &chain[0].work, &bad);
    if (errno != 0) throw call_failed("ibv_post_send");
}

void Link::post(ibv_wr_opcode opcode, uint64_t offset, uint32_t length, bool signaled) {
    Request chain[] = {request(opcode, offset, length)};
    post(chain, signaled);
}

void Link::post_write(const Write& write) {
    Request chain[] = {request(write)};
    post(chain, true);
}

void Link::post_chain(uint64_t offset, uint32_t length, const Write& behind, bool signaled) {
    Request chain[] = {request(IBV_WR_RDMA_WRITE, offset, length), request(behind)};
    post(chain, signaled);
}

int Link::reap() {
    const uint64_t before = done_;
    poll(send_cq_.get(), "request", [&](const ibv_wc& completion) { done_ = completion.wr_id; });
    return static_cast<int>(done_ - before);
}

void Link::reap_until(uint32_t outstanding) {
    Patience patience("completions");
    while (this->outstanding() > outstanding) {
        if (reap() == 0) patience.spend();
    }
}

void Link::post_receive(uint64_t offset, uint32_t length) {
    ibv_sge piece = {};
    piece.addr = reinterpret_cast<uint64_t>(in()) + offset;
    piece.length = length;
    piece.lkey = mr_->lkey;
    ibv_recv_wr request = {};
    request.sg_list = &piece;
    request.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    errno = ibv_post_recv(qp_.get(), &request, &bad);
    if (errno != 0) throw call_failed("ibv_post_recv");
}

int Link::reap_receives() {
    return poll(receive_cq_.get(), "receive", [](const ibv_wc&) {});
}

}  // namespace bench
