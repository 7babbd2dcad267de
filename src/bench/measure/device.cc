// SPDX-License-Identifier: BSD-3-Clause
#include "bench/measure/device.h"

#include "bench/measure/failure.h"

namespace bench {
namespace {

struct FreeList {
    void operator()(ibv_device** list) const { ibv_free_device_list(list); }
};
using DeviceList = std::unique_ptr<ibv_device*, FreeList>;

ibv_device* find(const DeviceList& list, const std::string& name) {
    if (!list) return nullptr;
    for (ibv_device** device = list.get(); *device != nullptr; ++device) {
        if (name.empty() || name == ibv_get_device_name(*device)) return *device;
    }
    return nullptr;
}

}  // namespace

std::vector<std::string> device_names() {
    const DeviceList list(ibv_get_device_list(nullptr));
    std::vector<std::string> names;
    for (ibv_device** device = list.get(); device != nullptr && *device != nullptr; ++device) {
        names.emplace_back(ibv_get_device_name(*device));
    }
    return names;
}

bool has_device(const std::string& name) {
    return find(DeviceList(ibv_get_device_list(nullptr)), name) != nullptr;
}

Device::Device(const std::string& name, uint8_t port_number) : port_number_(port_number) {
    const DeviceList list(ibv_get_device_list(nullptr));
    ibv_device* device = find(list, name);
    if (device == nullptr) throw Failure(name.empty() ? "no device" : "no device '" + name + "'");
    context_.reset(ibv_open_device(device));
    if (!context_) throw call_failed("ibv_open_device");
    pd_.reset(ibv_alloc_pd(context_.get()));
    if (!pd_) throw call_failed("ibv_alloc_pd");
    if (ibv_query_port(context_.get(), port_number_, &port_) != 0)
        throw call_failed("ibv_query_port");
    if (port_.state != IBV_PORT_ACTIVE) throw Failure("the port is not active");
}

UniqueMr Device::register_memory(void* data, size_t size) {
    UniqueMr mr(
        ibv_reg_mr(pd(), data, size,
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ));
    if (!mr) throw call_failed("ibv_reg_mr");
    return mr;
}

}  // namespace bench
