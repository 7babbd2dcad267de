// SPDX-License-Identifier: BSD-3-Clause
#include "uct_node.h"

#include <cstring>
#include <span>
#include <vector>

#include "counted.h"

namespace instructions {
namespace {

constexpr const char* kTransport = "tern";
constexpr uint8_t kId = 0;
constexpr uint64_t kHeader = 8;

void check(ucs_status_t status, const char* what) {
    if (status != UCS_OK) fail(std::string(what) + ": " + ucs_status_string(status));
}

// Whether the transport is offered in the memory domain; `device` gets the name of its device.
bool offers(uct_md_h md, std::string& device) {
    uct_tl_resource_desc_t* list;
    unsigned count;
    if (uct_md_query_tl_resources(md, &list, &count) != UCS_OK) return false;
    bool found = false;
    for (const uct_tl_resource_desc_t& resource : std::span(list, count)) {
        if (std::strcmp(resource.tl_name, kTransport) != 0) continue;
        device = resource.dev_name;
        found = true;
    }
    uct_release_tl_resource_list(list);
    return found;
}

// The memory domain of the component that offers the transport, or null.
uct_md_h open_md(uct_component_h component, std::string& device) {
    uct_component_attr_t attr{};
    attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
    check(uct_component_query(component, &attr), "uct_component_query");
    std::vector<uct_md_resource_desc_t> domains(attr.md_resource_count);
    attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
    attr.md_resources = domains.data();
    check(uct_component_query(component, &attr), "uct_component_query");
    for (const uct_md_resource_desc_t& domain : domains) {
        uct_md_config_t* config;
        check(uct_md_config_read(component, nullptr, nullptr, &config), "uct_md_config_read");
        uct_md_h md = nullptr;
        const ucs_status_t status = uct_md_open(component, domain.md_name, config, &md);
        uct_config_release(config);
        if (status != UCS_OK) continue;
        if (offers(md, device)) return md;
        uct_md_close(md);
    }
    return nullptr;
}

}  // namespace

UctNode::UctNode() {
    uct_component_h* list;
    unsigned count;
    check(uct_query_components(&list, &count), "uct_query_components");
    std::string device;
    for (unsigned i = 0; i < count && md_ == nullptr; ++i) {
        component_ = list[i];
        md_ = open_md(component_, device);
    }
    uct_release_component_list(list);
    if (md_ == nullptr) fail("no device has the transport");

    check(ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK, &async_),
          "ucs_async_context_create");
    check(uct_worker_create(async_, UCS_THREAD_MODE_SINGLE, &worker_), "uct_worker_create");
    uct_iface_config_t* config;
    check(uct_md_iface_config_read(md_, kTransport, nullptr, nullptr, &config),
          "uct_md_iface_config_read");
    uct_iface_params_t params{};
    params.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE;
    params.open_mode = UCT_IFACE_OPEN_MODE_DEVICE;
    params.mode.device.tl_name = kTransport;
    params.mode.device.dev_name = device.c_str();
    check(uct_iface_open(md_, worker_, &params, config, &iface_), "uct_iface_open");
    uct_config_release(config);
    const auto count_message = [](void* received, void*, size_t, unsigned) {
        ++*static_cast<unsigned*>(received);
        return UCS_OK;
    };
    check(uct_iface_set_am_handler(iface_, kId, count_message, &received_, 0),
          "uct_iface_set_am_handler");
    uct_iface_progress_enable(iface_, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    completion_.func = [](uct_completion_t*) {};
}

UctNode::~UctNode() {
    if (ep_ != nullptr) uct_ep_destroy(ep_);
    if (key_.rkey != 0) uct_rkey_release(component_, &key_);
    uct_iface_close(iface_);
    if (memory_ != nullptr) uct_md_mem_dereg(md_, memory_);
    uct_worker_destroy(worker_);
    ucs_async_context_destroy(async_);
    uct_md_close(md_);
}

void UctNode::connect(const UctNode& peer) {
    std::array<uint64_t, 16> device, iface;
    auto* const device_address = reinterpret_cast<uct_device_addr_t*>(device.data());
    auto* const iface_address = reinterpret_cast<uct_iface_addr_t*>(iface.data());
    check(uct_iface_get_device_address(peer.iface_, device_address),
          "uct_iface_get_device_address");
    check(uct_iface_get_address(peer.iface_, iface_address), "uct_iface_get_address");
    uct_ep_params_t params{};
    params.field_mask =
        UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR | UCT_EP_PARAM_FIELD_IFACE_ADDR;
    params.iface = iface_;
    params.dev_addr = device_address;
    params.iface_addr = iface_address;
    check(uct_ep_create(&params, &ep_), "uct_ep_create");
}

void UctNode::send(unsigned further) {
    static const std::array<char, 64> payload{};
    check(uct_ep_am_short(ep_, kId, kHeader, payload.data(), further), "uct_ep_am_short");
}

void UctNode::send_packed(size_t bytes) {
    const auto pack = [](void* to, void* size) {
        memset(to, 0, *static_cast<size_t*>(size));
        return *static_cast<size_t*>(size);
    };
    const ssize_t sent = uct_ep_am_bcopy(ep_, kId, pack, &bytes, 0);
    require(sent == static_cast<ssize_t>(bytes), "uct_ep_am_bcopy");
}

void UctNode::share(UctNode& peer) {
    if (memory_ == nullptr)
        check(uct_md_mem_reg(md_, &word_, sizeof(word_), UCT_MD_MEM_ACCESS_ALL, &memory_),
              "uct_md_mem_reg");
    std::array<uint64_t, 32> key;
    check(uct_md_mkey_pack(md_, memory_, key.data()), "uct_md_mkey_pack");
    check(uct_rkey_unpack(peer.component_, key.data(), &peer.key_), "uct_rkey_unpack");
    peer.there_ = reinterpret_cast<uint64_t>(&word_);
}

void UctNode::add() {
    ++completion_.count;
    const ucs_status_t status =
        uct_ep_atomic64_fetch(ep_, UCT_ATOMIC_OP_ADD, 1, &old_, there_, key_.rkey, &completion_);
    if (status != UCS_INPROGRESS) check(status, "uct_ep_atomic64_fetch");
}

bool UctNode::try_send() {
    const ucs_status_t status = uct_ep_am_short(ep_, kId, kHeader, nullptr, 0);
    if (status != UCS_ERR_NO_RESOURCE) check(status, "uct_ep_am_short");
    return status == UCS_OK;
}

}  // namespace instructions
