// SPDX-License-Identifier: BSD-3-Clause
// XRC domains: anonymous ones, and those that a file names.
#include <fcntl.h>
#include <sys/stat.h>

#include "softhca/transport/xrc_domain.h"
#include "softhca/verbs/operations.h"
#include "softhca/verbs/process_adapter.h"

namespace softhca {

ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* attributes) try {
    constexpr uint32_t kNeeded = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    constexpr int kFlags = O_CREAT | O_EXCL;
    if (inherited(context) || (attributes->comp_mask & kNeeded) != kNeeded ||
        (attributes->oflags & ~kFlags) != 0)
        return fail(EINVAL);
    DomainFile file;
    if (attributes->fd >= 0) {
        struct stat status;
        if (fstat(attributes->fd, &status) != 0) return fail(EBADF);
        file = {true, status.st_dev, status.st_ino};
    } else if ((attributes->oflags & O_CREAT) == 0)
        return fail(EINVAL);  // anonymous domains can only be created
    uint32_t domain;
    const int status = open_xrc_domain(
        adapter_of(context).host(), Context::of(context)->device->index, file,
        (attributes->oflags & O_CREAT) != 0, (attributes->oflags & O_EXCL) != 0, &domain);
    if (status != 0) return fail(status);
    auto* xrcd = new XrcdObject;
    xrcd->ibv.context = context;
    xrcd->context_use = use(context);
    xrcd->domain = domain;
    return &xrcd->ibv;
} catch (const std::bad_alloc&) {
    return fail(ENOMEM);
}

int close_xrcd(ibv_xrcd* ibv) {
    auto* xrcd = object_of<XrcdObject>(ibv);
    if (inherited(ibv->context)) return 0;
    if (xrcd->users.load(std::memory_order_relaxed) != 0) return error_of(EBUSY);
    close_xrc_domain(adapter_of(ibv->context).host(), xrcd->domain);
    delete xrcd;
    return 0;
}

}  // namespace softhca
