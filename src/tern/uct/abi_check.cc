// SPDX-License-Identifier: BSD-3-Clause
#include <cstdio>
#include <optional>
#include <string>

// First, because UCX's own configuration defines the same names, and as a system header may do so.
#include "tern_config.h"

#include "tern/loader/releases.h"
#include "tern/uct/abi.h"
#include "tern/uct/explain.h"
#include "tern/uct/ucx_headers.h"

extern "C" {
// libuct exports this class, but no header declares it.
extern ucs_class_t uct_priv_worker_t_class;
// The rest of UCP's API is not needed here.
void ucp_get_version(unsigned* major, unsigned* minor, unsigned* release);
}

namespace tern {
namespace {

// A structure of UCX that this library extends or reads.
struct UcxClass {
    const char* name;
    size_t loaded;  // size in the libuct of this process
    size_t built;   // size in the libuct that this library was built for
};

constexpr const char* kPrefix = "transport tern is not available: ";

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
    // UCX's headers do not contain the last number.
    tern_releases built{.count = 1, .names = {}};
    std::snprintf(built.names[0], kReleaseBytes, "%u.%u.%u", UCP_API_MAJOR, UCP_API_MINOR,
                  TERN_UCX_RELEASE);
    unsigned numbers[3];
    ucp_get_version(&numbers[0], &numbers[1], &numbers[2]);
    char loaded[kReleaseBytes];
    std::snprintf(loaded, sizeof loaded, "%u.%u.%u", numbers[0], numbers[1], numbers[2]);
    char text[2 * kReleasesTextBytes];
    if (tern_releases_misfit(&built, loaded, text, sizeof text) != 0) return text;
    for (const UcxClass& type : classes) {
        if (type.loaded == type.built) continue;
        return std::string(kPrefix) + type.name + " has " + std::to_string(type.loaded) +
               " bytes in this UCX " + loaded + " and " + std::to_string(type.built) +
               " in the one it was built for, which was configured in another way; build it for "
               "this one (configure --with-ucx=PREFIX)";
    }
    const char* const difference = probe_uct();
    if (difference == nullptr) return std::nullopt;
    return std::string(kPrefix) + "this UCX calls itself " + loaded + ", but " + difference +
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
    if (tern_misfit_is_new() != 0) ucs_error("%s", reason);
    return false;
}

}  // namespace tern

const char* tern_misfit() {
    static const std::optional<std::string> reason = tern::check_ucx();
    return reason ? reason->c_str() : nullptr;
}
