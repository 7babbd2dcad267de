// SPDX-License-Identifier: BSD-3-Clause
// Tagged messages of UCP, as MPI sends them, and the calls by which Open MPI's OpenSHMEM puts data
// and then a word. Those libraries' own instructions are left out.
#include <ucp/api/ucp.h>

#include <cstdlib>
#include <deque>
#include <string>

#include "bench/measure/ucx.h"
#include "bench/sim/side.h"
#include "bench/sim/ucp_hooks.h"

namespace bench::sim {
namespace {

constexpr ucp_tag_t kTag = 7;
constexpr ucp_tag_t kAllBits = ~ucp_tag_t{0};
constexpr ucp_request_param_t kDefaults = {};

class UcpSide : public Side {
  public:
    UcpSide(Machine& machine, uint32_t rank, const TransportCosts& costs)
        : Side(machine), costs_(costs) {
        machine.become(rank);
        const auto config = created<Owner<ucp_config_t, ucp_config_release>>(
            "ucp_config_read", ucp_config_read, nullptr, nullptr);
        ucp_params_t parameters = {};
        parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
        parameters.features = UCP_FEATURE_TAG | UCP_FEATURE_RMA;
        check("ucp_init", ucp_init(&parameters, config.get(), &context_));
        ucp_worker_params_t worker = {};
        worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
        worker.thread_mode = UCS_THREAD_MODE_SINGLE;
        check("ucp_worker_create", ucp_worker_create(context_, &worker, &worker_));
        ucp_mem_map_params_t memory = {};
        memory.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
        memory.address = symmetric_;
        memory.length = kBytes;
        check("ucp_mem_map", ucp_mem_map(context_, &memory, &mapped_));
    }

    void connect(UcpSide& peer) {
        ucp_address_t* address = nullptr;
        size_t size = 0;
        check("ucp_worker_get_address", ucp_worker_get_address(peer.worker_, &address, &size));
        ucp_ep_params_t parameters = {};
        parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        parameters.address = address;
        check("ucp_ep_create", ucp_ep_create(worker_, &parameters, &endpoint_));
        ucp_worker_release_address(peer.worker_, address);
        void* key = nullptr;
        check("ucp_rkey_pack", ucp_rkey_pack(peer.context_, peer.mapped_, &key, &size));
        check("ucp_ep_rkey_unpack", ucp_ep_rkey_unpack(endpoint_, key, &key_));
        ucp_rkey_buffer_release(key);
        target_ = reinterpret_cast<uint64_t>(peer.symmetric_);
    }

    // Tagged messages are sent from and received into memory that nobody has registered.
    void expect() override {
        if (task().way != Way::kTagged) return;
        while (posted_ < expected_ && receives_.size() < task().at_once) {
            spend(kUcp.receive);
            receives_.push_back(
                checked(ucp_tag_recv_nbx(worker_, ordinary_ + kRoom + place(posted_), task().size,
                                         kTag, kAllBits, &kDefaults)));
            ++posted_;
        }
    }
    bool settled() override {
        if (!sends_.empty()) return retire(sends_), false;
        if (flush_ == nullptr) flush_ = checked(ucp_worker_flush_nbx(worker_, &kDefaults));
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

    static void* checked(void* request) {
        if (UCS_PTR_IS_ERR(request)) check("a call of UCP", UCS_PTR_STATUS(request));
        return request;
    }
    // Whether the request has ended. It is given back then.
    bool ended(void* request) {
        if (request == nullptr) return true;
        const ucs_status_t status = ucp_request_check_status(request);
        if (status == UCS_INPROGRESS) return false;
        check("a request", status);
        spend(kUcp.ended);
        ucp_request_free(request);
        return true;
    }
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
            sends_.push_back(checked(ucp_tag_send_nbx(endpoint_, ordinary_ + place(sent_),
                                                      task().size, kTag, &kDefaults)));
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
            check("ucp_worker_fence", ucp_worker_fence(worker_));
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
            checked(ucp_put_nbx(endpoint_, from, size, target_ + to, key_, &kDefaults)));
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
        for (unsigned i = poll_worker(worker_, machine_, costs_); i > 0; --i) counted(true);
    }

    const TransportCosts& costs_;
    char* const symmetric_ = shared_memory(kBytes);
    char* const ordinary_ = shared_memory(2 * kRoom);
    ucp_context_h context_ = nullptr;
    ucp_worker_h worker_ = nullptr;
    ucp_ep_h endpoint_ = nullptr;
    ucp_mem_h mapped_ = nullptr;
    ucp_rkey_h key_ = nullptr;
    uint64_t target_ = 0;
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
