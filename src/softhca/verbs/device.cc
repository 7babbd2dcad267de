// SPDX-License-Identifier: BSD-3-Clause
// The device list, and opening and closing devices.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "softhca/verbs/address.h"
#include "softhca/verbs/limits.h"
#include "softhca/verbs/operations.h"
#include "softhca/verbs/process_adapter.h"

namespace softhca {

namespace {

Device* make_device(uint32_t index) {
    auto* device = new Device;
    device->index = index;
    device->ibv.node_type = IBV_NODE_CA;
    device->ibv.transport_type = IBV_TRANSPORT_IB;
    std::snprintf(device->ibv.name, sizeof device->ibv.name, "softhca%u", index);
    std::snprintf(device->ibv.dev_name, sizeof device->ibv.dev_name, "softhca-uverbs%u", index);
    std::snprintf(device->ibv.dev_path, sizeof device->ibv.dev_path,
                  "/sys/class/infiniband_verbs/softhca-uverbs%u", index);
    std::snprintf(device->ibv.ibdev_path, sizeof device->ibv.ibdev_path,
                  "/sys/class/infiniband/softhca%u", index);
    return device;
}

// Devices are created once and never destroyed, so that pointers to them stay valid.
Device* device_at(uint32_t index) {
    static Device* const* devices = [] {
        static Device* made[kMaxDevices];
        for (uint32_t i = 0; i < kMaxDevices; ++i) made[i] = make_device(i);
        return made;
    }();
    return devices[index];
}

}  // namespace

SOFTHCA_EXPORT ibv_device** ibv_get_device_list(int* num_devices) try {
    const uint32_t count = device_count();
    auto** list = static_cast<ibv_device**>(std::calloc(count + 1, sizeof(void*)));
    if (list == nullptr) return fail(ENOMEM);
    for (uint32_t i = 0; i < count; ++i) list[i] = &device_at(i)->ibv;
    if (num_devices != nullptr) *num_devices = static_cast<int>(count);
    return list;
} catch (const std::bad_alloc&) {
    return fail(ENOMEM);
}

SOFTHCA_EXPORT void ibv_free_device_list(ibv_device** list) {
    std::free(list);
}

SOFTHCA_EXPORT const char* ibv_get_device_name(ibv_device* device) {
    return device->name;
}

SOFTHCA_EXPORT __be64 ibv_get_device_guid(ibv_device* device) {
    return port_guid(object_of<Device>(device)->index * kMaxPorts);
}

SOFTHCA_EXPORT int ibv_get_device_index(ibv_device* device) {
    return static_cast<int>(object_of<Device>(device)->index);
}

SOFTHCA_EXPORT ibv_context* ibv_open_device(ibv_device* device) try {
    Adapter* device_adapter = adapter();
    if (device_adapter == nullptr) return fail(ENODEV);
    auto* context = new Context;
    context->adapter = device_adapter;
    context->device = object_of<Device>(device);
    if (context->async_events.fd() < 0) {
        set_error(EMFILE);
        delete context;
        return nullptr;
    }
    fill_operations(context->verbs, device_adapter->host().personality());
    ibv_context* ibv = context->ibv();
    ibv->device = device;
    ibv->cmd_fd =
        ::open("/dev/null", O_RDWR | O_CLOEXEC);  // some programs duplicate the descriptor
    ibv->async_fd = context->async_events.fd();
    ibv->num_comp_vectors = limits::kCompletionVectors;
    pthread_mutex_init(&ibv->mutex, nullptr);
    ibv->abi_compat = __VERBS_ABI_IS_EXTENDED;
    add_context(context);
    return ibv;
} catch (const std::bad_alloc&) {
    return fail(ENOMEM);
}

// Drivers close a device that still has objects, and programs rely on it. The objects' events and
// destruction need the context, so the last object frees it. A child cannot destroy what it
// inherited, and so keeps the context.
SOFTHCA_EXPORT int ibv_close_device(ibv_context* ibv) {
    release(Context::of(ibv));
    return 0;
}

SOFTHCA_EXPORT ibv_context* ibv_import_device(int) {
    return fail(EOPNOTSUPP);
}

SOFTHCA_EXPORT ibv_pd* ibv_import_pd(ibv_context*, uint32_t) {
    return fail(EOPNOTSUPP);
}

SOFTHCA_EXPORT void ibv_unimport_pd(ibv_pd*) {}

SOFTHCA_EXPORT ibv_mr* ibv_import_mr(ibv_pd*, uint32_t) {
    return fail(EOPNOTSUPP);
}

SOFTHCA_EXPORT void ibv_unimport_mr(ibv_mr*) {}

// fork() is safe unless the personality says otherwise: no memory is pinned, and the child's copies
// of objects have no effect.
SOFTHCA_EXPORT int ibv_fork_init(void) {
    return protect_forks();
}
SOFTHCA_EXPORT ibv_fork_status ibv_is_fork_initialized(void) {
    return fork_protection();
}

}  // namespace softhca
