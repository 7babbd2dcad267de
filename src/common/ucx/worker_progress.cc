// SPDX-License-Identifier: BSD-3-Clause
#include "common/ucx/worker_progress.h"

#include <ucp/api/ucp.h>

#include "common/ucx/release.h"

namespace rwapi {
namespace {

constexpr UcxRelease kBuiltUcx{UCP_API_MAJOR, UCP_API_MINOR};
static_assert(callback_bytes(kBuiltUcx) == sizeof(ucs_callbackq_elem_t) ||
              callback_bytes(kBuiltUcx) == 0);

size_t loaded_callback_bytes() {
    UcxRelease loaded{};
    unsigned patch;
    ucp_get_version(&loaded.major, &loaded.minor, &patch);
    return loaded == kBuiltUcx ? sizeof(ucs_callbackq_elem_t) : callback_bytes(loaded);
}

std::string text(UcxRelease release) {
    return std::to_string(release.major) + "." + std::to_string(release.minor);
}

}  // namespace

WorkerProgress::WorkerProgress() : element_bytes_(loaded_callback_bytes()) {}

std::string WorkerProgress::misfit(const std::string& program) const {
    if (element_bytes_ != 0) return {};
    return program + " was built for UCX " + text(kBuiltUcx) + " and fits UCX " + text(kFirstUcx) +
           " to " + text(kLastUcx) + ", and this is UCX " + ucp_get_version_string() +
           "; build it for this one (configure --with-ucx=PREFIX) or run with one of those";
}

}  // namespace rwapi
