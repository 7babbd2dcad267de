// SPDX-License-Identifier: BSD-3-Clause
// Regions of memory that is not the program's: device memory, DMA buffers, and null regions.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "softhca/fabric/raw_memory.h"
#include "softhca/transport/region.h"
#include "softhca/verbs/limits.h"
#include "softhca/verbs/operations.h"
#include "softhca/verbs/process_adapter.h"

namespace softhca {

namespace {

constexpr uint32_t kMostLogAlignment = 12;  // of a page

DmObject* object_of_dm(ibv_dm* dm) {
    return object_of<DmObject>(dm);
}

bool within(const DmObject& dm, uint64_t offset, uint64_t length) {
    return offset <= dm.length && length <= dm.length - offset;
}

bool is_copyable(const DmObject& dm, uint64_t offset, uint64_t length) {
    return within(dm, offset, length) && offset % limits::kDeviceMemoryUnit == 0 &&
           length % limits::kDeviceMemoryUnit == 0;
}

int copy_to(ibv_dm* ibv, uint64_t offset, const void* from, size_t length) {
    const DmObject& dm = *object_of_dm(ibv);
    if (!is_copyable(dm, offset, length)) return EINVAL;
    std::memcpy(dm.bytes + offset, from, length);
    return 0;
}

int copy_from(void* to, ibv_dm* ibv, uint64_t offset, size_t length) {
    const DmObject& dm = *object_of_dm(ibv);
    if (!is_copyable(dm, offset, length)) return EINVAL;
    std::memcpy(to, dm.bytes + offset, length);
    return 0;
}

// Allocates `bytes` of the process's device memory. False if there is too little left.
bool allocate_device_memory(Device& device, size_t bytes) {
    size_t used = device.device_memory.load(std::memory_order_relaxed);
    do {
        if (bytes > limits::kDeviceMemory - used) return false;
    } while (
        !device.device_memory.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return true;
}

void release_device_memory(Device& device, size_t bytes) {
    device.device_memory.fetch_sub(bytes, std::memory_order_relaxed);
}

}  // namespace

// Works in a child after fork(), too: device memory is memory of the process.
ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* attributes) try {
    if (attributes->comp_mask != 0 || attributes->length == 0 ||
        attributes->length > limits::kDeviceMemory || attributes->log_align_req > kMostLogAlignment)
        return fail(EINVAL);
    Device& device = *Context::of(context)->device;
    auto dm = std::make_unique<DmObject>();
    dm->context_use = use(context);
    if (!allocate_device_memory(device, attributes->length)) return fail(ENOMEM);
    void* bytes =
        raw_mmap(attributes->length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == nullptr) {
        release_device_memory(device, attributes->length);
        set_error(ENOMEM);
        return nullptr;
    }
    static std::atomic<uint32_t> next_handle{1};
    dm->ibv.context = context;
    dm->ibv.memcpy_to_dm = copy_to;
    dm->ibv.memcpy_from_dm = copy_from;
    dm->ibv.handle = next_handle.fetch_add(1, std::memory_order_relaxed);
    dm->bytes = static_cast<char*>(bytes);
    dm->length = attributes->length;
    return &dm.release()->ibv;
} catch (const std::bad_alloc&) {
    return fail(ENOMEM);
}

int free_dm(ibv_dm* ibv) {
    DmObject* dm = object_of_dm(ibv);
    if (dm->users.load(std::memory_order_relaxed) != 0) return error_of(EBUSY);
    raw_munmap(dm->bytes, dm->length);
    release_device_memory(*Context::of(ibv->context)->device, dm->length);
    delete dm;
    return 0;
}

namespace {

// Registers memory that is not the program's. nullptr with errno set on failure.
MrObject* register_internal(ibv_pd* ibv, const RegionAttributes& attributes) {
    Adapter& adapter = adapter_of(ibv->context);
    const uint32_t index = allocate_key(adapter);
    if (index == 0) return fail(ENOMEM);
    MrObject* mr = make_region(ibv, attributes, next_key(adapter, index), {});
    mr->is_program_memory = false;
    return mr;
}

}  // namespace

// A region may be empty, as on real cards.
ibv_mr* reg_dm_mr(ibv_pd* ibv, ibv_dm* ibv_dm, uint64_t offset, size_t length,
                  unsigned int access) try {
    DmObject* dm = object_of_dm(ibv_dm);
    if (inherited(ibv->context) || ibv_dm->context->device != ibv->context->device ||
        !within(*dm, offset, length) || (access & access_flag::kZeroBased) == 0 ||
        (access & access_flag::kOnDemand) != 0 || !access_flags_valid(access))
        return fail(EINVAL);
    RegionAttributes attributes;
    attributes.address = reinterpret_cast<uint64_t>(dm->bytes) + offset;
    attributes.length = length;
    attributes.pd = object_of<PdObject>(ibv)->base().id;
    attributes.access = access;
    MrObject* mr = register_internal(ibv, attributes);
    if (mr == nullptr) return nullptr;
    mr->device_memory = use(dm);
    return &mr->ibv;
} catch (const std::bad_alloc&) {
    return fail(ENOMEM);
}

namespace {

// The length of a DMA buffer, or of a memory file; -1 with errno set if the descriptor is neither.
off_t length_of_buffer(int fd) {
    struct stat status;
    if (fstat(fd, &status) != 0) return -1;
    if (S_ISREG(status.st_mode)) return status.st_size;  // keeps its position
    return lseek(fd, 0, SEEK_END);                       // all that the kernel offers for a buffer
}

// 0, or why such a region cannot be.
int check_buffer(uint64_t offset, size_t length, uint64_t iova, int fd, uint32_t access) {
    constexpr uint32_t kAllowed = access_flag::kLocalWrite | access_flag::kRemoteWrite |
                                  access_flag::kRemoteRead | access_flag::kRemoteAtomic |
                                  access_flag::kOptional;
    const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    if ((access & ~kAllowed) != 0 || !access_flags_valid(access)) return EINVAL;
    if (length == 0 || offset % page != iova % page || iova + length < iova) return EINVAL;
    const off_t whole = length_of_buffer(fd);
    if (whole < 0) return errno == EBADF ? EBADF : EINVAL;
    const auto size = static_cast<uint64_t>(whole);
    return offset <= size && length <= size - offset ? 0 : EINVAL;
}

}  // namespace

SOFTHCA_EXPORT ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* ibv, uint64_t offset, size_t length, uint64_t iova,
                                         int fd, int access) try {
    if (inherited(ibv->context)) return fail(ENODEV);
    if (personality_of(ibv->context).has.dma_buf == 0) return fail(EOPNOTSUPP);
    const auto rights = static_cast<uint32_t>(access);
    if (const int error = check_buffer(offset, length, iova, fd, rights)) return fail(error);
    const uint64_t begun = now_ns();
    const uint64_t before = offset % static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    const size_t mapped = length + before;
    const int protection = PROT_READ | ((rights & access_flag::kLocalWrite) != 0 ? PROT_WRITE : 0);
    void* const mapping = raw_mmap(mapped, protection, MAP_SHARED, fd, offset - before);
    if (mapping == nullptr) return fail(EINVAL);
    RegionAttributes attributes;
    attributes.address = reinterpret_cast<uint64_t>(mapping) + before;
    attributes.length = length;
    attributes.iova = iova;
    attributes.pd = object_of<PdObject>(ibv)->base().id;
    attributes.access = rights;
    MrObject* mr = register_internal(ibv, attributes);
    if (mr == nullptr) {
        raw_munmap(mapping, mapped);
        return nullptr;
    }
    mr->mapping = mapping;
    mr->mapped = mapped;
    mr->ibv.addr = reinterpret_cast<void*>(offset);  // as libibverbs has it
    delay_registration(adapter_of(ibv->context), begun, length);
    return &mr->ibv;
} catch (const std::bad_alloc&) {
    return fail(ENOMEM);
}

namespace {

// Maps a small file again and again, so that a large range needs little memory.
bool map_repeatedly(char* begin, uint64_t length) {
    constexpr uint64_t kFold = 2 << 20;
    const int fd = memfd_create("softhca-null", MFD_CLOEXEC);
    if (fd < 0) return false;
    bool mapped = ftruncate(fd, kFold) == 0;
    for (uint64_t at = 0; mapped && at < length; at += kFold) {
        mapped = syscall(SYS_mmap, begin + at, kFold, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, 0) != -1;
    }
    ::close(fd);
    return mapped;
}

// Memory of the process's null regions: zeros to read, then as much to write. Mapped once; needs
// address space, and little memory. 0 on failure.
uint64_t null_memory() {
    static const uint64_t memory = [] {
        auto* begin = static_cast<char*>(raw_mmap(
            2 * kNullBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
        if (begin == nullptr) return uint64_t{0};
        madvise(begin, 2 * kNullBytes, MADV_DONTDUMP);
        if (!map_repeatedly(begin + kNullBytes, kNullBytes)) {
            raw_munmap(begin, 2 * kNullBytes);
            return uint64_t{0};
        }
        return reinterpret_cast<uint64_t>(begin);
    }();
    return memory;
}

}  // namespace

ibv_mr* alloc_null_mr(ibv_pd* ibv) try {
    if (inherited(ibv->context)) return fail(ENODEV);
    RegionAttributes attributes;
    attributes.address = null_memory();
    attributes.length = SIZE_MAX;
    attributes.pd = object_of<PdObject>(ibv)->base().id;
    attributes.access = access_flag::kLocalWrite;
    attributes.kind = KeyKind::kNullRegion;
    if (attributes.address == 0) return fail(ENOMEM);
    MrObject* mr = register_internal(ibv, attributes);
    if (mr == nullptr) return nullptr;
    mr->ibv.rkey = 0;  // not for peers
    return &mr->ibv;
} catch (const std::bad_alloc&) {
    return fail(ENOMEM);
}

SOFTHCA_EXPORT ibv_dm* ibv_import_dm(ibv_context*, uint32_t) {
    return fail(EOPNOTSUPP);
}

SOFTHCA_EXPORT void ibv_unimport_dm(ibv_dm*) {}

}  // namespace softhca
