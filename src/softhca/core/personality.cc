// SPDX-License-Identifier: BSD-3-Clause
#include "personality.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>

#include "text.h"

namespace softhca {
namespace {

constexpr std::array<std::string_view, 8> kNames{"default", "mlx5", "mlx4", "irdma",
                                                 "bnxt_re", "hns",  "rxe",  "strict"};

template <auto group, auto value>
int32_t& rule_at(Personality& personality) {
    return personality.*group.*value;
}

struct Rule {
    const char* name;
    int32_t& (*value)(Personality&);
    int32_t least, most;
    std::array<int32_t, kNames.size()> values;  // in the order of kNames
    const char* meaning;
};

using P = Personality;
constexpr int32_t kErrno = 4095;
constexpr int32_t kMuch = 1 << 30;

// One row for each rule, one column for each personality. Sources are files of rdma-core 691953d
// under providers/ and of the kernel under drivers/infiniband/; "memory" marks values without one.
// Firmware reports many limits; such a value is that of a common card. `strict` has the smallest
// limit and the strictest rule of the others, but no feature is absent unless a program can do the
// same without it.
// clang-format off
constexpr Rule kRules[] = {
    // irdma, bnxt_re, hns and rxe have RoCE only.
    {"ethernet", rule_at<&P::ports, &P::Ports::ethernet>, 0, 1, {0, 0, 0, 1, 1, 1, 1, 0},
     "ports are Ethernet unless `--link-layer` says otherwise"},

    // mlx5/verbs.c mlx5_calc_send_wqe: 1024-byte WQE less 196 bytes. mlx4/qp.c
    // mlx4_calc_sq_wqe_size: the most that fits into 1008 bytes. irdma/umain.c, hw/irdma/icrdma_hw.h.
    // bnxt_re: 6 SGEs of 16 bytes. hns_roce_hw_v2.h HNS_ROCE_V3_MAX_SQ_INLINE (HIP08: 32).
    // sw/rxe/rxe_param.h.
    {"inline", rule_at<&P::limits, &P::Limits::inline_data>, 0, 1024, {1024, 828, 928, 101, 96, 1024, 512, 96},
     "bytes of inline data"},
    // hw/mlx5/main.c mlx5_ib_query_device. mlx4: memory. irdma icrdma_hw.h. bnxt_re qplib_sp.c.
    // hns, rxe: 64 and 32, cut to the limit of this device.
    {"send-sge", rule_at<&P::limits, &P::Limits::send_sge>, 1, 30, {30, 30, 30, 13, 6, 30, 30, 6}, "elements of a send"},
    {"recv-sge", rule_at<&P::limits, &P::Limits::recv_sge>, 1, 30, {30, 30, 30, 13, 6, 30, 30, 6}, "elements of a receive"},
    {"srq-sge", rule_at<&P::limits, &P::Limits::srq_sge>, 1, 30, {30, 30, 30, 13, 6, 30, 27, 6},
     "elements of a receive of a shared queue"},
    // hw/hns/hns_roce_main.c hns_roce_query_device: max_sge_rd 1.
    {"read-sge", rule_at<&P::limits, &P::Limits::read_sge>, 1, 30, {30, 30, 30, 13, 6, 1, 30, 1}, "elements of an RDMA read"},
    // mlx5, bnxt_re: memory. mlx4: 16384 less MLX4_IB_SQ_MAX_SPARE. irdma: icrdma_hw.h.
    // hns_roce_hw_v2.h. rxe_param.h of older kernels.
    {"queue-entries", rule_at<&P::limits, &P::Limits::queue_entries>, 16, 65536, {32768, 32768, 16351, 4063, 65407, 32768, 16384, 4063},
     "`max_qp_wr`"},
    {"srq-entries", rule_at<&P::limits, &P::Limits::srq_entries>, 16, 65536, {32768, 32767, 16383, 4063, 65407, 32768, 32767, 4063},
     "`max_srq_wr`"},
    // The limits of queues are cut to what the memory of a process of the fabric holds: real mlx5 and
    // mlx4 have 4194303 (libibverbs' ibv_devinfo in open-mpi/ompi pull request 6137 and
    // claudebarthels/infinity issue 5), rxe 32767 (openucx/ucx issue 5045).
    {"max-cqe", rule_at<&P::limits, &P::Limits::cqe>, 16, 1 << 20, {1 << 20, (1 << 20) - 1, (1 << 20) - 1, 1048574, 1 << 20, 1 << 20, 32767, 32767},
     "`max_cqe`"},
    // From the reports above: ConnectX-5, ConnectX-3, rxe. irdma, bnxt_re, hns: memory. More than one
    // process of this device can have, which is 8191.
    {"max-qp", rule_at<&P::limits, &P::Limits::qps>, 1, 1 << 20, {1 << 18, 1 << 18, 131000, 1 << 16, 1 << 16, 1 << 16, 1 << 16, 1 << 16},
     "`max_qp`: queue pairs of a device, of all processes"},
    // Of this device: real ones have more. rxe_param.h of older kernels: 960 SRQs.
    {"srqs", rule_at<&P::limits, &P::Limits::srqs>, 0, 8191, {8191, 8191, 8191, 0, 8191, 8191, 960, 960},
     "`max_srq`, for each process"},
    // irdma icrdma_hw.c. mlx5, mlx4, bnxt_re, hns: memory. rxe_param.h.
    {"rd-atomic", rule_at<&P::limits, &P::Limits::rd_atomic>, 1, 128, {16, 16, 16, 8, 126, 128, 128, 8},
     "outstanding reads and atomics of a queue pair"},
    // mlx5, mlx4: memory. sw/rxe/rxe_param.h RXE_PORT_MAX_MSG_SZ. Others cut to this device's.
    {"message", rule_at<&P::limits, &P::Limits::message>, 1 << 16, kMuch, {kMuch, kMuch, kMuch, kMuch, kMuch, kMuch, 1 << 23, 1 << 23},
     "`max_msg_sz`"},

    // mlx5/verbs.c, mlx4/qp.c, hns_roce_u_verbs.c, sw/rxe/rxe_queue.c: powers of two.
    // irdma/uk.c: the power of two, less 258 quanta; here as asked, and at least 8.
    {"queue-rounding", rule_at<&P::rounding, &P::Rounding::queue>, 0, 2, {1, 1, 1, 0, 0, 1, 2, 0},
     "entries of a queue: 0 as asked, 1 the next power of two, 2 one less than it"},
    {"least-queue", rule_at<&P::rounding, &P::Rounding::least_queue>, 1, 64, {1, 1, 1, 8, 1, 64, 1, 1}, "entries of the smallest queue"},
    // mlx5/verbs.c and mlx4/verbs.c align_cq_size(cqe + 1) - 1; sw/rxe/rxe_queue.c.
    {"cq-rounding", rule_at<&P::rounding, &P::Rounding::cq>, 0, 2, {1, 2, 2, 0, 0, 1, 2, 0},
     "entries of a completion queue, likewise"},
    {"least-cq", rule_at<&P::rounding, &P::Rounding::least_cq>, 1, 64, {16, 1, 1, 1, 1, 64, 1, 1}, "entries of the smallest completion queue"},
    // mlx5/verbs.c:1819, irdma/uk.c:1832, hns_roce_u_verbs.c get_max_inline_data, rxe_qp.c
    // rxe_qp_init_req.
    {"inline-rounding", rule_at<&P::rounding, &P::Rounding::inline_data>, 0, 3, {0, 1, 1, 0, 0, 3, 2, 0},
     "inline data: 0 as asked, 1 up to the 64 bytes of a WQE, 2 coupled with the elements, 3 the next power of two"},

    {"uc", rule_at<&P::has, &P::Capabilities::uc>, 0, 1, {1, 1, 1, 0, 0, 0, 1, 1}, "has UC"},
    // irdma: SRQs from GEN_3.
    {"srq", rule_at<&P::has, &P::Capabilities::srq>, 0, 1, {1, 1, 1, 0, 1, 1, 1, 1}, "has shared receive queues"},
    // hns: HNS_ROCE_CAP_FLAG_XRC from HIP09.
    {"xrc", rule_at<&P::has, &P::Capabilities::xrc>, 0, 1, {1, 1, 1, 0, 0, 1, 0, 1}, "has XRC"},
    // mlx5/srq.c:345; sw/rxe/rxe_param.h IB_DEVICE_SRQ_RESIZE. Others: memory.
    {"srq-resize", rule_at<&P::has, &P::Capabilities::srq_resize>, 0, 1, {1, 0, 0, 0, 0, 0, 1, 0}, "a shared receive queue can be resized"},
    // Verbs that a provider's table lacks.
    {"cq-resize", rule_at<&P::has, &P::Capabilities::cq_resize>, 0, 1, {1, 1, 1, 1, 1, 0, 1, 0}, "has `ibv_resize_cq`"},
    {"cq-moderation", rule_at<&P::has, &P::Capabilities::cq_moderation>, 0, 1, {1, 1, 1, 0, 0, 1, 0, 0}, "has `ibv_modify_cq`"},
    // irdma GEN_2: IB_ATOMIC_NONE. bnxt_re: only with atomics of PCIe.
    {"atomics", rule_at<&P::has, &P::Capabilities::atomics>, 0, 1, {1, 1, 1, 0, 0, 1, 1, 1}, "has atomic operations"},
    {"write-imm", rule_at<&P::has, &P::Capabilities::write_imm>, 0, 1, {1, 1, 1, 1, 1, 1, 1, 1}, "has RDMA write with immediate"},
    {"windows", rule_at<&P::has, &P::Capabilities::windows>, 0, 1, {1, 1, 1, 0, 0, 0, 1, 1}, "has memory windows"},
    {"device-memory", rule_at<&P::has, &P::Capabilities::device_memory>, 0, 1, {1, 1, 0, 0, 0, 0, 0, 1}, "has device memory"},
    // The drivers of Linux 6.12 that have reg_user_mr_dmabuf.
    {"dma-buf", rule_at<&P::has, &P::Capabilities::dma_buf>, 0, 1, {1, 1, 0, 1, 1, 0, 0, 1}, "has `ibv_reg_dmabuf_mr`"},
    {"null-mr", rule_at<&P::has, &P::Capabilities::null_mr>, 0, 1, {1, 1, 0, 0, 0, 0, 0, 1}, "has null memory regions"},
    {"rereg-mr", rule_at<&P::has, &P::Capabilities::mr_change>, 0, 1, {1, 1, 1, 1, 0, 1, 0, 0}, "has `ibv_rereg_mr`"},
    {"parent-domain", rule_at<&P::has, &P::Capabilities::parent_domain>, 0, 1, {1, 1, 0, 0, 0, 1, 0, 1}, "has parent domains and thread domains"},
    {"cq-ex", rule_at<&P::has, &P::Capabilities::cq_ex>, 0, 1, {1, 1, 1, 1, 0, 1, 1, 1}, "has `ibv_create_cq_ex`"},
    {"wr-api", rule_at<&P::has, &P::Capabilities::wr_api>, 0, 1, {1, 1, 0, 0, 1, 1, 1, 1}, "has `ibv_wr_*`"},
    {"timestamps", rule_at<&P::has, &P::Capabilities::timestamps>, 0, 1, {1, 1, 1, 0, 0, 0, 0, 1}, "completions have time stamps"},
    // Drivers without attach_mcast: bnxt_re, hns.
    {"multicast", rule_at<&P::has, &P::Capabilities::multicast>, 0, 1, {1, 1, 1, 1, 0, 0, 1, 1}, "has multicast"},
    // mlx5/verbs.c mlx5_query_qp_data_in_order. Others: libibverbs/dummy_ops.c.
    {"in-order", rule_at<&P::ordering, &P::Ordering::in_order>, 0, 2, {1, 2, 0, 0, 0, 0, 0, 2},
     "`ibv_query_qp_data_in_order` says yes: 0 never, 1 always, 2 in RTS"},

    // hns_roce_u_verbs.c get_max_inline_data.
    {"inline-at-create", rule_at<&P::send_queue, &P::SendQueue::inline_at_create>, 0, 1, {0, 0, 0, 0, 0, 1, 0, 0},
     "too much inline data at creation: 0 refused, 1 cut to the limit"},
    // bnxt_re/verbs.c bnxt_re_check_qp_limits, whose result becomes a null pointer only.
    {"create-error", rule_at<&P::errors, &P::Errors::create>, -kErrno, kErrno, {EINVAL, EINVAL, EINVAL, EINVAL, 0, EINVAL, EINVAL, 0},
     "errno of a refused queue pair; 0: not set"},
    // MLX5_CMD_STAT_LIM_ERR: ENOMEM. irdma/main.h irdma_alloc_rsrc. sw/rxe/rxe_pool.c
    // __rxe_add_to_pool. Others: memory.
    {"limit-error", rule_at<&P::errors, &P::Errors::limit>, 1, kErrno, {ENOMEM, ENOMEM, ENOMEM, EOVERFLOW, ENOMEM, ENOMEM, EINVAL, EOVERFLOW},
     "errno of a queue pair beyond `max-qp`, a protection domain or an address handle beyond the limit"},
    // mlx5/qp.c, mlx4/qp.c, irdma/uverbs.c, bnxt_re/verbs.c, hns_roce_u_hw_v2.c, rxe/rxe.c. Negative
    // ones, like those of qedr, siw and erdma, in strict.
    {"inline-error", rule_at<&P::errors, &P::Errors::inline_data>, -kErrno, kErrno, {EINVAL, ENOMEM, ENOMEM, EINVAL, ENOMEM, EINVAL, EINVAL, -EINVAL},
     "result of a post with too much inline data"},
    {"sge-error", rule_at<&P::errors, &P::Errors::sge>, -kErrno, kErrno, {EINVAL, ENOMEM, ENOMEM, EINVAL, ENOMEM, EINVAL, EINVAL, -EINVAL},
     "result of a send with too many elements"},
    {"recv-sge-error", rule_at<&P::errors, &P::Errors::recv_sge>, -kErrno, kErrno, {EINVAL, EINVAL, ENOMEM, EINVAL, ENOMEM, EINVAL, EINVAL, -EINVAL},
     "result of a receive with too many elements"},
    {"full-error", rule_at<&P::errors, &P::Errors::full>, -kErrno, kErrno, {ENOMEM, ENOMEM, ENOMEM, ENOMEM, ENOMEM, ENOMEM, ENOMEM, -ENOMEM},
     "result of a post to a full send queue"},
    {"recv-full-error", rule_at<&P::errors, &P::Errors::recv_full>, -kErrno, kErrno, {ENOMEM, ENOMEM, ENOMEM, ENOMEM, ENOMEM, ENOMEM, ENOMEM, -ENOMEM},
     "result of a post to a full receive queue"},
    // mlx4/srq.c mlx4_post_srq_recv.
    {"srq-full-error", rule_at<&P::errors, &P::Errors::srq_full>, -kErrno, kErrno, {ENOMEM, ENOMEM, -1, ENOMEM, ENOMEM, ENOMEM, ENOMEM, -ENOMEM},
     "result of a post to a full shared receive queue"},
    {"srq-sge-error", rule_at<&P::errors, &P::Errors::srq_sge>, -kErrno, kErrno, {EINVAL, EINVAL, -1, EINVAL, ENOMEM, EINVAL, EINVAL, -EINVAL},
     "result of a post to a shared receive queue with too many elements"},
    // mlx4, irdma, bnxt_re do not look at the state. rxe/rxe.c rxe_post_send puts the request into
    // the shared queue before the kernel refuses it.
    {"early-send", rule_at<&P::send_queue, &P::SendQueue::early>, 0, 2, {0, 0, 1, 1, 1, 0, 2, 0},
     "a send before RTS is 0 refused, 1 queued until RTS, 2 refused and yet queued"},
    {"early-error", rule_at<&P::errors, &P::Errors::early>, -kErrno, kErrno, {EINVAL, ENOMEM, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, -EINVAL},
     "result of a send that is refused for the state"},
    {"opcode-error", rule_at<&P::errors, &P::Errors::opcode>, -kErrno, kErrno, {EINVAL, EOPNOTSUPP, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, -EOPNOTSUPP},
     "result of a send with an operation that the queue pair does not have"},

    // hns_roce_u_verbs.c:998; likewise sw/siw/siw_verbs.c.
    {"empty-send-queue", rule_at<&P::send_queue, &P::SendQueue::may_be_empty>, 0, 1, {1, 1, 1, 1, 1, 0, 1, 0},
     "a queue pair may have no entries for sends"},

    // sw/rxe/rxe_pool.c, irdma/main.h irdma_alloc_rsrc, hns_roce_qp.c: cyclic. strict: as
    // sw/siw/siw_qp.c siw_qp_add.
    {"qp-numbers", rule_at<&P::numbers, &P::Numbers::objects>, 0, 1, {0, 0, 0, 0, 0, 0, 0, 1},
     "number of a new queue pair, completion queue or shared receive queue: 0 not used for long, 1 the lowest free"},
    // hw/mlx5/mr.c push_mkey_locked, pop_mkey_locked: the same key again. Others: random or counted.
    {"keys", rule_at<&P::numbers, &P::Numbers::keys>, 0, 2, {0, 2, 0, 0, 0, 0, 0, 2},
     "key of a new region: 0 not used for long, 1 the lowest free, 2 the one released last"},

    // include/rdma/ib_verbs.h rdma_is_grh_required: RoCE, and InfiniBand ports whose firmware says so.
    {"grh-required", rule_at<&P::ports, &P::Ports::grh_required>, 0, 2, {0, 1, 1, 1, 1, 1, 1, 2},
     "ports have IBV_QPF_GRH_REQUIRED: 0 never, 1 on Ethernet, 2 always"},
    // The specification; this device stores these values and needs none of them.
    {"psn", rule_at<&P::connection, &P::Connection::psn>, 0, 1, {0, 1, 1, 1, 1, 1, 1, 1},
     "a message is lost if the first PSNs of the two sides of a reliable connection differ"},
    {"path-mtu", rule_at<&P::connection, &P::Connection::path_mtu>, 0, 1, {0, 1, 1, 1, 1, 1, 1, 1},
     "a message longer than the smaller path MTU is refused if the path MTUs of the two sides differ"},
    {"rd-atomic-match", rule_at<&P::connection, &P::Connection::rd_atomic_match>, 0, 1, {0, 0, 0, 0, 0, 0, 0, 1},
     "reads and atomics are refused if the requester may have more outstanding than the responder accepts"},
    // core/umem.c ib_umem_get.
    {"locked-memory", rule_at<&P::memory, &P::Memory::locked>, 0, 1, {0, 1, 1, 1, 1, 1, 1, 1},
     "registered memory counts against RLIMIT_MEMLOCK, except with CAP_IPC_LOCK"},
    // libibverbs/memory.c: kernels before 5.12.
    {"fork", rule_at<&P::memory, &P::Memory::fork>, 0, 1, {0, 0, 0, 0, 0, 0, 0, 1},
     "a fork without `ibv_fork_init` makes private regions unusable, because the device keeps the old pages"},
    // hw/mlx5/mr.c set_mkc_access_pd_addr_fields; the others ignore the flag. Default: as a device
    // whose machine keeps the order all the same.
    {"relaxed-order", rule_at<&P::memory, &P::Memory::relaxed>, 0, 1, {0, 1, 0, 0, 0, 0, 0, 1},
     "in regions with IBV_ACCESS_RELAXED_ORDERING the lines of a message appear in another order than that of addresses"},
    // mlx5/cq.c:1807, hns_roce_u_hw_v2.c:1564, irdma/uk.c:1870, bnxt_re/verbs.c:1101; rxe: not cleaned.
    {"destroyed-completions", rule_at<&P::ordering, &P::Ordering::destroyed_completions>, 0, 1, {0, 0, 0, 0, 0, 0, 1, 1},
     "completions of a destroyed queue pair are delivered"},
    // The specification, 10.3.1: receives of a shared queue may leak if the event is not awaited.
    {"receive-ahead", rule_at<&P::ordering, &P::Ordering::receive_ahead>, 0, 1, {0, 0, 0, 0, 0, 0, 0, 1},
     "a queue pair that has used receives of a shared queue takes one more when it fails or is destroyed; if it is destroyed before that is flushed, that is lost"},
    // A driver's modify to ERR returns before the adapter has written the completions; rxe flushes
    // in its task. This device: at once.
    {"flush-delay", rule_at<&P::times, &P::Times::flush_delay>, 0, 10000, {0, 0, 0, 0, 0, 0, 0, 10},
     "ms until a queue pair that has failed flushes its sends, and receives of a shared queue, whose event comes then"},
    // irdma/user.h irdma_qp_event_type has no such event; sw/rxe: not in older kernels. strict: a
    // device that takes receives ahead has it.
    {"last-wqe-event", rule_at<&P::ordering, &P::Ordering::last_receive_event>, 0, 1, {1, 1, 1, 0, 1, 1, 0, 1},
     "IBV_EVENT_QP_LAST_WQE_REACHED comes"},
    // sw/rxe/rxe_verbs.c rxe_req_notify_cq, sw/siw/siw_verbs.c siw_req_notify_cq: only a flag is set.
    {"missed-events", rule_at<&P::ordering, &P::Ordering::missed_events>, 0, 1, {0, 0, 0, 0, 0, 0, 1, 1},
     "a completion queue that is armed raises no event for completions that it has already"},
    // The specification: only wr_id, status, qp_num and vendor_err are valid. mlx5/cq.c
    // mlx5_parse_cqe leaves the others as the program had them.
    {"poisoned-errors", rule_at<&P::ordering, &P::Ordering::poisoned_errors>, 0, 1, {0, 0, 0, 0, 0, 0, 0, 1},
     "opcode, byte_len, imm_data and wc_flags of a completion in error are wrong"},
    // mlx5: memory (Fukuoka, ConnectX-5); irdma icrdma_hw.c: fixed. rxe: one jiffy.
    {"least-timeout", rule_at<&P::times, &P::Times::least_timeout>, 0, 31, {0, 12, 16, 14, 0, 0, 10, 16},
     "code of the shortest time-out of acknowledgments; smaller ones act like it"},
    // sw/rxe/rxe_comp.c rnrnak_jiffies, rxe_qp.c rxe_qp_from_attr: jiffies, at least one, of 250 Hz.
    {"timer-step", rule_at<&P::times, &P::Times::timer_step>, 0, 1'000'000, {0, 0, 0, 0, 0, 0, 4000, 4000},
     "us: time-outs of acknowledgments and RNR timers are multiples of this; 0: exact"},
    // sw/rxe/rxe_comp.c COMPST_ERROR_RETRY.
    {"retry-forever", rule_at<&P::times, &P::Times::retry_forever>, 0, 1, {0, 0, 0, 0, 0, 0, 1, 1},
     "`retry_cnt` 7 has no end"},
    // core/addr.c: 1 s.
    {"neighbor-timeout", rule_at<&P::times, &P::Times::neighbor_timeout>, 0, 10000, {0, 1000, 1000, 1000, 1000, 1000, 1000, 1000},
     "ms that an address handle, or RTR, of Ethernet waits for a port that does not answer, before ETIMEDOUT; 0: does not ask"},
    // core/cache.c, core/roce_gid_mgmt.c: the link-local address first, then IPv4, each as v1 and v2.
    {"gid-table", rule_at<&P::ports, &P::Ports::gid_table>, 0, 2, {0, 1, 2, 0, 1, 1, 0, 1},
     "GIDs of Ethernet ports, link-local before IPv4: 0 RoCE v2, 1 each as v1 and then v2, 2 RoCE v1"},
    // The subnet manager decides it; that of a switch, or opensm's default, is 0.
    {"lmc", rule_at<&P::ports, &P::Ports::lmc>, 0, 2, {0, 0, 0, 0, 0, 0, 0, 0},
     "ports of InfiniBand have 2^lmc LIDs each, and both ends of a connection must use the same of them"},
    // mlx5 has it in hardware (hw/mlx5/odp.c). Off, as a program that finds it does not pin memory.
    {"odp", rule_at<&P::has, &P::Capabilities::odp>, 0, 2, {0, 0, 0, 0, 0, 0, 0, 0},
     "has on-demand paging: 1 for RC, XRC and sends of UD, 2 not for XRC"},
    // 570 us, against 3.66 us of a pinned page: TeRM (FAST 2024).
    {"odp-faults", rule_at<&P::times, &P::Times::odp_faults>, 0, 1'000'000, {0, 570, 0, 0, 0, 0, 0, 570},
     "us that a fault of on-demand paging takes; the responder refuses the request as if it had no receive; 0: none"},
};
// clang-format on

const Rule* find_rule(std::string_view name) {
    for (const Rule& rule : kRules)
        if (name == rule.name) return &rule;
    return nullptr;
}

}  // namespace

uint32_t rounded_entries(uint32_t asked, int32_t rounding, int32_t least, int32_t most) {
    if (asked == 0) return 0;
    uint32_t entries = std::max(asked, static_cast<uint32_t>(least));
    if (rounding == rule::kPowerOfTwo) entries = std::bit_ceil(entries);
    if (rounding == rule::kPowerLessOne) entries = std::bit_ceil(entries + 1) - 1;
    return std::min(entries, static_cast<uint32_t>(most));
}

SendSizes rounded_send(const Personality& personality, SendSizes asked) {
    constexpr uint32_t kElement = 16, kUnit = 64;
    // Of a WQE of mlx5: segments before the data, for a memory window or else an atomic operation.
    constexpr uint32_t kBind = 192, kAtomic = 48, kInlineHeader = 4;
    SendSizes sizes = asked;
    switch (personality.rounding.inline_data) {
        case rule::kInlineWqe: {
            const uint32_t overhead = asked.binds ? kBind : kAtomic;
            const uint32_t payload =
                std::max(asked.sge * kElement, asked.inline_bytes + kInlineHeader);
            const uint32_t wqe = (overhead + payload + kUnit - 1) / kUnit * kUnit;
            sizes.inline_bytes = wqe - overhead - kInlineHeader;
            break;
        }
        case rule::kInlineSge:
            sizes.inline_bytes = std::max(asked.inline_bytes, asked.sge * kElement);
            sizes.sge = sizes.inline_bytes / kElement;
            break;
        case rule::kInlinePower:
            sizes.inline_bytes = asked.inline_bytes == 0 ? 0 : std::bit_ceil(asked.inline_bytes);
            break;
        default:
            break;
    }
    sizes.inline_bytes =
        std::min(sizes.inline_bytes, static_cast<uint32_t>(personality.limits.inline_data));
    sizes.sge = std::min(std::max(sizes.sge, asked.sge),
                         static_cast<uint32_t>(personality.limits.send_sge));
    return sizes;
}

std::string personality_names() {
    return joined(kNames);
}

std::optional<Personality> find_personality(std::string_view name) {
    for (size_t i = 0; i < kNames.size(); ++i) {
        if (name != kNames[i]) continue;
        Personality personality{};
        for (const Rule& rule : kRules) rule.value(personality) = rule.values[i];
        return personality;
    }
    return std::nullopt;
}

std::optional<std::string> apply_rules(std::string_view list, Personality& personality) {
    Personality changed = personality;
    auto wrong = for_each_entry(list, [&](const ListEntry& entry) -> std::optional<std::string> {
        const Rule* rule = find_rule(entry.key);
        if (rule == nullptr)
            return "no rule '" + std::string(entry.key) + "'; choose from " +
                   joined(kRules, &Rule::name);
        const auto value = parse_signed(entry.value);
        if (!value || *value < rule->least || *value > rule->most)
            return std::string(rule->name) + " must be a number from " +
                   std::to_string(rule->least) + " to " + std::to_string(rule->most);
        rule->value(changed) = *value;
        return std::nullopt;
    });
    if (!wrong) personality = changed;
    return wrong;
}

std::string personality_table() {
    std::string text = "| Rule | Meaning |";
    std::string line = "|---|---|";
    for (const std::string_view name : kNames) {
        text.append(" `").append(name).append("` |");
        line += "---|";
    }
    text += "\n" + line + "\n";
    for (const Rule& rule : kRules) {
        text.append("| `").append(rule.name).append("` | ").append(rule.meaning).append(" |");
        for (const int32_t value : rule.values) text += " " + std::to_string(value) + " |";
        text += "\n";
    }
    return text;
}

}  // namespace softhca
