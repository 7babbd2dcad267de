// SPDX-License-Identifier: BSD-3-Clause
// An interface of a transport, through UCT's public functions alone.
#pragma once

#include <uct/api/uct.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "bench/measure/ucx.h"
#include "common/ucx/resources.h"
#include "common/ucx/worker_progress.h"

namespace bench {

// Of a device, an interface or an endpoint, or a key of memory. Plain data.
using UctAddress = std::array<uint64_t, 32>;
template <typename Form>
Form* as(UctAddress& address) {
    return reinterpret_cast<Form*>(address.data());
}

// Where a transport is, on one device or any. Throws Failure if it is nowhere.
inline std::vector<rwapi::Resource> resources_of(const std::string& transport,
                                                 const char* device = nullptr) {
    const auto found = rwapi::choose_resources(rwapi::list_resources(), transport.c_str(), device);
    if (found.empty())
        throw Failure("UCX has no transport " + transport +
                      (device == nullptr ? "" : std::string(" on ") + device));
    return found;
}

class UctInterface {
  public:
    // Of the first of these resources that can be opened, with a worker of its own. Throws Failure.
    UctInterface(const std::vector<rwapi::Resource>& resources, ucs_async_mode_t mode) {
        if (const std::string reason = worker_progress_.misfit("tern-bench"); !reason.empty())
            throw Failure(reason);
        async_ = created<rwapi::Async>("ucs_async_context_create", ucs_async_context_create, mode);
        worker_ = created<rwapi::Worker>("uct_worker_create", uct_worker_create, async_.get(),
                                         UCS_THREAD_MODE_SINGLE);
        for (auto each = resources.begin(); !domain_ && each != resources.end(); ++each) {
            resource_ = *each;
            domain_ = rwapi::open_domain(resource_);
        }
        if (!domain_) throw Failure("UCX cannot open " + resource_.domain);
        const char* const transport = resource_.transport.c_str();
        const auto config = created<Owner<uct_iface_config_t, uct_config_release>>(
            "uct_md_iface_config_read", uct_md_iface_config_read, domain_.get(), transport, nullptr,
            nullptr);
        uct_iface_params_t parameters = {};
        parameters.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE |
                                UCT_IFACE_PARAM_FIELD_STATS_ROOT |
                                UCT_IFACE_PARAM_FIELD_RX_HEADROOM | UCT_IFACE_PARAM_FIELD_CPU_MASK;
        parameters.open_mode = UCT_IFACE_OPEN_MODE_DEVICE;
        parameters.mode.device.tl_name = transport;
        parameters.mode.device.dev_name = resource_.device.c_str();
        iface_ = created<rwapi::Interface>("uct_iface_open " + resource_.transport, uct_iface_open,
                                           domain_.get(), worker_.get(), &parameters, config.get());
        check("uct_iface_query", uct_iface_query(iface_.get(), &attributes_));
        if (std::max({attributes_.device_addr_len, attributes_.iface_addr_len,
                      attributes_.ep_addr_len}) > sizeof(UctAddress))
            throw Failure("addresses of " + resource_.transport + " are too long");
    }

    // Calls receive() for messages with this id.
    void begin(uint8_t id, uct_am_callback_t receive, void* argument) {
        check("uct_iface_set_am_handler",
              uct_iface_set_am_handler(iface_.get(), id, receive, argument, 0));
        uct_iface_progress_enable(iface_.get(), UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    }
    void progress() { worker_progress_(worker_.get()); }
    // Whether all that was sent has reached the peers, and all that was asked for is here.
    bool flush() {
        const ucs_status_t status = uct_iface_flush(iface_.get(), 0, nullptr);
        if (status == UCS_INPROGRESS || status == UCS_ERR_NO_RESOURCE) return false;
        check("uct_iface_flush", status);
        return true;
    }

    const uct_iface_attr_t& attributes() const { return attributes_; }
    uct_md_h domain() const { return domain_.get(); }
    uct_component_h component() const { return resource_.component; }

    // Whether each endpoint must be connected to an endpoint of the peer.
    bool connects_endpoints() const {
        return (attributes_.cap.flags & UCT_IFACE_FLAG_CONNECT_TO_IFACE) == 0;
    }
    struct Addresses {
        UctAddress device;
        UctAddress iface;
    };
    Addresses addresses() const {
        Addresses mine = {};
        check("uct_iface_get_device_address",
              uct_iface_get_device_address(iface_.get(), as<uct_device_addr_t>(mine.device)));
        if (!connects_endpoints())
            check("uct_iface_get_address",
                  uct_iface_get_address(iface_.get(), as<uct_iface_addr_t>(mine.iface)));
        return mine;
    }
    // An endpoint to the peer, which is yet to be connected if endpoints are.
    rwapi::Endpoint make_endpoint(Addresses theirs) const {
        uct_ep_params_t parameters = {};
        parameters.field_mask = UCT_EP_PARAM_FIELD_IFACE;
        parameters.iface = iface_.get();
        if (!connects_endpoints()) {
            parameters.field_mask |= UCT_EP_PARAM_FIELD_DEV_ADDR | UCT_EP_PARAM_FIELD_IFACE_ADDR;
            parameters.dev_addr = as<uct_device_addr_t>(theirs.device);
            parameters.iface_addr = as<uct_iface_addr_t>(theirs.iface);
        }
        return created<rwapi::Endpoint>("uct_ep_create", uct_ep_create, &parameters);
    }
    static UctAddress address_of(const rwapi::Endpoint& endpoint) {
        UctAddress address = {};
        check("uct_ep_get_address", uct_ep_get_address(endpoint.get(), as<uct_ep_addr_t>(address)));
        return address;
    }
    static void connect(const rwapi::Endpoint& endpoint, Addresses theirs, UctAddress other) {
        check("uct_ep_connect_to_ep",
              uct_ep_connect_to_ep(endpoint.get(), as<uct_device_addr_t>(theirs.device),
                                   as<uct_ep_addr_t>(other)));
    }

  private:
    rwapi::Resource resource_;
    rwapi::Async async_;
    rwapi::Worker worker_;
    rwapi::WorkerProgress worker_progress_;
    rwapi::Domain domain_;
    rwapi::Interface iface_;
    uct_iface_attr_t attributes_ = {};
};

}  // namespace bench
