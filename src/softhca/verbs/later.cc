// SPDX-License-Identifier: BSD-3-Clause
// Functions of libibverbs that the oldest headers do not declare. libibverbs' own would follow a
// pointer that the device's contexts do not have. Their C++ names are others, for newer headers
// declare them.
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <new>

#include "softhca/verbs/export.h"
#include "softhca/verbs/objects.h"

namespace softhca {

namespace {

// A buffer for which programs have an ibv_buf*, which they cannot look into.
struct Buffer {
    ibv_pd* pd;
    void* address;
    size_t size;

    bool holds(const void* begin, size_t length) const {
        const uint64_t offset =
            reinterpret_cast<uintptr_t>(begin) - reinterpret_cast<uintptr_t>(address);
        return offset <= size && length <= size - offset;
    }
};

// ibv_mr_init_attr and the bits of its comp_mask.
struct RegionRequest {
    enum Mask : uint64_t {
        kIova = 1 << 0,
        kAddress = 1 << 1,
        kFd = 1 << 2,
        kFdOffset = 1 << 3,
        kBuffer = 1 << 5,
    };
    size_t length;
    int access;
    uint64_t mask;
    uint64_t iova;
    void* address;
    int fd;
    uint64_t fd_offset;
    void* dma_handle;
    const Buffer* buffer;
};

ibv_mr* register_file(ibv_pd* pd, const RegionRequest& request) {
    constexpr uint64_t kNeeded =
        RegionRequest::kFd | RegionRequest::kFdOffset | RegionRequest::kIova;
    if (request.mask != kNeeded) return fail(EINVAL);
    return ibv_reg_dmabuf_mr(pd, request.fd_offset, request.length, request.iova, request.fd,
                             request.access);
}

}  // namespace

SOFTHCA_LATER(void*, ibv_alloc_buf, (ibv_pd * pd, size_t size, Buffer** buffer)) {
    std::unique_ptr<Buffer> made(new (std::nothrow) Buffer{pd, nullptr, size});
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    if (made == nullptr || posix_memalign(&made->address, page, size) != 0) return fail(ENOMEM);
    *buffer = made.release();
    return (*buffer)->address;
}

SOFTHCA_LATER(void, ibv_free_buf, (Buffer * buffer)) {
    std::free(buffer->address);
    delete buffer;
}

SOFTHCA_LATER(ibv_mr*, ibv_reg_mr_ex, (ibv_pd * pd, const RegionRequest* request)) {
    constexpr uint64_t kKnown = RegionRequest::kIova | RegionRequest::kAddress |
                                RegionRequest::kFd | RegionRequest::kFdOffset |
                                RegionRequest::kBuffer;
    const uint64_t mask = request->mask;
    if ((mask & ~kKnown) != 0) return fail(EOPNOTSUPP);
    if ((mask & RegionRequest::kFd) != 0) return register_file(pd, *request);
    if ((mask & RegionRequest::kAddress) == 0 || (mask & RegionRequest::kFdOffset) != 0)
        return fail(EINVAL);
    if ((mask & RegionRequest::kBuffer) != 0 &&
        (request->buffer->pd != pd || !request->buffer->holds(request->address, request->length)))
        return fail(EINVAL);
    const uint64_t iova = (mask & RegionRequest::kIova) != 0
                              ? request->iova
                              : reinterpret_cast<uint64_t>(request->address);
    return ibv_reg_mr_iova2(pd, request->address, request->length, iova,
                            static_cast<unsigned int>(request->access));
}

SOFTHCA_LATER(ibv_mr*, ibv_reg_buf_mr,
              (ibv_pd * pd, const Buffer* buffer, void* address, size_t length, int access)) {
    RegionRequest request{};
    request.length = length;
    request.access = access;
    request.mask = RegionRequest::kBuffer | RegionRequest::kAddress;
    request.address = address;
    request.buffer = buffer;
    return later_ibv_reg_mr_ex(pd, &request);
}

SOFTHCA_REFUSES(int, ibv_export_buf_dmabuf_fd, fail_call(ENODATA))
SOFTHCA_REFUSES(int, ibv_dm_export_dmabuf_fd, fail_call(EOPNOTSUPP))
SOFTHCA_REFUSES(int, ibv_query_port_speed, error_of(EOPNOTSUPP))
SOFTHCA_REFUSES(void*, ibv_alloc_dmah, fail(EOPNOTSUPP))
SOFTHCA_REFUSES(int, ibv_dealloc_dmah, error_of(EOPNOTSUPP))
SOFTHCA_REFUSES(int, _ibv_query_comp_cntr_caps, error_of(EOPNOTSUPP))
SOFTHCA_REFUSES(void*, ibv_create_comp_cntr, fail(EOPNOTSUPP))
SOFTHCA_REFUSES(int, ibv_destroy_comp_cntr, error_of(EOPNOTSUPP))
SOFTHCA_REFUSES(int, ibv_set_comp_cntr, error_of(EOPNOTSUPP))
SOFTHCA_REFUSES(int, ibv_set_err_comp_cntr, error_of(EOPNOTSUPP))
SOFTHCA_REFUSES(int, ibv_inc_comp_cntr, error_of(EOPNOTSUPP))
SOFTHCA_REFUSES(int, ibv_inc_err_comp_cntr, error_of(EOPNOTSUPP))
SOFTHCA_REFUSES(int, ibv_read_comp_cntr, error_of(EOPNOTSUPP))
SOFTHCA_REFUSES(int, ibv_read_err_comp_cntr, error_of(EOPNOTSUPP))
SOFTHCA_REFUSES(int, ibv_qp_attach_comp_cntr, error_of(EOPNOTSUPP))

}  // namespace softhca
