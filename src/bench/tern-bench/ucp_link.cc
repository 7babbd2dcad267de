// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tern-bench/ucp_link.h"

#include <array>
#include <cstring>

#include "bench/tern-bench/exchange.h"

namespace bench {

void check(const std::string& what, ucs_status_t status) {
    if (status != UCS_OK) throw Failure(what + ": " + ucs_status_string(status));
}

UcpHandles::~UcpHandles() {
    if (endpoint != nullptr) close_endpoint();
    if (worker != nullptr) ucp_worker_destroy(worker);
    if (context != nullptr) ucp_cleanup(context);
}

void UcpHandles::close_endpoint() {
    const ucp_request_param_t parameters = {};
    void* const request = ucp_ep_close_nbx(endpoint, &parameters);
    if (!UCS_PTR_IS_PTR(request)) return;
    for (int i = 0; i < 1'000'000 && ucp_request_check_status(request) == UCS_INPROGRESS; ++i) {
        ucp_worker_progress(worker);
    }
    ucp_request_free(request);
}

struct UcpLink::WorkerAddress {
    size_t size;
    std::array<unsigned char, 2048> bytes;
};

UcpLink::UcpLink(Peer& peer, uint64_t features) : peer_(peer) {
    open(features);
    connect(peer.exchange(address()));
    meet_in_progress(peer_, *this);
}

UcpLink::~UcpLink() {
    const ucp_request_param_t parameters = {};
    try {
        finish(ucp_worker_flush_nbx(ucp_.worker, &parameters), "ucp_worker_flush_nbx");
        meet_in_progress(peer_, *this);
    } catch (const Failure&) {
        // The peer has ended already.
    }
}

void UcpLink::finish(void* request, const char* what) {
    if (request == nullptr) return;
    if (UCS_PTR_IS_ERR(request)) check(what, UCS_PTR_STATUS(request));
    Patience patience(what);
    ucs_status_t status;
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        progress();
        patience.spend();
    }
    ucp_request_free(request);
    check(what, status);
}

void UcpLink::open(uint64_t features) {
    ucp_config_t* config = nullptr;
    check("ucp_config_read", ucp_config_read(nullptr, nullptr, &config));
    ucp_params_t parameters = {};
    parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
    parameters.features = features;
    const ucs_status_t status = ucp_init(&parameters, config, &ucp_.context);
    ucp_config_release(config);
    check("ucp_init", status);
    ucp_worker_params_t worker = {};
    worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker.thread_mode = UCS_THREAD_MODE_SINGLE;
    check("ucp_worker_create", ucp_worker_create(ucp_.context, &worker, &ucp_.worker));
}

UcpLink::WorkerAddress UcpLink::address() {
    ucp_address_t* mine = nullptr;
    WorkerAddress address = {};
    check("ucp_worker_get_address", ucp_worker_get_address(ucp_.worker, &mine, &address.size));
    const bool fits = address.size <= address.bytes.size();
    if (fits) std::memcpy(address.bytes.data(), mine, address.size);
    ucp_worker_release_address(ucp_.worker, mine);
    if (!fits) throw Failure("the address of the UCP worker is too long");
    return address;
}

void UcpLink::connect(const WorkerAddress& theirs) {
    ucp_ep_params_t parameters = {};
    parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    parameters.address = reinterpret_cast<const ucp_address_t*>(theirs.bytes.data());
    check("ucp_ep_create", ucp_ep_create(ucp_.worker, &parameters, &ucp_.endpoint));
}

}  // namespace bench
