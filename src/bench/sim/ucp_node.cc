// SPDX-License-Identifier: BSD-3-Clause
#include "bench/sim/ucp_node.h"

#include "bench/measure/ucx.h"
#include "bench/sim/ucp_hooks.h"

namespace bench::sim {

UcpNode::UcpNode(Machine& machine, uint32_t rank, const TransportCosts& costs, char* memory,
                 uint64_t bytes)
    : machine_(machine), costs_(costs), memory_(reinterpret_cast<uint64_t>(memory)) {
    machine.become(rank);
    own_timers(this);
    const auto config = created<Owner<ucp_config_t, ucp_config_release>>(
        "ucp_config_read", ucp_config_read, nullptr, nullptr);
    ucp_params_t parameters = {};
    parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
    parameters.features = UCP_FEATURE_TAG | (memory != nullptr ? UCP_FEATURE_RMA : 0);
    check("ucp_init", ucp_init(&parameters, config.get(), &context_));
    ucp_worker_params_t worker = {};
    worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker.thread_mode = UCS_THREAD_MODE_SINGLE;
    check("ucp_worker_create", ucp_worker_create(context_, &worker, &worker_));
    if (memory == nullptr) return;
    ucp_mem_map_params_t open = {};
    open.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    open.address = memory;
    open.length = bytes;
    check("ucp_mem_map", ucp_mem_map(context_, &open, &mapped_));
}

const UcpNode::Peer& UcpNode::connect(UcpNode& peer) {
    ucp_address_t* address = nullptr;
    size_t size = 0;
    check("ucp_worker_get_address", ucp_worker_get_address(peer.worker_, &address, &size));
    ucp_ep_params_t parameters = {};
    parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    parameters.address = address;
    Peer& made = peers_.emplace_back();
    check("ucp_ep_create", ucp_ep_create(worker_, &parameters, &made.endpoint));
    ucp_worker_release_address(peer.worker_, address);
    if (mapped_ == nullptr) return made;
    void* key = nullptr;
    check("ucp_rkey_pack", ucp_rkey_pack(peer.context_, peer.mapped_, &key, &size));
    check("ucp_ep_rkey_unpack", ucp_ep_rkey_unpack(made.endpoint, key, &made.key));
    ucp_rkey_buffer_release(key);
    made.target = peer.memory_;
    return made;
}

void* UcpNode::checked(void* request) {
    if (UCS_PTR_IS_ERR(request)) check("a call of UCP", UCS_PTR_STATUS(request));
    return request;
}

void* UcpNode::send(ucp_ep_h endpoint, const void* data, uint64_t size, ucp_tag_t tag) {
    return send_by(machine_, costs_, size, [&] {
        return checked(ucp_tag_send_nbx(endpoint, data, size, tag, &kDefaults));
    });
}

bool UcpNode::ended(void* request) {
    if (request == nullptr) return true;
    const ucs_status_t status = ucp_request_check_status(request);
    if (status == UCS_INPROGRESS) return false;
    check("a request", status);
    machine_.spend(ns_of(kUcp.ended));
    ucp_request_free(request);
    ++done_;
    return true;
}

unsigned UcpNode::poll() {
    const unsigned done = poll_worker(worker_, machine_, costs_);
    done_ += done;
    return done;
}

}  // namespace bench::sim
