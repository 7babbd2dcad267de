// SPDX-License-Identifier: BSD-3-Clause
// The software HCA in this process: work requests of all types of queue pairs, well formed or not,
// and changes of state between them. Bytes that no key permits stay as they are, and a work request
// completes once at most.
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

#include "fuzz.h"

using tern::fuzz::Input;
using tern::fuzz::require;

namespace {

constexpr size_t kArea = 16384;
constexpr int kRemote = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                        IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;

// What lives as long as the process. The middle half of `area` is registered twice: for all, and
// for local reads only.
struct Device {
    Device() {
        ibv_device** list = ibv_get_device_list(nullptr);
        require(list != nullptr && list[0] != nullptr, "there is no device");
        context = ibv_open_device(list[0]);
        ibv_free_device_list(list);
        pd = ibv_alloc_pd(context);
        other_pd = ibv_alloc_pd(context);
        open = ibv_reg_mr(pd, area.data() + kArea / 4, kArea / 2, kRemote);
        closed = ibv_reg_mr(pd, area.data() + kArea / 4, kArea / 2, 0);
        foreign = ibv_reg_mr(other_pd, area.data() + kArea / 4, kArea / 2, kRemote);
        window = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
        ibv_port_attr port{};
        ibv_query_port(context, 1, &port);
        ibv_ah_attr to{};
        to.dlid = lid = port.lid;
        to.port_num = 1;
        ah = ibv_create_ah(pd, &to);
        ibv_xrcd_init_attr init{};
        init.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
        init.fd = -1;
        init.oflags = O_CREAT;
        xrcd = ibv_open_xrcd(context, &init);
        require(open != nullptr && closed != nullptr && foreign != nullptr && window != nullptr &&
                    ah != nullptr && xrcd != nullptr,
                "the device cannot be set up");
    }

    ibv_context* context;
    ibv_pd *pd, *other_pd;
    std::vector<uint8_t> area = std::vector<uint8_t>(kArea, 0x5a);
    ibv_mr *open, *closed, *foreign;
    ibv_mw* window;
    ibv_ah* ah;
    ibv_xrcd* xrcd;
    uint16_t lid = 0;
};

Device& device() {
    static Device* const one = [] {
        setenv("SOFTHCA_FABRIC", ("fuzz-" + std::to_string(getpid())).c_str(), 0);
        setenv("SOFTHCA_EXECUTOR", "inline", 1);
        return new Device;
    }();
    return *one;
}

enum class Kind : uint8_t { kRc, kUc, kUd, kXrc };

class World {
  public:
    explicit World(Input& input) : input_(input), kind_(static_cast<Kind>(input.below(4))) {
        Device& d = device();
        for (auto& cq : cqs_) cq = ibv_create_cq(d.context, 256, nullptr, nullptr, 0);
        with_srq_ = kind_ == Kind::kXrc || input_.chance(3);
        if (with_srq_) make_srq();
        for (int side = 0; side < 2; ++side) qps_[side] = make(side);
        require(qps_[0] != nullptr && qps_[1] != nullptr, "no queue pair");
        connected_ = !input_.chance(8);
        if (connected_)
            for (int side = 0; side < 2; ++side) bring_up(side);
    }
    ~World() {
        for (ibv_qp* qp : qps_) require(ibv_destroy_qp(qp) == 0, "a queue pair is not destroyed");
        if (srq_ != nullptr) require(ibv_destroy_srq(srq_) == 0, "a queue is not destroyed");
        for (ibv_cq* cq : cqs_) require(ibv_destroy_cq(cq) == 0, "a queue is not destroyed");
        const auto& area = device().area;
        for (size_t i = 0; i < kArea; ++i)
            if (i < kArea / 4 || i >= kArea * 3 / 4)
                require(area[i] == 0x5a, "memory is written that is not registered");
    }
    World(const World&) = delete;
    World& operator=(const World&) = delete;

    void run() {
        while (!input_.empty()) step();
        poll();
    }

  private:
    void make_srq() {
        ibv_srq_init_attr_ex init{};
        init.attr.max_wr = 16;
        init.attr.max_sge = 2;
        init.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
        init.srq_type = IBV_SRQT_BASIC;
        init.pd = device().pd;
        if (kind_ == Kind::kXrc) {
            init.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
            init.srq_type = IBV_SRQT_XRC;
            init.xrcd = device().xrcd;
            init.cq = cqs_[1];
        }
        srq_ = ibv_create_srq_ex(device().context, &init);
        require(srq_ != nullptr, "no shared receive queue");
        (void)ibv_get_srq_num(srq_, &srq_number_);
    }

    ibv_qp* make(int side) {
        ibv_qp_init_attr_ex init{};
        init.send_cq = init.recv_cq = cqs_[side];
        init.cap = {16, 16, 4, 4, 64};
        init.sq_sig_all = input_.chance(2);
        init.comp_mask = IBV_QP_INIT_ATTR_PD;
        init.pd = device().pd;
        if (kind_ == Kind::kXrc && side == 1) {
            init = {};
            init.qp_type = IBV_QPT_XRC_RECV;
            init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
            init.xrcd = device().xrcd;
        } else if (kind_ == Kind::kXrc) {
            init.qp_type = IBV_QPT_XRC_SEND;
            init.recv_cq = nullptr;
            init.cap.max_recv_wr = init.cap.max_recv_sge = 0;
        } else {
            init.qp_type = kind_ == Kind::kRc   ? IBV_QPT_RC
                           : kind_ == Kind::kUc ? IBV_QPT_UC
                                                : IBV_QPT_UD;
            if (with_srq_) init.srq = srq_;
        }
        return ibv_create_qp_ex(device().context, &init);
    }

    void bring_up(int side) {
        ibv_qp_attr to{};
        to.qp_state = IBV_QPS_INIT;
        to.port_num = 1;
        to.qkey = 7;
        to.qp_access_flags = kRemote & ~IBV_ACCESS_MW_BIND;
        int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
        const bool ud = kind_ == Kind::kUd;
        const bool acknowledges = kind_ == Kind::kRc || kind_ == Kind::kXrc;
        require(
            ibv_modify_qp(qps_[side], &to, mask | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)) == 0,
            "a queue pair does not get to INIT");
        to.qp_state = IBV_QPS_RTR;
        to.path_mtu = IBV_MTU_1024;
        to.dest_qp_num = qps_[1 - side]->qp_num;
        to.ah_attr.dlid = device().lid;
        to.ah_attr.port_num = 1;
        to.max_dest_rd_atomic = 4;
        to.min_rnr_timer = 1;
        mask = IBV_QP_STATE;
        if (!ud) mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
        if (acknowledges) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        require(ibv_modify_qp(qps_[side], &to, mask) == 0, "a queue pair does not get to RTR");
        to.qp_state = IBV_QPS_RTS;
        to.timeout = 1;
        to.retry_cnt = to.rnr_retry = 1;
        to.max_rd_atomic = 4;
        mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
        if (acknowledges)
            mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
        require(ibv_modify_qp(qps_[side], &to, mask) == 0, "a queue pair does not get to RTS");
    }

    void step() {
        switch (input_.below(10)) {
            case 0:
            case 1:
            case 2:
            case 3:
                post_send(static_cast<int>(input_.below(2)));
                break;
            case 4:
            case 5:
                post_receive(static_cast<int>(input_.below(2)));
                break;
            case 6:
            case 7:
                poll();
                break;
            case 8:
                modify(static_cast<int>(input_.below(2)));
                break;
            case 9: {
                ibv_qp_attr attr{};
                ibv_qp_init_attr init{};
                (void)ibv_query_qp(qps_[input_.below(2)], &attr, input_.take<uint16_t>(), &init);
                break;
            }
        }
    }

    // Local memory of the program: in the area, or next to it if only the device looks.
    uint64_t address() {
        const auto base = reinterpret_cast<uint64_t>(device().area.data());
        const uint64_t at = input_.take<uint16_t>() % kArea;
        return input_.chance(16) ? input_.take<uint64_t>() : base + at;
    }
    uint32_t key(bool remote) {
        const Device& d = device();
        switch (input_.below(8)) {
            case 0:
                return remote ? d.closed->rkey : d.closed->lkey;
            case 1:
                return remote ? d.foreign->rkey : d.foreign->lkey;
            case 2:
                return d.window->rkey;
            case 3:
                return d.open->rkey ^ input_.take<uint8_t>();
            case 4:
                return static_cast<uint32_t>(input_.number());
            default:
                return remote ? d.open->rkey : d.open->lkey;
        }
    }
    int elements(ibv_sge* list, bool data_is_read) {
        const int count =
            input_.chance(16) ? input_.take<int8_t>() : static_cast<int>(input_.below(5));
        for (int i = 0; i < std::min(count, 4); ++i) {
            list[i] = {address(), static_cast<uint32_t>(input_.number()), key(false)};
            if (!data_is_read) continue;
            // Inline data are read by the program's own thread.
            list[i].addr = reinterpret_cast<uint64_t>(device().area.data());
            list[i].length %= kArea;
        }
        return count;
    }

    void post_send(int side) {
        ibv_send_wr wr{};
        ibv_sge list[4];
        wr.wr_id = ++posted_;
        wr.opcode = static_cast<ibv_wr_opcode>(input_.chance(16) ? input_.take<uint8_t>()
                                                                 : input_.below(10));
        wr.send_flags = input_.take<uint8_t>();
        wr.sg_list = list;
        wr.num_sge = elements(list, (wr.send_flags & IBV_SEND_INLINE) != 0);
        wr.imm_data = input_.chance(2) ? key(true) : 1;
        if (kind_ == Kind::kUd) {
            wr.wr.ud = {input_.chance(16) ? nullptr : device().ah,
                        input_.chance(8) ? input_.take<uint32_t>() : qps_[1 - side]->qp_num,
                        input_.chance(8) ? input_.take<uint32_t>() : 7};
        } else if (wr.opcode == IBV_WR_BIND_MW) {
            wr.bind_mw.mw = device().window;
            wr.bind_mw.rkey = device().window->rkey + input_.below(3);
            wr.bind_mw.bind_info = {input_.chance(2) ? device().open : device().closed, address(),
                                    input_.number(), input_.take<uint8_t>()};
        } else if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
                   wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
            wr.wr.atomic = {address() & ~uint64_t{input_.chance(4) ? 0u : 7u}, input_.number(),
                            input_.number(), key(true)};
        } else {
            wr.wr.rdma = {address(), key(true)};
        }
        wr.qp_type.xrc.remote_srqn = input_.chance(8) ? input_.take<uint32_t>() : srq_number_;
        ibv_send_wr* bad = nullptr;
        const int error = ibv_post_send(qps_[side], &wr, &bad);
        if (error == 0)
            outstanding_[wr.wr_id] = true;
        else
            require(bad == &wr, "another work request is to blame");
    }

    void post_receive(int side) {
        ibv_recv_wr wr{};
        ibv_sge list[4];
        wr.wr_id = ++posted_;
        wr.sg_list = list;
        wr.num_sge = elements(list, false);
        ibv_recv_wr* bad = nullptr;
        const int error =
            with_srq_ ? ibv_post_srq_recv(srq_, &wr, &bad) : ibv_post_recv(qps_[side], &wr, &bad);
        if (error == 0)
            outstanding_[wr.wr_id] = true;
        else
            require(bad == &wr, "another work request is to blame");
    }

    void poll() {
        for (ibv_cq* cq : cqs_) {
            ibv_wc wc{};
            int count;
            while ((count = ibv_poll_cq(cq, 1, &wc)) > 0)
                require(outstanding_.erase(wc.wr_id) == 1, "a work request completes twice");
            require(count == 0, "a completion queue fails");
        }
    }

    void modify(int side) {
        ibv_qp_attr attr{};
        const auto bytes = input_.take_bytes(input_.below(64));
        memcpy(static_cast<void*>(&attr), bytes.data(), bytes.size());
        attr.qp_state = static_cast<ibv_qp_state>(input_.below(8));
        attr.port_num = 1;
        const int mask =
            input_.chance(2) ? IBV_QP_STATE : static_cast<int>(input_.take<uint32_t>());
        const bool forgets = attr.qp_state == IBV_QPS_RESET;
        if (forgets) poll();
        (void)ibv_modify_qp(qps_[side], &attr, mask);
    }

    Input& input_;
    const Kind kind_;
    bool with_srq_ = false;
    bool connected_ = false;
    ibv_cq* cqs_[2];
    ibv_srq* srq_ = nullptr;
    uint32_t srq_number_ = 0;
    ibv_qp* qps_[2];
    uint64_t posted_ = 0;
    std::map<uint64_t, bool> outstanding_;
};

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Input input(data, size);
    World(input).run();
    return 0;
}
