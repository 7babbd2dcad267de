// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

// First, because UCX's own configuration defines the same names, and as a system header may do so.
#include "tern_config.h"

#include "tern/loader/releases.h"
#include "tern/uct/explain.h"
#include "tern/uct/ucx_headers.h"

extern "C" {
// libuct exports this class, but no header declares it.
extern ucs_class_t uct_priv_worker_t_class;
// The rest of UCP's API is not needed here.
void ucp_get_version(unsigned* major, unsigned* minor, unsigned* release);
}

// A namespace of its own, as its words are others elsewhere.
namespace tern::abi_probe {
namespace {

constexpr size_t kArguments = 6;  // of the function that has most; all are in registers
using Word = uintptr_t;
// An entry of a table, whatever its type: what a caller passes comes in the first ones.
using Entry = intptr_t (*)(Word, Word, Word, Word, Word, Word);

struct Call {
    size_t place;  // of the entry in its table
    std::array<Word, kArguments> arguments;
};
constexpr size_t kNowhere = ~size_t{0};
constinit Call last{};

template <size_t place>
intptr_t note(Word a, Word b, Word c, Word d, Word e, Word f) {
    last = {place, {a, b, c, d, e, f}};
    return UCS_ERR_UNSUPPORTED;
}

constexpr size_t kPlaces = 32;
static_assert(sizeof(uct_md_ops_t) <= kPlaces * sizeof(Entry));
static_assert(sizeof(uct_iface_internal_ops_t) <= kPlaces * sizeof(Entry));

// A table of entries that note their place.
template <size_t... places>
constexpr std::array<Entry, kPlaces> noting(std::index_sequence<places...>) {
    return {note<places>...};
}
constinit auto table = noting(std::make_index_sequence<kPlaces>());

// Calls a function of UCT. The registers of arguments that it does not have hold nothing that would
// be taken for an argument, should it not set them.
template <typename Function, typename... Arguments>
void call(Function* function, Arguments*... arguments) {
    std::array<Word, kArguments> words;
    words.fill(0x5eed);
    size_t count = 0;
    ((words[count++] = reinterpret_cast<Word>(arguments)), ...);
    last.place = kNowhere;
    const auto entry = reinterpret_cast<Entry>(reinterpret_cast<void*>(function));
    (void)entry(words[0], words[1], words[2], words[3], words[4], words[5]);
}

template <typename Result, typename... Arguments>
constexpr size_t count_of(Result (*)(Arguments...)) {
    return sizeof...(Arguments);
}
template <typename Function>
constexpr size_t kCount = count_of(static_cast<Function>(nullptr));

// Whether this entry was called, and argument `index` was this.
bool called(size_t offset) {
    return last.place == offset / sizeof(Entry);
}
bool had(size_t index, const void* argument) {
    return last.arguments[index] == reinterpret_cast<Word>(argument);
}

bool packs_keys() {
    uct_md md{};
    md.ops = reinterpret_cast<uct_md_ops_t*>(table.data());
    char handle = 0;
    char key[64];
    call(&uct_md_mkey_pack, &md, &handle, key);
    return called(offsetof(uct_md_ops_t, mkey_pack)) && had(0, &md) && had(1, &handle) &&
           had(kCount<uct_md_mkey_pack_func_t> - 1, key);
}

template <typename Function>
Function as(Entry entry) {
    return reinterpret_cast<Function>(reinterpret_cast<void*>(entry));
}

// Members that come after the functions have moved if there is another function.
bool reads_components(uct_component_t& component) {
    uct_component_attr_t attributes{};
    attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_FLAGS;
    return uct_component_query(&component, &attributes) == UCS_OK &&
           attributes.flags == component.flags;
}

bool unpacks_keys(uct_component_t& component) {
    constexpr size_t kLast = kCount<uct_component_rkey_unpack_func_t> - 1;
    uct_rkey_bundle_t bundle{};
    char key[64];
    call(&uct_rkey_unpack, &component, key, &bundle);
    return called(0) && had(0, &component) && had(1, key) && had(kLast - 1, &bundle.rkey) &&
           had(kLast, &bundle.handle);
}

bool calls_interfaces() {
    alignas(uct_base_iface_t) static std::byte room[sizeof(uct_base_iface_t)];
    auto& iface = *reinterpret_cast<uct_base_iface_t*>(room);
    iface.internal_ops = reinterpret_cast<decltype(iface.internal_ops)>(table.data());
    uct_ep_t ep{.iface = &iface.super};
    static uint64_t parameters[64];  // no field is set
    using Operations = uct_iface_internal_ops_t;
    call(&uct_iface_estimate_perf, &iface.super, parameters);
    bool right = called(offsetof(Operations, iface_estimate_perf)) && had(0, &iface.super) &&
                 had(1, parameters);
    call(&uct_ep_query, &ep, parameters);
    right = right && called(offsetof(Operations, ep_query)) && had(0, &ep) && had(1, parameters);
#if TERN_UCX_SINCE(15)
    call(&uct_iface_is_reachable_v2, &iface.super, parameters);
    right = right && called(offsetof(Operations, iface_is_reachable_v2)) && had(0, &iface.super) &&
            had(1, parameters);
#endif
#if TERN_UCX_SINCE(16)
    call(&uct_ep_is_connected, &ep, parameters);
    right =
        right && called(offsetof(Operations, ep_is_connected)) && had(0, &ep) && had(1, parameters);
#endif
    return right;
}

// What libuct does otherwise than that for which this library was built, or null. Calls it, and
// looks what it calls of a transport's tables, and with which arguments. Vendors ship snapshots of
// UCX's development that carry the number of a release: their tables may have other members, and
// their functions other arguments.
const char* difference() {
    uct_component_t component = {
        .name = "tern-probe",
        .query_md_resources = as<uct_component_query_md_resources_func_t>(note<1>),
        .md_open = as<uct_component_md_open_func_t>(note<1>),
        .cm_open = as<uct_component_cm_open_func_t>(note<1>),
        .rkey_unpack = as<uct_component_rkey_unpack_func_t>(note<0>),
        .rkey_ptr = as<uct_component_rkey_ptr_func_t>(note<1>),
        .rkey_release = as<uct_component_rkey_release_func_t>(note<1>),
        .flags = 0x7e52,
    };
    if (!packs_keys()) return "packs keys (mkey_pack)";
    if (!unpacks_keys(component)) return "unpacks keys (rkey_unpack)";
    if (!reads_components(component)) return "reads components (uct_component_t)";
    if (!calls_interfaces()) return "calls interfaces (uct_iface_internal_ops_t)";
    return nullptr;
}

}  // namespace
}  // namespace tern::abi_probe

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
    const char* const difference = abi_probe::difference();
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
