// SPDX-License-Identifier: BSD-3-Clause
// One-sided communication of UCP: puts and gets in memory whose key the target has passed on.
#include <array>
#include <cstring>

#include "bench/measure/machine.h"
#include "bench/measure/one_sided.h"
#include "bench/tern-bench/arms.h"
#include "bench/tern-bench/exchange.h"
#include "bench/tern-bench/ucp_link.h"

namespace bench {
namespace {

// Memory that UCP has registered.
class MappedMemory {
  public:
    MappedMemory(ucp_context_h context, char* data, size_t size) : context_(context) {
        ucp_mem_map_params_t parameters = {};
        parameters.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
        parameters.address = data;
        parameters.length = size;
        check("ucp_mem_map", ucp_mem_map(context, &parameters, &handle_));
    }
    ~MappedMemory() { ucp_mem_unmap(context_, handle_); }
    MappedMemory(const MappedMemory&) = delete;
    MappedMemory& operator=(const MappedMemory&) = delete;

    ucp_mem_h handle() const { return handle_; }

  private:
    const ucp_context_h context_;
    ucp_mem_h handle_ = nullptr;
};

// What a process needs to reach the other one's memory.
struct Target {
    uint64_t memory;
    size_t key_size;
    std::array<unsigned char, 1024> key;
};

Target target_of(const UcpLink& link, const MappedMemory& mapped, const char* memory) {
    Target target = {};
    target.memory = reinterpret_cast<uint64_t>(memory);
    void* key = nullptr;
    check("ucp_rkey_pack", ucp_rkey_pack(link.context(), mapped.handle(), &key, &target.key_size));
    const bool fits = target.key_size <= target.key.size();
    if (fits) std::memcpy(target.key.data(), key, target.key_size);
    ucp_rkey_buffer_release(key);
    if (!fits) throw Failure("the key of the memory is too long");
    return target;
}

// The key of the other process's memory.
class RemoteKey {
  public:
    RemoteKey(ucp_ep_h endpoint, const Target& target) {
        check("ucp_ep_rkey_unpack", ucp_ep_rkey_unpack(endpoint, target.key.data(), &key_));
    }
    ~RemoteKey() { ucp_rkey_destroy(key_); }
    RemoteKey(const RemoteKey&) = delete;
    RemoteKey& operator=(const RemoteKey&) = delete;

    ucp_rkey_h get() const { return key_; }

  private:
    ucp_rkey_h key_ = nullptr;
};

class RmaPort : public Port {
  public:
    RmaPort(Peer& peer, Memory::Kind kind)
        : peer_(peer),
          memory_(kind, 2 * kLongest),
          link_(peer, UCP_FEATURE_RMA),
          mapped_(link_.context(), memory_.data(), 2 * kLongest),
          target_(peer.exchange(target_of(link_, mapped_, memory_.data()))),
          key_(link_.endpoint(), target_) {}

    Samples run(const Order& order) override {
        if (order.kind != Order::Kind::kOneSided) throw Failure("not an order for puts and gets");
        reads_ = order.request == Order::Request::kRead;
        return one_sided(peer_, *this, order, ++orders_);
    }

    char* out() { return memory_.data(); }
    char* in() { return memory_.data() + kLongest; }
    static size_t half() { return kLongest; }
    // The target serves its library meanwhile, as a process does that waits in a barrier of MPI.
    void meet() { meet_in_progress(peer_, link_); }
    void begin(uint64_t offset, uint32_t size, bool) {
        const ucp_request_param_t parameters = {};
        const uint64_t there = target_.memory + offset;
        void* const request = reads_ ? ucp_get_nbx(link_.endpoint(), in() + offset, size, there,
                                                   key_.get(), &parameters)
                                     : ucp_put_nbx(link_.endpoint(), out() + offset, size,
                                                   there + kLongest, key_.get(), &parameters);
        if (UCS_PTR_IS_ERR(request)) {
            check(reads_ ? "ucp_get_nbx" : "ucp_put_nbx", UCS_PTR_STATUS(request));
        }
        // The flush waits for the operation.
        if (request != nullptr) ucp_request_free(request);
    }
    void flush() {
        const ucp_request_param_t parameters = {};
        link_.finish(ucp_ep_flush_nbx(link_.endpoint(), &parameters), "ucp_ep_flush_nbx");
    }

  private:
    Peer& peer_;
    Memory memory_;
    UcpLink link_;
    MappedMemory mapped_;
    const Target target_;
    const RemoteKey key_;
    bool reads_ = false;
    uint64_t orders_ = 0;
};

}  // namespace

std::unique_ptr<Port> open_rma_port(Peer& peer, const WorkerJob& job) {
    const bool shared = std::strcmp(job.what, "shared") == 0;
    return std::make_unique<RmaPort>(peer, shared ? Memory::Kind::kShared : Memory::Kind::kPrivate);
}

}  // namespace bench
