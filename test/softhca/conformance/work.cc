// SPDX-License-Identifier: BSD-3-Clause
#include "work.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>

#include <array>
#include <cerrno>
#include <sstream>

// <poll.h> does not clash with our own poll(), which is in a namespace.
#include <poll.h>

namespace conformance {

SendWr::SendWr(ibv_wr_opcode opcode, uint64_t id) {
    wr_.wr_id = id;
    wr_.opcode = opcode;
    wr_.send_flags = IBV_SEND_SIGNALED;
}

SendWr& SendWr::sge(ibv_sge element) {
    sges_.push_back(element);
    return *this;
}

SendWr& SendWr::sges(const std::vector<ibv_sge>& elements) {
    sges_.insert(sges_.end(), elements.begin(), elements.end());
    return *this;
}

SendWr& SendWr::flags(unsigned send_flags) {
    wr_.send_flags = send_flags;
    return *this;
}

SendWr& SendWr::imm(uint32_t host_order) {
    wr_.imm_data = htonl(host_order);
    return *this;
}

SendWr& SendWr::remote(uint64_t addr, uint32_t rkey) {
    wr_.wr.rdma.remote_addr = addr;
    wr_.wr.rdma.rkey = rkey;
    return *this;
}

SendWr& SendWr::remote(const Region& region, std::size_t offset) {
    return remote(region.addr(offset), region.rkey());
}

SendWr& SendWr::atomic(uint64_t addr, uint32_t rkey, uint64_t compare_add, uint64_t swap) {
    wr_.wr.atomic = {addr, compare_add, swap, rkey};
    return *this;
}

SendWr& SendWr::to(ibv_ah* ah, uint32_t qpn, uint32_t qkey) {
    wr_.wr.ud = {ah, qpn, qkey};
    return *this;
}

SendWr& SendWr::srqn(uint32_t number) {
    wr_.qp_type.xrc.remote_srqn = number;
    return *this;
}

ibv_send_wr& SendWr::raw() {
    wr_.sg_list = sges_.data();
    wr_.num_sge = static_cast<int>(sges_.size());
    return wr_;
}

int SendWr::post(ibv_qp* qp) {
    ibv_send_wr* bad = nullptr;
    const int rc = ibv_post_send(qp, &raw(), &bad);
    if (rc && bad != &wr_) ADD_FAILURE() << "bad_wr is not the refused request";
    return rc;
}

RecvWr& RecvWr::sge(ibv_sge element) {
    sges_.push_back(element);
    return *this;
}

RecvWr& RecvWr::sges(const std::vector<ibv_sge>& elements) {
    sges_.insert(sges_.end(), elements.begin(), elements.end());
    return *this;
}

ibv_recv_wr& RecvWr::raw() {
    wr_.sg_list = sges_.data();
    wr_.num_sge = static_cast<int>(sges_.size());
    return wr_;
}

int RecvWr::post(ibv_qp* qp) {
    ibv_recv_wr* bad = nullptr;
    const int rc = ibv_post_recv(qp, &raw(), &bad);
    if (rc && bad != &wr_) ADD_FAILURE() << "bad_wr is not the refused request";
    return rc;
}

int RecvWr::post(ibv_srq* srq) {
    ibv_recv_wr* bad = nullptr;
    const int rc = ibv_post_srq_recv(srq, &raw(), &bad);
    if (rc && bad != &wr_) ADD_FAILURE() << "bad_wr is not the refused request";
    return rc;
}

namespace {

std::string describe(const ibv_wc& wc) {
    std::ostringstream text;
    text << "[wr_id " << wc.wr_id << ", " << ibv_wc_status_str(wc.status) << "]";
    return text.str();
}

}  // namespace

std::vector<ibv_wc> poll(ibv_cq* cq, int count) {
    std::vector<ibv_wc> got;
    std::array<ibv_wc, 16> some;
    const auto end = Clock::now() + deadline();
    while (static_cast<int>(got.size()) < count) {
        const int room = std::min<int>(some.size(), count - static_cast<int>(got.size()));
        const int n = ibv_poll_cq(cq, room, some.data());
        if (n < 0 || n > room) fail("ibv_poll_cq returned " + std::to_string(n));
        got.insert(got.end(), some.begin(), some.begin() + n);
        if (n > 0) continue;
        if (Clock::now() > end) {
            std::ostringstream text;
            text << got.size() << " of " << count << " completions within " << deadline().count()
                 << " ms:";
            for (const ibv_wc& wc : got) text << ' ' << describe(wc);
            fail(text.str());
        }
        sched_yield();
    }
    return got;
}

ibv_wc poll_one(ibv_cq* cq) {
    return poll(cq, 1).front();
}

testing::AssertionResult quiet(ibv_cq* cq) {
    const auto end = Clock::now() + kQuiet;
    do {
        ibv_wc wc;
        const int n = ibv_poll_cq(cq, 1, &wc);
        if (n > 0) return testing::AssertionFailure() << "unexpected completion " << describe(wc);
        if (n < 0) return testing::AssertionFailure() << "ibv_poll_cq returned " << n;
        sched_yield();
    } while (Clock::now() < end);
    return testing::AssertionSuccess();
}

testing::AssertionResult is_done(const ibv_wc& wc, uint64_t id, ibv_wc_status status) {
    if (wc.wr_id == id && wc.status == status) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "completion is " << describe(wc) << " instead of [wr_id "
                                       << id << ", " << ibv_wc_status_str(status) << "]";
}

testing::AssertionResult next_are(ibv_cq* cq, const std::vector<uint64_t>& ids,
                                  ibv_wc_status status) {
    const std::vector<ibv_wc> got = poll(cq, static_cast<int>(ids.size()));
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const testing::AssertionResult one = is_done(got[i], ids[i], status);
        if (!one) return testing::AssertionFailure() << "number " << i << ": " << one.message();
    }
    return testing::AssertionSuccess();
}

bool readable(int fd, milliseconds limit) {
    pollfd entry{fd, POLLIN, 0};
    int n;
    do {
        n = ::poll(&entry, 1, static_cast<int>(std::max<int64_t>(limit.count(), 0)));
    } while (n < 0 && errno == EINTR);
    return n == 1 && (entry.revents & POLLIN);
}

namespace {

// Gets the next event of the device; false if none comes before `end`.
bool next_event(const Hca& hca, Clock::time_point end, ibv_async_event& event) {
    const auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now());
    if (!readable(hca.get()->async_fd, left)) return false;
    if (ibv_get_async_event(hca.get(), &event)) fail_errno("ibv_get_async_event");
    ibv_ack_async_event(&event);
    return true;
}

}  // namespace

ibv_async_event wait_event(const Hca& hca, ibv_event_type type) {
    const auto end = Clock::now() + deadline();
    std::string others;
    ibv_async_event event;
    while (next_event(hca, end, event)) {
        if (event.event_type == type) return event;
        others += std::string(", but ") + ibv_event_type_str(event.event_type);
    }
    fail(std::string("no event \"") + ibv_event_type_str(type) + "\" within " +
         std::to_string(deadline().count()) + " ms" + others);
}

testing::AssertionResult no_event(const Hca& hca, ibv_event_type type) {
    const auto end = Clock::now() + kQuiet;
    ibv_async_event event;
    while (next_event(hca, end, event))
        if (event.event_type == type)
            return testing::AssertionFailure() << "unexpected event " << ibv_event_type_str(type);
    return testing::AssertionSuccess();
}

ibv_cq* wait_cq_event(ibv_comp_channel* channel) {
    if (!readable(channel->fd, deadline()))
        fail("no completion event within " + std::to_string(deadline().count()) + " ms");
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    if (ibv_get_cq_event(channel, &cq, &cq_context)) fail_errno("ibv_get_cq_event");
    EXPECT_EQ(cq_context, cq->cq_context);
    ibv_ack_cq_events(cq, 1);
    return cq;
}

}  // namespace conformance
