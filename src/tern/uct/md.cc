// SPDX-License-Identifier: BSD-3-Clause
#include "tern/uct/md.h"

#include <sys/resource.h>

#include <cerrno>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "tern/base/trace.h"
#include "tern/base/tunables.h"
#include "tern/engine/engine.h"
#include "tern/rendezvous/cost_model.h"
#include "tern/uct/compat.h"
#include "tern/uct/device_memory.h"
#include "tern/uct/explain.h"
#include "tern/uct/iface.h"
#include "tern/uct/key_owner.h"
#include "tern/verbs/memory.h"

namespace tern {

namespace {

// Seconds that UCP needs to declare the memory of an operation, of any size: 60 ns in the
// transport, the rest in UCP. UCX's own transports report the same for a cached registration.
constexpr double kDeclareCost = 180e-9;

void md_close(uct_md_h md) {
    MemoryDomain& domain = memory_domain(md);
    if (!domain.fork.inherited())
        domain.regions.for_each_attachment(
            [](void* handle) { delete static_cast<MemoryHandle*>(handle); });
    delete &domain;
}

template <typename Attributes>
ucs_status_t md_query(uct_md_h md, Attributes* attributes) {
    compat::clear(attributes);
    auto& capabilities = compat::capabilities(attributes);
    const bool dma_buffers = compat::kDmaBuffers != 0 && memory_domain(md).dma_buffers;
    capabilities.flags = (dma_buffers ? compat::kDmaBuffers : 0) | UCT_MD_FLAG_REG |
                         UCT_MD_FLAG_NEED_MEMH | UCT_MD_FLAG_NEED_RKEY | UCT_MD_FLAG_ADVISE |
                         compat::kInvalidation;
    capabilities.reg_mem_types = UCS_BIT(UCS_MEMORY_TYPE_HOST);
    capabilities.access_mem_types = UCS_BIT(UCS_MEMORY_TYPE_HOST);
    // UCX's cache ends a registration when the memory is freed, which also goes for a GPU's.
    const uint64_t cached = dma_buffers ? UINT64_MAX : UCS_BIT(UCS_MEMORY_TYPE_HOST);
    TERN_SET_IF_PRESENT(capabilities, cache_mem_types, cached);
    capabilities.max_reg = ULONG_MAX;
    // Nothing is allocated; UCX's tests take this value for the largest sensible buffer.
    capabilities.max_alloc = ULONG_MAX;
    attributes->rkey_packed_size = sizeof(PackedKey);
    attributes->reg_cost = ucs_linear_func_make(kDeclareCost, 0);
    return UCS_OK;
}

unsigned access_of(unsigned flags) {
    const auto right = [flags](unsigned flag, Access access) {
        return (flags & flag) != 0 ? unsigned{access} : 0u;
    };
    return right(UCT_MD_MEM_ACCESS_LOCAL_READ, kLocalRead) |
           right(UCT_MD_MEM_ACCESS_LOCAL_WRITE, kLocalWrite) |
           right(UCT_MD_MEM_ACCESS_REMOTE_GET, kRemoteGet) |
           right(UCT_MD_MEM_ACCESS_REMOTE_PUT, kRemotePut) |
           right(UCT_MD_MEM_ACCESS_REMOTE_ATOMIC, kRemoteAtomic);
}

// UCP's registration cache returns memory that was declared for one purpose for others too, without
// regard to rights. All memory is therefore declared with the rights to put and get; a peer can use
// them only with a key.
constexpr unsigned kRightsOfKeys = kRemoteGet | kRemotePut;

// Makes no system call: memory is pinned when a transfer needs it. Only a DMA buffer is registered
// at once.
template <typename Flags>
ucs_status_t mem_reg(uct_md_h md, void* address, size_t length, Flags flags, uct_mem_h* memh) try {
    const unsigned access = access_of(compat::registration_flags(flags)) | kRightsOfKeys;
    if (const compat::DmaBuffer buffer = compat::dma_buffer(flags); buffer.fd >= 0) [[unlikely]]
        return register_device_memory(memory_domain(md), address, length, access, buffer, memh);
    MemoryHandle* const handle = declare(memory_domain(md), address, length, access);
    if (handle == nullptr) return UCS_ERR_NO_MEMORY;
    *memh = handle;
    TERN_TRACE("memory %p: %zu bytes at %p are declared", static_cast<void*>(handle), length,
               address);
    return UCS_OK;
} catch (const std::bad_alloc&) {
    return no_memory("declare memory");
}

// Like mem_reg, on machines with a GPU: refuses memory that the processor cannot access, unless it
// comes as a DMA buffer, because Tern reads and writes other memory by the processor. UCP does not
// come here with such memory, unless UCX_TLS lacks the transports that detect it. The reason is
// logged once, even if the caller hides errors, because the program ends by this one.
template <typename Flags>
ucs_status_t mem_reg_with_gpu(uct_md_h md, void* address, size_t length, Flags flags,
                              uct_mem_h* memh) {
    MemoryTypes& types = memory_domain(md).types;
    const char* const type = types.inaccessible(address, length);
    const compat::DmaBuffer buffer = compat::dma_buffer(flags);
    if (type == nullptr || buffer.fd >= 0) [[likely]]
        return mem_reg(md, address, length, flags, memh);
    const bool hidden = (compat::registration_flags(flags) & UCT_MD_MEM_FLAG_HIDE_ERRORS) != 0;
    const bool told = types.first_refusal() || !hidden;
    const ucs_log_level_t level = told ? UCS_LOG_LEVEL_ERROR : UCS_LOG_LEVEL_DEBUG;
    const std::string device = memory_domain(md).device.name();
    if (buffer.asked)
        ucs_log(level,
                "tern: %s: %p is memory of a GPU (%s), whose driver gives UCX no DMA buffer for "
                "it: set UCX_TERN_DMA_BUFFERS=n, so that UCX copies it",
                device.c_str(), address, type);
    else
        ucs_log(level,
                "tern: %s: %p is memory of a GPU (%s), which Tern cannot access: leave the "
                "transports of the GPU in UCX_TLS, as tern-run does (for example "
                "UCX_TLS=tern,self,%s), so that UCX copies it, or hands Tern its DMA buffer",
                device.c_str(), address, type, strncmp(type, "ze-", 3) == 0 ? "ze" : type);
    return UCS_ERR_INVALID_ADDR;
}

// When this returns, transfers that use the memory have ended, but the device may still read it,
// and keys of the memory are invalid. With UCT_MD_MEM_DEREG_FLAG_INVALIDATE the device's reads have
// ended too, and no part of the memory stays pinned for peers, not even for those that violate the
// protocol.
ucs_status_t mem_dereg(uct_md_h md, const uct_md_mem_dereg_params_t* params) {
    UCT_MD_MEM_DEREG_CHECK_PARAMS(params, 1);
    auto* const handle = static_cast<MemoryHandle*>(params->memh);
    MemoryDomain& domain = memory_domain(md);
    const Region& region = *handle->region;
    const auto* start = reinterpret_cast<const std::byte*>(region.address());
    const std::byte* end = start + region.length();
    const bool invalidate = (UCT_MD_MEM_DEREG_FIELD_VALUE(params, flags, FIELD_FLAGS, 0) &
                             UCT_MD_MEM_DEREG_FLAG_INVALIDATE) != 0;
    TERN_TRACE("memory %p: the declaration ends%s", static_cast<void*>(handle),
               invalidate ? ", and is invalidated" : "");
    // Another thread may declare a region in this slot as soon as this one is undeclared.
    std::unique_ptr<MemoryHandle> own;
    if (!handle->is_as_new()) {
        handle->region->attach(nullptr);
        own.reset(handle);
    }
    (void)domain.regions.undeclare(handle->region, invalidate);
    // First, so that the last release of a lent pin deregisters it.
    if (invalidate) domain.pins->invalidate(start, end);
    if (own) take_back(domain, *own);
    if (own && own->of_device != nullptr) domain.pins->retire(own->of_device);
    if (!invalidate) return UCS_OK;
    if (own) own->close();
    uct_invoke_completion(params->comp, UCS_OK);
    return UCS_OK;
}

// Pins the memory now. The pin stays like that of a transfer: until its room is needed.
ucs_status_t mem_advise(uct_md_h md, uct_mem_h memh, void* address, size_t length,
                        unsigned advice) try {
    if (advice != UCT_MADV_WILLNEED) return UCS_ERR_UNSUPPORTED;
    const Region& region = *static_cast<const MemoryHandle*>(memh)->region;
    if (!covers(region, reinterpret_cast<uint64_t>(address), length, 0))
        return UCS_ERR_INVALID_PARAM;
    PinCache& pins = *memory_domain(md).pins;
    Pin* pin = pins.pin(address, length, region.access());
    if (pin == nullptr) return errno == ENOMEM ? UCS_ERR_NO_MEMORY : UCS_ERR_INVALID_PARAM;
    pins.release(pin);
    return UCS_OK;
} catch (const std::bad_alloc&) {
    return no_memory("pin memory");
}

// `more`: the memory that the key is for (in newer versions), parameters, and the key.
template <typename... More>
ucs_status_t mkey_pack(uct_md_h md, uct_mem_h memh, More... more) try {
    auto& handle = *static_cast<MemoryHandle*>(memh);
    MemoryDomain& domain = memory_domain(md);
    KeyOwner owner = KeyOwner::kProgram;
    if (!domain.opens_all_keys)
        owner =
            compat::kAtomicRightMarksProgramMemory
                ? owner_by_rights(handle.region->access())
                : owner_by_place(packer, compat::from_end<0>(more...), __builtin_frame_address(0),
                                 compat::named_memory(more...).first);
    if (owner == KeyOwner::kProgram) {
        handle.published.store(true, std::memory_order_relaxed);  // pack_key() releases it
        open_memory(domain, handle);
    }
    const auto [address, length] = compat::memory_of_key(*handle.region, more...);
    TERN_TRACE("memory %p: %s packs a key%s", static_cast<void*>(&handle),
               owner == KeyOwner::kProgram ? "the program" : "UCP",
               domain.opens_all_keys ? " (OPEN_ALL_KEYS: every key counts as the program's)" : "");
    packed_keys.last = pack_key(domain, handle, address, length);
    ++packed_keys.count;
    memcpy(compat::from_end<0>(more...), &packed_keys.last.key, sizeof(PackedKey));
    return UCS_OK;
} catch (const std::bad_alloc&) {
    return no_memory("pack a key");
}

constexpr uct_md_ops_t kOperations = compat::with_new_members({
    .close = md_close,
    .query = md_query,
    .mem_alloc = stub<UCS_ERR_UNSUPPORTED>,
    .mem_free = stub<UCS_ERR_UNSUPPORTED>,
    .mem_advise = mem_advise,
    .mem_reg = mem_reg,
    .mem_dereg = mem_dereg,
    .mem_query = stub<UCS_ERR_UNSUPPORTED>,
    .mkey_pack = mkey_pack,
    .detect_memory_type = stub<UCS_ERR_UNSUPPORTED>,
});

constexpr uct_md_ops_t with_gpu(uct_md_ops_t operations) {
    operations.mem_reg = mem_reg_with_gpu;
    return operations;
}

constinit auto md_ops = compat::padded(kOperations);
constinit auto md_ops_with_gpu = compat::padded(with_gpu(kOperations));

// Whether the user may lock the least memory that an interface needs. Warns once if not.
bool can_lock_memory(const verbs::Device& device) {
    rlimit limit{};
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY) return true;
    if (verbs::RegisteredMemory(device.pd.get(), Engine::kLeastMemory, IBV_ACCESS_LOCAL_WRITE))
        return true;
    if (errno != ENOMEM) return true;  // opening an interface reports other errors
    static std::once_flag told;
    std::call_once(told, [&] {
        const std::string why =
            "not even " + std::to_string(Engine::kLeastMemory / 1024) + " KiB can be registered";
        ucs_warn("tern: %s is not used: %s; %s", device.name().c_str(), why.c_str(),
                 kRemedyOfMemory);
        note_unused({.what = device.name(), .why = why, .remedy = kRemedyOfMemory});
    });
    return false;
}

// The place of the device on the machine's buses, from which UCX derives distances.
ucs_sys_device_t system_device(const verbs::Device& device) {
    const std::string bus = verbs::bus_address(device.context->device->ibdev_path);
    ucs_sys_device_t place = UCS_SYS_DEVICE_ID_UNKNOWN;
    if (bus.empty() || ucs_topo_find_device_by_bdf_name(bus.c_str(), &place) != UCS_OK)
        return UCS_SYS_DEVICE_ID_UNKNOWN;
    compat::name_system_device(place, device.name().c_str());
    return place;
}

// Must come before the process's first registration. False: it is not possible, and `wanted`.
bool init_fork(int wanted) {
    if (wanted == UCS_NO) return true;
    const int error = ibv_fork_init();
    if (error == 0) return true;
    if (wanted != UCS_YES) {
        ucs_debug("tern: ibv_fork_init: %s; children of fork() may disturb transfers",
                  strerror(error));
        return true;
    }
    ucs_error("tern: ibv_fork_init: %s: set UCX_TERN_FORK_INIT=try or n, or open Tern first",
              strerror(error));
    return false;
}

void open_pins(MemoryDomain& domain, PinSettings settings) {
    const MonitorKind wanted = settings.monitor;
    ibv_pd* pd = domain.device.pd.get();
    settings.has_hooks = wanted == MonitorKind::kAuto || wanted == MonitorKind::kUcm;
    settings.hooks_see_all = MemoryEvents::of_all();
    settings.warn = [device = domain.device.name()](const std::string& line) {
        ucs_warn("tern: %s: %s", device.c_str(), line.c_str());
    };
    domain.pins = std::make_unique<PinCache>(pd, settings);
    if (settings.has_hooks && domain.pins->monitor() != MonitorKind::kOdp) {
        domain.events = std::make_unique<MemoryEvents>(*domain.pins);
        if (!*domain.events) {
            settings.has_hooks = false;
            domain.events.reset();
            domain.pins = std::make_unique<PinCache>(pd, settings);
        }
    }
    if (domain.pins->monitor() != wanted && wanted != MonitorKind::kAuto)
        ucs_warn("tern: %s: UCX_TERN_PIN_MONITOR=%s is not available: using %s",
                 domain.device.name().c_str(), monitor_name(wanted),
                 monitor_name(domain.pins->monitor()));
}

}  // namespace

ucs_status_t query_md_resources(uct_component_t*, uct_md_resource_desc_t** resources,
                                unsigned* count) try {
    report_ucp_plugin();
    std::vector<std::string> names;
    for (const std::string& name : verbs::device_names()) {
        const auto device = verbs::open_device(name);
        if (!device) {
            const std::string why = std::string("it cannot be opened: ") + strerror(errno);
            ucs_diag("tern: %s is not used: %s", name.c_str(), why.c_str());
            note_unused({.what = name, .why = why, .remedy = kRemedyOfAccess});
            continue;
        }
        if (!device->active_ports().empty()) {
            names.push_back(name);
            continue;
        }
        const auto trouble = device->unusable(1);
        ucs_diag("tern: %s is not used: port 1: %s", name.c_str(), trouble.why.c_str());
        note_unused({.what = name + ":1", .why = trouble.why, .remedy = advice(trouble.remedy)});
    }
    ExplainRecord("devices")
        .add("count", names.size())
        .add("program", program_invocation_short_name)
        .add_variable("tls", "UCX_TLS")
        .add_variable("net_devices", "UCX_NET_DEVICES")
        .write();
    if (names.empty()) return uct_md_query_empty_md_resource(resources, count);
    auto* list = static_cast<uct_md_resource_desc_t*>(
        ucs_calloc(names.size(), sizeof(**resources), "tern md"));
    if (list == nullptr) return UCS_ERR_NO_MEMORY;
    for (size_t i = 0; i < names.size(); ++i)
        ucs_snprintf_zero(list[i].md_name, sizeof(list[i].md_name), "%s", names[i].c_str());
    *resources = list;
    *count = static_cast<unsigned>(names.size());
    return UCS_OK;
} catch (const std::bad_alloc&) {
    return no_memory("list the devices");
}

ucs_config_field_t memory_config_table[] = {
    {"", "", nullptr, offsetof(MemoryConfig, super), UCS_CONFIG_TYPE_TABLE(uct_md_config_table)},
    {"IB_", "", nullptr, offsetof(MemoryConfig, site),
     UCS_CONFIG_TYPE_TABLE(site_memory_config_table)},
#define MEMORY_SETTING(type, member, name, ucx_type, otherwise, range, meaning) \
    {#name, otherwise, meaning, offsetof(MemoryConfig, member), UCS_CONFIG_TYPE_##ucx_type},
#include "tern/uct/settings.def"
    {nullptr, nullptr, nullptr, 0, {}},
};

// Handles that were never packed stay with their slots, because UCX 1.13 declares the memory of
// each put and get.
MemoryHandle* declare(MemoryDomain& domain, void* address, size_t length, unsigned access) {
    Region* const region = domain.regions.declare(address, length, access);
    if (region == nullptr) return nullptr;
    auto* handle = static_cast<MemoryHandle*>(region->attachment());
    if (handle == nullptr) {
        handle = new (std::nothrow) MemoryHandle;
        if (handle == nullptr) {
            (void)domain.regions.undeclare(region);
            return nullptr;
        }
        handle->region = region;
        region->attach(handle);
    }
    return handle;
}

ucs_status_t rkey_release(uct_component_t*, uct_rkey_t, void* handle) {
    delete static_cast<RemoteKey*>(handle);
    return UCS_OK;
}

ucs_status_t md_open(uct_component_t* component, const char* name, const uct_md_config_t* md_config,
                     uct_md_h* md) try {
    const auto& config = *reinterpret_cast<const MemoryConfig*>(md_config);
    if (!init_fork(config.site.fork_init)) return UCS_ERR_UNSUPPORTED;
    auto device = verbs::open_device(name);
    if (!device) {
        ucs_error("tern: cannot open %s: %s", name, strerror(errno));
        return UCS_ERR_NO_DEVICE;
    }
    std::unique_ptr<MemoryDomain> domain(
        new MemoryDomain{.device = std::move(*device),
                         .publishes = config.publish != 0,
                         .opens_all_keys = config.open_all_keys != 0});
    domain->relaxed = relaxes_order(config.site.relaxed_ordering, domain->device);
    domain->dma_buffers = config.dma_buffers != 0 && takes_dma_buffers(domain->device);
    Tunables tunables;
    std::string why;  // the interface says that they are malformed
    (void)read_tunables(tunables, why);
    open_pins(*domain, {.monitor = static_cast<MonitorKind>(config.monitor),
                        .most_bytes = config.pin_most == UCS_MEMUNITS_AUTO ? 0 : config.pin_most,
                        .quarantine = std::chrono::milliseconds(tunables.pin_quarantine),
                        .relaxed = domain->relaxed});
    domain->costs = calibrate(domain->device.pd.get(), *domain->pins);
    TERN_DEBUG("memory domain %s is open: lost pages are noticed by %s", name,
               monitor_name(domain->pins->monitor()));
    domain->super.ops = domain->types.any() ? &md_ops_with_gpu.table : &md_ops.table;
    domain->super.component = component;
    *md = &domain.release()->super;
    return UCS_OK;
} catch (const std::bad_alloc&) {
    return no_memory("open a memory domain");
}

ucs_status_t query_ports(uct_md_h md, uct_tl_device_resource_t** ports, unsigned* count) try {
    const verbs::Device& device = memory_domain(md).device;
    *ports = nullptr;
    *count = 0;
    const std::vector<uint8_t> active = device.active_ports();
    if (!can_lock_memory(device) || active.empty()) return UCS_OK;
    auto* list = static_cast<uct_tl_device_resource_t*>(
        ucs_calloc(active.size(), sizeof(**ports), "tern ports"));
    if (list == nullptr) return UCS_ERR_NO_MEMORY;
    const ucs_sys_device_t place = system_device(device);
    for (size_t i = 0; i < active.size(); ++i) {
        ucs_snprintf_zero(list[i].name, sizeof(list[i].name), "%s:%u", device.name().c_str(),
                          unsigned{active[i]});
        list[i].type = UCT_DEVICE_TYPE_NET;
        list[i].sys_device = place;
    }
    *ports = list;
    *count = static_cast<unsigned>(active.size());
    return UCS_OK;
} catch (const std::bad_alloc&) {
    return no_memory("list the ports");
}

}  // namespace tern
