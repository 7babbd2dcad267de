// SPDX-License-Identifier: BSD-3-Clause
#include "tern/uct/abi_check.h"

#include <cerrno>

// First, because UCX's own configuration defines the same names, and as a system header may do so.
#include "tern_config.h"

#include "tern/uct/abi_probe.h"
#include "tern/uct/explain.h"
#include "tern/uct/ucx_headers.h"

extern "C" {
// libuct exports this class, but no header declares it.
extern ucs_class_t uct_priv_worker_t_class;
// The rest of UCP's API is not needed here.
void ucp_get_version(unsigned* major, unsigned* minor, unsigned* release);
const char* ucp_get_version_string(void);
}

namespace tern {
namespace {

constexpr const char* kLoggedVariable = "TERN_MISFIT_TOLD";  // environment variable, so inherited
// UCX's headers do not contain the release number.
constexpr UcxVersion kBuilt = {UCP_API_MAJOR, UCP_API_MINOR, TERN_UCX_RELEASE};

}  // namespace

std::optional<std::string> misfit(UcxVersion loaded, const char* loaded_text, UcxVersion built,
                                  std::span<const UcxClass> classes) {
    const std::string prefix = "transport tern is not available: ";
    if (loaded != built) {
        const std::string wanted = std::to_string(built.major) + "." + std::to_string(built.minor) +
                                   "." + std::to_string(built.release);
        return prefix + "it was built for UCX " + wanted + " and this is UCX " + loaded_text +
               "; build it for this one (configure --with-ucx=PREFIX) or run with UCX " + wanted;
    }
    for (const UcxClass& type : classes) {
        if (type.loaded == type.built) continue;
        return prefix + type.name + " has " + std::to_string(type.loaded) + " bytes in this UCX " +
               loaded_text + " and " + std::to_string(type.built) +
               " in the one it was built for, which was configured in another way; build it for "
               "this one (configure --with-ucx=PREFIX)";
    }
    return std::nullopt;
}

namespace {

// A UCX with assertions has larger structures, which class sizes do not always show. UCX
// initialises an ucs_arbiter_group_t itself: returns the number of bytes that the loaded UCX
// writes, to compare with kInitialisedBytes.
size_t initialised_bytes() {
    alignas(ucs_arbiter_group_t) unsigned char room[64];
    std::memset(room, 0xff, sizeof room);
    ucs_arbiter_group_init(reinterpret_cast<ucs_arbiter_group_t*>(room));
    size_t count = sizeof room;
    while (count > 0 && room[count - 1] == 0xff) --count;
    return count;
}

#if UCS_ENABLE_ASSERT
constexpr size_t kInitialisedBytes = offsetof(ucs_arbiter_group_t, guard) + sizeof(int);
#else
constexpr size_t kInitialisedBytes = sizeof(ucs_arbiter_group_t);
#endif

std::optional<std::string> check_ucx() {
    const UcxClass classes[] = {
        {"uct_base_iface_t", uct_base_iface_t_class.size, sizeof(uct_base_iface_t)},
        {"uct_base_ep_t", uct_base_ep_t_class.size, sizeof(uct_base_ep_t)},
        {"uct_priv_worker_t", uct_priv_worker_t_class.size, sizeof(uct_priv_worker_t)},
        {"ucs_arbiter_group_t", initialised_bytes(), kInitialisedBytes},
    };
    UcxVersion loaded;
    ucp_get_version(&loaded.major, &loaded.minor, &loaded.release);
    std::optional<std::string> reason = misfit(loaded, ucp_get_version_string(), kBuilt, classes);
    if (reason) return reason;
    const char* const difference = probe_uct();
    if (difference == nullptr) return std::nullopt;
    return std::string("transport tern is not available: this UCX calls itself ") +
           ucp_get_version_string() + ", but " + difference +
           " in another way than the one it was built for, as a snapshot of the development does; "
           "build it for this one (configure --with-ucx=PREFIX --with-ucx-src=FOLDER with the "
           "source of the same snapshot) or run with that release";
}

}  // namespace

bool ucx_fits() {
    const char* reason = tern_misfit();
    if (reason == nullptr) return true;
    ExplainRecord("misfit")
        .add("program", program_invocation_short_name)
        .add("why", reason)
        .write();
    // Children of a preloaded program get here too, mostly without any use for UCX: only the first
    // process logs the misfit.
    if (std::getenv(kLoggedVariable) == nullptr) ucs_error("%s", reason);
    ::setenv(kLoggedVariable, "1", 0);
    return false;
}

}  // namespace tern

const char* tern_misfit() {
    static const std::optional<std::string> reason = tern::check_ucx();
    return reason ? reason->c_str() : nullptr;
}
