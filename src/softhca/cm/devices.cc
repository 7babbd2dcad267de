// SPDX-License-Identifier: BSD-3-Clause
// Devices as rdma_cm opens them: each once, with a protection domain for who does not bring one.
#include <fcntl.h>

#include <cstdlib>
#include <mutex>

#include "softhca/cm/address.h"
#include "softhca/verbs/process_adapter.h"

namespace softhca::cm {

namespace {

struct OpenDevice {
    ibv_context* context = nullptr;
    ibv_pd* pd = nullptr;
    ibv_xrcd* xrcd = nullptr;
};

struct Devices {
    std::mutex mutex;
    OpenDevice open[kMaxDevices];
};

// Never destroyed: identifiers refer to the devices while the process exits.
Devices& devices() {
    static auto* instance = new Devices;
    return *instance;
}

ibv_context* open_by_index(uint32_t index) {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    if (list == nullptr) return nullptr;
    ibv_context* context = nullptr;
    if (index < static_cast<uint32_t>(count))
        context = ibv_open_device(list[index]);
    else
        set_error(ENODEV);
    ibv_free_device_list(list);
    return context;
}

}  // namespace

ibv_context* open_device(uint32_t device) {
    const std::lock_guard lock(devices().mutex);
    OpenDevice& entry = devices().open[device];
    if (entry.context == nullptr) entry.context = open_by_index(device);
    return entry.context;
}

ibv_pd* default_pd(uint32_t device) {
    const std::lock_guard lock(devices().mutex);
    OpenDevice& entry = devices().open[device];
    if (entry.pd == nullptr) entry.pd = ibv_alloc_pd(entry.context);
    return entry.pd;
}

ibv_xrcd* default_xrcd(ibv_context* context) {
    const std::lock_guard lock(devices().mutex);
    OpenDevice& entry = devices().open[Context::of(context)->device->index];
    if (entry.xrcd == nullptr) {
        ibv_xrcd_init_attr attributes{};
        attributes.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
        attributes.fd = -1;
        attributes.oflags = O_CREAT;
        entry.xrcd = ibv_open_xrcd(context, &attributes);
    }
    return entry.xrcd;
}

void forget_devices() {
    for (OpenDevice& entry : devices().open) entry = {};
}

SOFTHCA_EXPORT ibv_context** rdma_get_devices(int* count) {
    const uint32_t devices = adapter() == nullptr ? 0 : adapter()->host().header().config.devices;
    auto** list = static_cast<ibv_context**>(std::calloc(devices + 1, sizeof(ibv_context*)));
    if (list == nullptr) return fail(ENOMEM);
    for (uint32_t i = 0; i < devices; ++i) {
        list[i] = open_device(i);
        if (list[i] == nullptr) {
            std::free(list);
            return nullptr;
        }
    }
    if (devices == 0) {
        std::free(list);
        return fail(ENODEV);
    }
    if (count != nullptr) *count = static_cast<int>(devices);
    return list;
}

SOFTHCA_EXPORT void rdma_free_devices(ibv_context** list) {
    std::free(list);
}

}  // namespace softhca::cm
