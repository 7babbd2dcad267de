// SPDX-License-Identifier: BSD-3-Clause
// Tagged messages of UCP, as MPI sends them, and the calls by which Open MPI's OpenSHMEM puts data
// and then a word. Those libraries' own instructions are left out.
#include <ucp/api/ucp.h>

#include <deque>

#include "bench/measure/ucx.h"
#include "bench/sim/side.h"
#include "bench/sim/ucp_node.h"

namespace bench::sim {
namespace {

class UcpSide : public Side {
  public:
    UcpSide(Machine& machine, uint32_t rank, const TransportCosts& costs)
        : Side(machine), node_(machine, rank, costs, symmetric_, kBytes) {}
    void connect(UcpSide& peer) { node_.connect(peer.node_); }

    // Tagged messages are sent from and received into memory that nobody has registered.
    void expect() override {
        if (task().way != Way::kTagged) return;
        while (posted_ < expected_ && receives_.size() < task().at_once) {
            spend(kUcp.receive);
            receives_.push_back(
                checked(ucp_tag_recv_nbx(node_.worker(), ordinary_ + kRoom + place(posted_),
                                         task().size, kTag, kAllBits, &kDefaults)));
            ++posted_;
        }
    }
    bool settled() override {
        if (!sends_.empty()) return retire(sends_), false;
        if (flush_ == nullptr) flush_ = checked(ucp_worker_flush_nbx(node_.worker(), &kDefaults));
        if (!ended(flush_)) return false;
        flush_ = nullptr;
        return true;
    }

  private:
    static constexpr uint64_t kWordAt = 2 * kRoom;  // the word that comes, and the one that goes
    static constexpr uint64_t kBytes = kWordAt + 2 * kWord;

    char* out() override { return symmetric_; }
    char* in() override { return symmetric_ + kRoom; }
    char* word() { return symmetric_ + kWordAt; }

    static void* checked(void* request) { return UcpNode::checked(request); }
    bool ended(void* request) { return node_.ended(request); }
    // Takes the requests from the front that have ended.
    uint32_t retire(std::deque<void*>& requests) {
        uint32_t retired = 0;
        for (; !requests.empty() && ended(requests.front()); ++retired) requests.pop_front();
        if (retired != 0) counted(true);
        return retired;
    }

    void prepare() override {
        posted_ = came_ = first_to_come();
        expected_ = came_ + task().receives;
        stage_ = 0;
    }
    bool begin_send() override {
        const bool done = task().way == Way::kTagged ? send_tagged() : put_and_word();
        if (done) ++sent_;
        return done;
    }
    // One that is sent alone has ended when the call returns, as MPI_Send. Of many, some go on.
    bool send_tagged() {
        if (stage_ == 0) {
            spend(kUcp.send);
            sends_.push_back(
                node_.send(node_.peer().endpoint, ordinary_ + place(sent_), task().size, kTag));
            stage_ = 1;
        }
        retire(sends_);
        if (sends_.size() >= task().at_once) return false;
        stage_ = 0;
        return true;
    }
    // shmem_putmem and shmem_put64 return when the memory can be reused.
    bool put_and_word() {
        if (stage_ == 0) {
            mark(sent_);
            put(out() + place(sent_), task().size, kRoom + place(sent_));
        }
        retire(sends_);
        if (!sends_.empty()) return false;
        if (stage_ == 1) {
            spend(kUcp.fence);
            check("ucp_worker_fence", ucp_worker_fence(node_.worker()));
            word_at(word() + kWord).store(sent_ + 1, std::memory_order_relaxed);
            put(word() + kWord, kWord, kWordAt);
            retire(sends_);
            if (!sends_.empty()) return false;
        }
        stage_ = 0;
        return true;
    }
    void put(const char* from, uint32_t size, uint64_t to) {
        spend(kUcp.put);
        sends_.push_back(
            checked(ucp_put_nbx(node_.peer().endpoint, from, size, node_.peer().target + to,
                                node_.peer().key, &kDefaults)));
        ++stage_;
    }

    bool has_come(uint64_t end) override {
        if (task().way == Way::kOpenShmem)
            return word_at(word()).load(std::memory_order_acquire) >= end;
        expect();
        came_ += retire(receives_);
        if (came_ >= end) return true;
        expect();
        return false;
    }
    void poll() override {
        spend(kLook);
        for (unsigned i = node_.poll(); i > 0; --i) counted(true);
    }

    char* const symmetric_ = shared_memory(kBytes);
    char* const ordinary_ = shared_memory(2 * kRoom);
    UcpNode node_;
    std::deque<void*> sends_, receives_;
    void* flush_ = nullptr;
    uint64_t posted_ = 0, came_ = 0, expected_ = 0;
    int stage_ = 0;  // of a message that is sent: what has begun
};

}  // namespace

Sides ucp_sides(Machine& machine, const TransportCosts& costs) {
    auto one = std::make_unique<UcpSide>(machine, 0, costs);
    auto other = std::make_unique<UcpSide>(machine, 1, costs);
    one->connect(*other);
    other->connect(*one);
    return {std::move(one), std::move(other)};
}

}  // namespace bench::sim
