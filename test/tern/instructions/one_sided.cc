// SPDX-License-Identifier: BSD-3-Clause
// Puts and gets of 8 bytes by UCP, each with a flush of the endpoint.
#include <ucp/api/ucp.h>

#include <array>
#include <cstdint>

#include "counted.h"

INSTRUCTIONS_SAMPLE(put)
INSTRUCTIONS_SAMPLE(get)

namespace instructions {
namespace {

constexpr unsigned kWarmUp = 100;
// Polls after which nothing of the connection's set-up is under way on either side: packets are
// looked for in one of many polls only, and the samples do not poll the target.
constexpr unsigned kSettle = 20'000;

void check(ucs_status_t status, const char* what) {
    if (status != UCS_OK) fail(std::string(what) + ": " + ucs_status_string(status));
}

class UcpNode {
  public:
    UcpNode() {
        ucp_params_t params = {};
        params.field_mask = UCP_PARAM_FIELD_FEATURES;
        params.features = UCP_FEATURE_RMA;
        check(ucp_init(&params, nullptr, &context_), "ucp_init");
        const ucp_worker_params_t worker_params = {};
        check(ucp_worker_create(context_, &worker_params, &worker_), "ucp_worker_create");
        ucp_mem_map_params_t map = {};
        map.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
        map.address = memory_.data();
        map.length = memory_.size();
        check(ucp_mem_map(context_, &map, &mapped_), "ucp_mem_map");
    }
    ~UcpNode() {
        if (key_ != nullptr) ucp_rkey_destroy(key_);
        ucp_mem_unmap(context_, mapped_);
        ucp_worker_destroy(worker_);
        ucp_cleanup(context_);
    }
    UcpNode(const UcpNode&) = delete;
    UcpNode& operator=(const UcpNode&) = delete;

    void connect(UcpNode& peer) {
        ucp_address_t* address;
        size_t length;
        check(ucp_worker_get_address(peer.worker_, &address, &length), "ucp_worker_get_address");
        ucp_ep_params_t params = {};
        params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        params.address = address;
        check(ucp_ep_create(worker_, &params, &ep_), "ucp_ep_create");
        ucp_worker_release_address(peer.worker_, address);
        void* key;
        check(ucp_rkey_pack(peer.context_, peer.mapped_, &key, &length), "ucp_rkey_pack");
        check(ucp_ep_rkey_unpack(ep_, key, &key_), "ucp_ep_rkey_unpack");
        ucp_rkey_buffer_release(key);
        there_ = reinterpret_cast<uint64_t>(peer.memory_.data());
    }
    void progress() { ucp_worker_progress(worker_); }

    // `progress` is called until the operation has arrived.
    void put(const Step& progress) {
        const ucp_request_param_t params = {};
        start(ucp_put_nbx(ep_, memory_.data(), 8, there_, key_, &params), "ucp_put_nbx");
        flush(progress);
    }
    void get(const Step& progress) {
        const ucp_request_param_t params = {};
        start(ucp_get_nbx(ep_, memory_.data(), 8, there_, key_, &params), "ucp_get_nbx");
        flush(progress);
    }

    void close(const Step& progress) {
        const ucp_request_param_t params = {};
        wait(ucp_ep_close_nbx(ep_, &params), progress, "ucp_ep_close_nbx");
    }

  private:
    static void start(void* request, const char* what) {
        if (UCS_PTR_IS_ERR(request)) check(UCS_PTR_STATUS(request), what);
        // The flush waits for the operation.
        if (request != nullptr) ucp_request_free(request);
    }
    void flush(const Step& progress) {
        const ucp_request_param_t params = {};
        wait(ucp_ep_flush_nbx(ep_, &params), progress, "ucp_ep_flush_nbx");
    }
    static void wait(void* request, const Step& progress, const char* what) {
        if (UCS_PTR_IS_ERR(request)) check(UCS_PTR_STATUS(request), what);
        if (request == nullptr) return;
        for (unsigned i = 0; ucp_request_check_status(request) == UCS_INPROGRESS; ++i) {
            // Not a time, because the clock's instructions would count. A connection takes some
            // seconds if valgrind keeps UCX's asynchronous thread waiting.
            if (i > 1'000'000'000) fail(std::string(what) + " does not end");
            progress();
        }
        check(ucp_request_check_status(request), what);
        ucp_request_free(request);
    }

    alignas(64) std::array<char, 4096> memory_{};
    ucp_context_h context_;
    ucp_worker_h worker_;
    ucp_mem_h mapped_;
    ucp_ep_h ep_ = nullptr;
    ucp_rkey_h key_ = nullptr;
    uint64_t there_ = 0;
};

}  // namespace

void one_sided() {
    UcpNode origin, target;
    origin.connect(target);
    const Step both = [&] {
        origin.progress();
        target.progress();
    };
    for (unsigned i = 0; i < kWarmUp; ++i) {
        origin.put(both);
        origin.get(both);
    }
    for (unsigned i = 0; i < kSettle; ++i) both();
    const Step own = [&] { origin.progress(); };
    for (unsigned i = 0; i < kSamples; ++i) {
        sample_put(1, [&] { origin.put(own); });
        sample_get(1, [&] { origin.get(own); });
    }
    origin.close(both);
}

}  // namespace instructions
