// SPDX-License-Identifier: BSD-3-Clause
#include "uct/md.h"

#include <sys/resource.h>

#include <cerrno>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "fastpath/engine.h"
#include "uct/compat.h"
#include "verbs/memory.h"

namespace tern {

namespace {

// What registration takes on InfiniBand HCAs: seconds, and seconds per byte.
constexpr double kRegisterCost = 16e-6;
constexpr double kRegisterCostPerByte = 0.06e-9;

void md_close(uct_md_h md) {
    delete &memory_domain(md);
}

template <typename Attributes>
ucs_status_t md_query(uct_md_h, Attributes* attributes) {
    compat::clear(attributes);
    auto& capabilities = compat::capabilities(attributes);
    capabilities.flags = UCT_MD_FLAG_REG | UCT_MD_FLAG_NEED_MEMH | UCT_MD_FLAG_NEED_RKEY;
    capabilities.reg_mem_types = UCS_BIT(UCS_MEMORY_TYPE_HOST);
    capabilities.access_mem_types = UCS_BIT(UCS_MEMORY_TYPE_HOST);
    TERN_SET_IF_PRESENT(capabilities, cache_mem_types, UCS_BIT(UCS_MEMORY_TYPE_HOST));
    capabilities.max_reg = ULONG_MAX;
    attributes->rkey_packed_size = sizeof(uint32_t);
    attributes->reg_cost = ucs_linear_func_make(kRegisterCost, kRegisterCostPerByte);
    return UCS_OK;
}

template <typename Flags>
ucs_status_t mem_reg(uct_md_h md, void* address, size_t length, Flags flags, uct_mem_h* memh) {
    ibv_mr* region =
        ibv_reg_mr(memory_domain(md).device.pd.get(), address, length,
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    if (region == nullptr) {
        const int error = errno;
        const std::string device = memory_domain(md).device.name();
        // Who wants to know has another way. UCP's rendezvous has none, and would end the program.
        const bool asks = (compat::registration_flags(flags) & UCT_MD_MEM_FLAG_HIDE_ERRORS) != 0;
        if (error == ENOMEM && !asks) {
            static std::once_flag told;
            std::call_once(told, [&] {
                ucs_warn(
                    "tern: %s cannot register %zu bytes: messages are copied; raise the limit "
                    "of locked memory (ulimit -l)",
                    device.c_str(), length);
            });
            *memh = &not_pinned;
            return UCS_OK;
        }
        ucs_log(asks ? UCS_LOG_LEVEL_DEBUG : UCS_LOG_LEVEL_ERROR,
                "tern: %s cannot register %zu bytes at %p: %s", device.c_str(), length, address,
                strerror(error));
        return error == ENOMEM ? UCS_ERR_NO_MEMORY : UCS_ERR_IO_ERROR;
    }
    *memh = region;
    return UCS_OK;
}

ucs_status_t mem_dereg(uct_md_h, const uct_md_mem_dereg_params_t* params) {
    UCT_MD_MEM_DEREG_CHECK_PARAMS(params, 0);
    if (params->memh == &not_pinned) return UCS_OK;
    const int error = ibv_dereg_mr(static_cast<ibv_mr*>(params->memh));
    if (error == 0) return UCS_OK;
    ucs_error("tern: cannot deregister memory: %s", strerror(error));
    return UCS_ERR_IO_ERROR;
}

template <typename... More>
ucs_status_t mkey_pack(uct_md_h, uct_mem_h memh, More... more) {
    if (memh == &not_pinned) {
        ucs_error(
            "tern: nobody can be given access to memory that could not be registered; raise "
            "the limit of locked memory (ulimit -l)");
        return UCS_ERR_NO_MEMORY;
    }
    void* buffer = compat::from_end<0>(more...);
    memcpy(buffer, &static_cast<ibv_mr*>(memh)->rkey, sizeof(uint32_t));
    return UCS_OK;
}

constinit uct_md_ops_t md_ops = compat::with_new_members({
    .close = md_close,
    .query = md_query,
    .mem_alloc = stub<UCS_ERR_UNSUPPORTED>,
    .mem_free = stub<UCS_ERR_UNSUPPORTED>,
    .mem_advise = stub<UCS_ERR_UNSUPPORTED>,
    .mem_reg = mem_reg,
    .mem_dereg = mem_dereg,
    .mem_query = stub<UCS_ERR_UNSUPPORTED>,
    .mkey_pack = mkey_pack,
    .detect_memory_type = stub<UCS_ERR_UNSUPPORTED>,
});

// Whether the user may lock what an interface needs at least.
bool may_lock(const verbs::Device& device) {
    rlimit limit{};
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY) return true;
    if (verbs::RegisteredMemory(device.pd.get(), Engine::kLeastMemory, IBV_ACCESS_LOCAL_WRITE))
        return true;
    if (errno != ENOMEM) return true;  // opening will tell
    static std::once_flag told;
    std::call_once(told, [&] {
        ucs_warn(
            "tern: %s is not used: not even %zu KiB can be registered; raise the limit of "
            "locked memory (ulimit -l)",
            device.name().c_str(), Engine::kLeastMemory / 1024);
    });
    return false;
}

}  // namespace

ucs_status_t query_md_resources(uct_component_t*, uct_md_resource_desc_t** resources,
                                unsigned* count) {
    std::vector<std::string> names;
    for (const std::string& name : verbs::device_names()) {
        const auto device = verbs::open_device(name);
        if (!device) {
            ucs_diag("tern: %s is not used: cannot open it: %s", name.c_str(), strerror(errno));
            continue;
        }
        if (!device->active_ports().empty())
            names.push_back(name);
        else
            ucs_diag("tern: %s is not used: port 1: %s", name.c_str(), device->unusable(1).c_str());
    }
    if (names.empty()) return uct_md_query_empty_md_resource(resources, count);
    auto* list = static_cast<uct_md_resource_desc_t*>(
        ucs_calloc(names.size(), sizeof(**resources), "tern md"));
    if (list == nullptr) return UCS_ERR_NO_MEMORY;
    for (size_t i = 0; i < names.size(); ++i)
        ucs_snprintf_zero(list[i].md_name, sizeof(list[i].md_name), "%s", names[i].c_str());
    *resources = list;
    *count = static_cast<unsigned>(names.size());
    return UCS_OK;
}

ucs_status_t md_open(uct_component_t* component, const char* name, const uct_md_config_t*,
                     uct_md_h* md) {
    auto device = verbs::open_device(name);
    if (!device) {
        ucs_error("tern: cannot open %s: %s", name, strerror(errno));
        return UCS_ERR_NO_DEVICE;
    }
    auto* domain = new (std::nothrow) MemoryDomain{.super = {}, .device = std::move(*device)};
    if (domain == nullptr) return UCS_ERR_NO_MEMORY;
    domain->super.ops = &md_ops;
    domain->super.component = component;
    *md = &domain->super;
    return UCS_OK;
}

ucs_status_t query_ports(uct_md_h md, uct_tl_device_resource_t** ports, unsigned* count) {
    const verbs::Device& device = memory_domain(md).device;
    std::vector<uint8_t> active = device.active_ports();
    if (!may_lock(device)) active.clear();
    auto* list = static_cast<uct_tl_device_resource_t*>(
        ucs_calloc(active.size(), sizeof(**ports), "tern ports"));
    if (list == nullptr && !active.empty()) return UCS_ERR_NO_MEMORY;
    for (size_t i = 0; i < active.size(); ++i) {
        ucs_snprintf_zero(list[i].name, sizeof(list[i].name), "%s:%u", device.name().c_str(),
                          unsigned{active[i]});
        list[i].type = UCT_DEVICE_TYPE_NET;
        list[i].sys_device = UCS_SYS_DEVICE_ID_UNKNOWN;
    }
    *ports = list;
    *count = static_cast<unsigned>(active.size());
    return UCS_OK;
}

}  // namespace tern
