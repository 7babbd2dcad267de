// SPDX-License-Identifier: BSD-3-Clause
// A component of UCX that stands for that of a GPU: it detects memory that the processor cannot
// access, and copies it. For tests of Tern on machines without a GPU; loaded by LD_PRELOAD. It has
// the names of UCX's own component for CUDA, which UCP knows as `cuda`. With DMA_BUFFERS in the
// environment, it also hands out DMA buffers of that memory, as memory files.
#include "device_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>

#include "tern/uct/compat.h"

namespace {

using tern::stub;
using tern::void_stub;
namespace compat = tern::compat;

constexpr uint64_t kTypes = UCS_BIT(UCS_MEMORY_TYPE_CUDA) | UCS_BIT(UCS_MEMORY_TYPE_CUDA_MANAGED);
// What UCX's component reports as accessible by its device: since 1.19 also the host's memory.
constexpr uint64_t kAccessed =
    kTypes | (TERN_UCX_SINCE(19) ? uint64_t{UCS_BIT(UCS_MEMORY_TYPE_HOST)} : 0);
void* const kHandle = reinterpret_cast<void*>(0xdeadbeef);  // of all registrations

struct Area {
    std::byte* address;  // as the program has it
    std::byte* device;   // as the copies have it
    size_t length;
    ucs_memory_type_t type;
    int file;
};
std::array<Area, 64> areas;
std::atomic<size_t> area_count;
std::atomic<unsigned long> copies;

bool exports() {
    return getenv("DMA_BUFFERS") != nullptr;
}

const Area* find(const void* address) {
    const auto* at = static_cast<const std::byte*>(address);
    for (size_t i = 0; i < area_count; ++i)
        if (at >= areas[i].address && at < areas[i].address + areas[i].length) return &areas[i];
    return nullptr;
}

void* for_device(const void* address) {
    const Area* area = find(address);
    auto* at = const_cast<std::byte*>(static_cast<const std::byte*>(address));
    return area == nullptr ? at : area->device + (at - area->address);
}

void copy(void* to, const void* from, size_t length) {
    copies.fetch_add(1, std::memory_order_relaxed);
    device_memory_copy(to, from, length);
}

// UCX's cache of memory types learns of new memory by events of the GPU's library; here, by this.
template <typename Type>
void announce(void* address, size_t length, Type type) {
    ucs_memory_info_t info;
    (void)ucs_memtype_cache_lookup(address, length, &info);  // so that there is a cache
    ucs_memory_info_set_host(&info);
    constexpr auto kDevice = UCS_SYS_DEVICE_ID_UNKNOWN;
    [&](auto& host) {
        if constexpr (requires { host.mem_flags; })
            ucs_memtype_cache_update(address, length, type, kDevice, host.mem_flags);
        else
            ucs_memtype_cache_update(address, length, type, kDevice);
    }(info);
}

// --- Memory domain

uct_component_t component = {};

ucs_status_t query_md_resources(uct_component_t* self, uct_md_resource_desc_t** resources,
                                unsigned* count) {
    return uct_md_query_single_md_resource(self, resources, count);
}

template <typename Attributes>
ucs_status_t md_query(uct_md_h, Attributes* attributes) {
    compat::clear(attributes);
    auto& capabilities = compat::capabilities(attributes);
    capabilities.flags = UCT_MD_FLAG_REG;
    capabilities.reg_mem_types = kTypes | UCS_BIT(UCS_MEMORY_TYPE_HOST);
    capabilities.access_mem_types = kAccessed;
    capabilities.detect_mem_types = kTypes;
    if (exports())
        TERN_SET_IF_PRESENT(capabilities, dmabuf_mem_types, UCS_BIT(UCS_MEMORY_TYPE_CUDA));
    capabilities.max_reg = ULONG_MAX;
    attributes->rkey_packed_size = 0;
    attributes->reg_cost = ucs_linear_func_make(0, 0);
    return UCS_OK;
}

template <typename Flags>
ucs_status_t mem_reg(uct_md_h, void*, size_t, Flags, uct_mem_h* memh) {
    *memh = kHandle;
    return UCS_OK;
}

ucs_status_t detect(uct_md_h, const void* address, size_t, ucs_memory_type_t* type) {
    const Area* area = find(address);
    if (area == nullptr) return UCS_ERR_INVALID_ADDR;
    *type = area->type;
    return UCS_OK;
}

// Attributes v2 have the same fields and flags.
template <typename Attributes>
ucs_status_t mem_query(uct_md_h, const void* address, size_t length, Attributes* attr) {
    const Area* area = find(address);
    if (area == nullptr) return UCS_ERR_INVALID_ADDR;
    if ((attr->field_mask & UCT_MD_MEM_ATTR_FIELD_MEM_TYPE) != 0) attr->mem_type = area->type;
    if ((attr->field_mask & UCT_MD_MEM_ATTR_FIELD_SYS_DEV) != 0)
        attr->sys_dev = UCS_SYS_DEVICE_ID_UNKNOWN;
    if ((attr->field_mask & UCT_MD_MEM_ATTR_FIELD_BASE_ADDRESS) != 0)
        attr->base_address = const_cast<void*>(address);
    if ((attr->field_mask & UCT_MD_MEM_ATTR_FIELD_ALLOC_LENGTH) != 0) attr->alloc_length = length;
#if TERN_UCX_SINCE(14)
    if ((attr->field_mask & UCT_MD_MEM_ATTR_FIELD_DMABUF_FD) != 0)
        attr->dmabuf_fd = exports() ? fcntl(area->file, F_DUPFD_CLOEXEC, 0) : UCT_DMABUF_FD_INVALID;
    if ((attr->field_mask & UCT_MD_MEM_ATTR_FIELD_DMABUF_OFFSET) != 0)
        attr->dmabuf_offset =
            static_cast<size_t>(static_cast<const std::byte*>(address) - area->address);
#endif
    return UCS_OK;
}

constinit auto md_ops = compat::padded(compat::with_new_members({
    .close = void_stub,
    .query = md_query,
    .mem_alloc = stub<UCS_ERR_UNSUPPORTED>,
    .mem_free = stub<UCS_ERR_UNSUPPORTED>,
    .mem_advise = stub<UCS_ERR_UNSUPPORTED>,
    .mem_reg = mem_reg,
    .mem_dereg = stub<UCS_OK>,
    .mem_query = mem_query,
    .mkey_pack = stub<UCS_OK>,
    .detect_memory_type = detect,
}));

ucs_status_t md_open(uct_component_t* self, const char*, const uct_md_config_t*, uct_md_h* md) {
    static uct_md_t domain;
    domain.ops = &md_ops.table;
    domain.component = self;
    *md = &domain;
    return UCS_OK;
}

// `last`: the key and, behind it, the handle.
template <typename... Arguments>
ucs_status_t rkey_unpack(uct_component_t*, const void*, Arguments... last) {
    *compat::from_end<1>(last...) = reinterpret_cast<uct_rkey_t>(kHandle);
    *compat::from_end<0>(last...) = nullptr;
    return UCS_OK;
}

// --- Interface and endpoints, which connect a process to itself

using Address = uint64_t;

ucs_status_t get_address(uct_iface_h, uct_iface_addr_t* address) {
    const auto own = static_cast<Address>(getpid());
    memcpy(address, &own, sizeof own);
    return UCS_OK;
}

int is_reachable(uct_iface_h, const uct_device_addr_t*, const uct_iface_addr_t* address) {
    Address peer;
    if (address == nullptr) return 0;
    memcpy(&peer, address, sizeof peer);
    return peer == static_cast<Address>(getpid());
}

int is_connected(uct_ep_h ep, const uct_device_addr_t* device, const uct_iface_addr_t* address) {
    return is_reachable(ep->iface, device, address);
}

ucs_status_t put_short(uct_ep_h, const void* data, unsigned length, uint64_t to, uct_rkey_t) {
    copy(reinterpret_cast<void*>(to), data, length);
    return UCS_OK;
}

ucs_status_t get_short(uct_ep_h, void* data, unsigned length, uint64_t from, uct_rkey_t) {
    copy(data, reinterpret_cast<const void*>(from), length);
    return UCS_OK;
}

ucs_status_t put_zcopy(uct_ep_h, const uct_iov_t* iov, size_t, uint64_t to, uct_rkey_t,
                       uct_completion_t*) {
    copy(reinterpret_cast<void*>(to), iov->buffer, iov->length);
    return UCS_OK;
}

ucs_status_t get_zcopy(uct_ep_h, const uct_iov_t* iov, size_t, uint64_t from, uct_rkey_t,
                       uct_completion_t*) {
    copy(iov->buffer, reinterpret_cast<const void*>(from), iov->length);
    return UCS_OK;
}

unsigned progress(uct_iface_h) {
    return 0;
}

ucs_status_t query_devices(uct_md_h md, uct_tl_device_resource_t** devices, unsigned* count) {
    return uct_single_device_resource(md, "cuda", UCT_DEVICE_TYPE_ACC, UCS_SYS_DEVICE_ID_UNKNOWN,
                                      devices, count);
}

ucs_status_t iface_query(uct_iface_h iface, uct_iface_attr_t* attributes) {
    uct_base_iface_query(reinterpret_cast<uct_base_iface_t*>(iface), attributes);
    attributes->iface_addr_len = sizeof(Address);
    attributes->cap.flags = UCT_IFACE_FLAG_CONNECT_TO_IFACE | UCT_IFACE_FLAG_GET_SHORT |
                            UCT_IFACE_FLAG_PUT_SHORT | UCT_IFACE_FLAG_GET_ZCOPY |
                            UCT_IFACE_FLAG_PUT_ZCOPY | UCT_IFACE_FLAG_PENDING;
    attributes->cap.event_flags =
        UCT_IFACE_FLAG_EVENT_SEND_COMP | UCT_IFACE_FLAG_EVENT_RECV | UCT_IFACE_FLAG_EVENT_ASYNC_CB;
    for (auto* operation : {&attributes->cap.put.max_short, &attributes->cap.get.max_short})
        *operation = UINT_MAX;
    attributes->cap.put.max_zcopy = attributes->cap.get.max_zcopy = SIZE_MAX;
    attributes->cap.put.opt_zcopy_align = attributes->cap.get.opt_zcopy_align = 1;
    attributes->cap.put.align_mtu = attributes->cap.get.align_mtu = 1;
    attributes->cap.put.max_iov = attributes->cap.get.max_iov = 1;
    attributes->cap.am.opt_zcopy_align = attributes->cap.am.align_mtu = 1;
    attributes->cap.am.max_iov = 1;
    attributes->latency = ucs_linear_func_make(8e-6, 0);
    attributes->bandwidth.dedicated = 0;
    attributes->bandwidth.shared = 10e9;
    attributes->overhead = 0;
    return UCS_OK;
}

}  // namespace

struct DeviceIface {
    uct_base_iface_t super;
};
struct DeviceEp {
    uct_base_ep_t super;
};

static UCS_CLASS_INIT_FUNC(DeviceEp, const uct_ep_params_t* params) {
    UCS_CLASS_CALL_SUPER_INIT(uct_base_ep_t, reinterpret_cast<uct_base_iface_t*>(params->iface));
    return UCS_OK;
}
static UCS_CLASS_CLEANUP_FUNC(DeviceEp) {
    (void)self;
}
UCS_CLASS_DEFINE(DeviceEp, uct_base_ep_t);
static UCS_CLASS_DEFINE_NEW_FUNC(DeviceEp, uct_ep_t, const uct_ep_params_t*);
static UCS_CLASS_DEFINE_DELETE_FUNC(DeviceEp, uct_ep_t);
static UCS_CLASS_DECLARE_DELETE_FUNC(DeviceIface, uct_iface_t);

namespace {

auto internal_ops = [] {
    auto ops = compat::internal_ops<is_reachable, is_connected>();
    ops.table.iface_estimate_perf = uct_base_iface_estimate_perf;
    return ops;
}();

auto iface_ops = compat::padded(uct_iface_ops_t{
    .ep_put_short = put_short,
    .ep_put_zcopy = put_zcopy,
    .ep_get_short = get_short,
    .ep_get_zcopy = get_zcopy,
    .ep_pending_add = stub<UCS_ERR_BUSY>,
    .ep_pending_purge = void_stub,
    .ep_flush = stub<UCS_OK>,
    .ep_fence = stub<UCS_OK>,
    .ep_create = UCS_CLASS_NEW_FUNC_NAME(DeviceEp),
    .ep_destroy = UCS_CLASS_DELETE_FUNC_NAME(DeviceEp),
    .iface_flush = stub<UCS_OK>,
    .iface_fence = stub<UCS_OK>,
    .iface_progress_enable = void_stub,
    .iface_progress_disable = void_stub,
    .iface_progress = progress,
    .iface_event_fd_get = stub<UCS_OK>,
    .iface_event_arm = stub<UCS_OK>,
    .iface_close = UCS_CLASS_DELETE_FUNC_NAME(DeviceIface),
    .iface_query = iface_query,
    .iface_get_device_address = stub<UCS_OK>,
    .iface_get_address = get_address,
    .iface_is_reachable = is_reachable,
});

ucs_config_field_t iface_config_table[] = {
    {"", "", nullptr, 0, UCS_CONFIG_TYPE_TABLE(uct_iface_config_table)},
    {nullptr, nullptr, nullptr, 0, {}},
};

}  // namespace

static UCS_CLASS_INIT_FUNC(DeviceIface, uct_md_h md, uct_worker_h worker,
                           const uct_iface_params_t* params, const uct_iface_config_t* config) {
    UCS_CLASS_CALL_SUPER_INIT(uct_base_iface_t, &iface_ops.table, &internal_ops.table, md, worker,
                              params, config UCS_STATS_ARG(nullptr) UCS_STATS_ARG("cuda_copy"));
    return UCS_OK;
}
static UCS_CLASS_CLEANUP_FUNC(DeviceIface) {
    (void)self;
}
UCS_CLASS_DEFINE(DeviceIface, uct_base_iface_t);
static UCS_CLASS_DEFINE_NEW_FUNC(DeviceIface, uct_iface_t, uct_md_h, uct_worker_h,
                                 const uct_iface_params_t*, const uct_iface_config_t*);
static UCS_CLASS_DEFINE_DELETE_FUNC(DeviceIface, uct_iface_t);

namespace {

uct_tl_t transport = {
    .name = "cuda_copy",
    .query_devices = query_devices,
    .iface_open = UCS_CLASS_NEW_FUNC_NAME(DeviceIface),
    .config = {.name = "device memory of tests",
               .prefix = "TEST_DEVICE_",
               .table = iface_config_table,
               .size = sizeof(uct_iface_config_t)},
};

template <typename Component>
void fill(Component& self) {
    TERN_SET_IF_PRESENT(self, rkey_compare, stub<UCS_ERR_UNSUPPORTED>);
    self.query_md_resources = query_md_resources;
    self.md_open = md_open;
    self.cm_open = stub<UCS_ERR_UNSUPPORTED>;
    self.rkey_unpack = rkey_unpack;
    self.rkey_ptr = stub<UCS_ERR_UNSUPPORTED>;
    self.rkey_release = stub<UCS_OK>;
    ucs_snprintf_zero(const_cast<char*>(self.name), sizeof self.name, "cuda_cpy");
    self.md_config = {.name = "device memory of tests",
                      .prefix = "TEST_DEVICE_",
                      .table = uct_md_config_table,
                      .size = sizeof(uct_md_config_t)};
    ucs_list_head_init(&self.tl_list);
    self.md_vfs_init = void_stub;
}

__attribute__((constructor)) void load() {
    fill(component);
    uct_component_register(&component);
    uct_tl_register(&component, &transport);
}

}  // namespace

extern "C" {

void* device_memory_allocate(size_t length, int managed) {
    const size_t index = area_count;
    if (index == areas.size()) return nullptr;
    const auto page = static_cast<size_t>(getpagesize());
    length = (length + page - 1) / page * page;
    const int fd = memfd_create("device memory", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(length)) != 0) return nullptr;
    constexpr int kBoth = PROT_READ | PROT_WRITE;
    void* device = mmap(nullptr, length, kBoth, MAP_SHARED, fd, 0);
    void* address = managed != 0 ? device : mmap(nullptr, length, PROT_NONE, MAP_SHARED, fd, 0);
    if (device == MAP_FAILED || address == MAP_FAILED) return nullptr;
    areas[index] = {static_cast<std::byte*>(address), static_cast<std::byte*>(device), length,
                    managed != 0 ? UCS_MEMORY_TYPE_CUDA_MANAGED : UCS_MEMORY_TYPE_CUDA, fd};
    area_count = index + 1;
    announce(address, length, areas[index].type);
    return address;
}

void device_memory_copy(void* to, const void* from, size_t length) {
    memcpy(for_device(to), for_device(from), length);
}

unsigned long device_memory_copies(void) {
    return copies;
}
}
