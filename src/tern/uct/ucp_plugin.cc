// SPDX-License-Identifier: BSD-3-Clause
// The plug-in for UCP: what it gets from the transport, and how it is loaded.
#include <dlfcn.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <mutex>
#include <string>

#include "tern/rendezvous/fetch_times.h"
#include "tern/uct/iface.h"
#include "tern/uct/ucp_interface.h"

namespace tern {
namespace {

// As UCX's tables name the schemes.
const char* text_of(Scheme scheme) {
    return scheme == Scheme::kStaged ? "superpipeline" : "zero-copy";
}

unsigned fetch_ranges(uct_iface_h uct_iface, double copy_bandwidth, tern_fetch_range* ranges,
                      unsigned most) {
    const TernIface& iface = iface_of(uct_iface);
    if (!iface.proto) return 0;
    const Rendezvous& rendezvous = *iface.rendezvous;
    const FetchTimes times =
        fetch_times(rendezvous.decider(), rendezvous.longest_pin(), copy_bandwidth);
    if (times.count > most) return 0;
    std::transform(times.ranges.begin(), times.ranges.begin() + times.count, ranges,
                   [](const FetchRange& range) {
                       return tern_fetch_range{.upto = range.upto,
                                               .latency = range.latency,
                                               .fixed = range.fixed,
                                               .per_byte = range.per_byte,
                                               .scheme = text_of(range.scheme)};
                   });
    return static_cast<unsigned>(times.count);
}

constinit const tern_transport kUcpInterface = {
    .get_zcopy = ep_get_zcopy,
    .fetch_ranges = fetch_ranges,
    .offer_reply = tern_offer_reply,
    .reply_taken = tern_reply_taken,
};

// Beside this library. Links are followed: UCX may find this library by one.
std::string plugin_path() {
    Dl_info self;
    char real[PATH_MAX];
    if (::dladdr(&kUcpInterface, &self) == 0 || ::realpath(self.dli_fname, real) == nullptr)
        return {};
    const std::string path = real;
    return path.substr(0, path.rfind('/') + 1) + "libucp_tern.so.0";
}

// Returns why UCP stays as it is, or an empty text.
std::string install() {
    void* plugin = ::dlopen(plugin_path().c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (plugin == nullptr) return ::dlerror();
    const auto function =
        reinterpret_cast<tern_ucp_install_func_t>(::dlsym(plugin, "tern_ucp_install"));
    if (function == nullptr) return ::dlerror();
    const char* reason = function(&kUcpInterface);
    return reason != nullptr ? reason : "";
}

// Why the plug-in stays away; empty: it does not. Only the constructor of the library changes it.
std::string& refusal() {
    static std::string reason;
    return reason;
}

}  // namespace

void load_ucp_plugin() {
    refusal() = install();
}

const std::string& ucp_plugin_refusal() {
    return refusal();
}

void report_ucp_plugin() {
    static std::once_flag reported;
    std::call_once(reported, [] {
        if (!refusal().empty())
            ucs_info("tern: UCP keeps its own protocols: %s", refusal().c_str());
    });
}

}  // namespace tern
