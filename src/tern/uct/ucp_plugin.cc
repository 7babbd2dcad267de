// SPDX-License-Identifier: BSD-3-Clause
// The plug-in for UCP: what it gets from the transport, and how it is loaded.
#include <dlfcn.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "tern/rendezvous/decision.h"
#include "tern/uct/iface.h"
#include "tern/uct/ucp_interface.h"

namespace tern {
namespace {

// The names of the schemes in UCX's tables.
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

}  // namespace

void load_ucp_plugin() {
    ucp_plugin_refusal() = install();
}

std::string& ucp_plugin_refusal() {
    static std::string reason;
    return reason;
}

void report_ucp_plugin() {
    static std::once_flag reported;
    std::call_once(reported, [] {
        if (!ucp_plugin_refusal().empty())
            ucs_info("tern: UCP keeps its own protocols: %s", ucp_plugin_refusal().c_str());
    });
}

}  // namespace tern

using tern::Reply;

static_assert(TERN_REPLY_MOST == Reply::kMost);

void tern_offer_reply(uct_ep_h ep, uint8_t id, const void* reply, unsigned reply_length,
                      size_t length, const uct_completion_t* completion) {
    TernIface& iface = tern::iface_of(ep);
    ReplyOffer& offer = iface.offer;
    offer.taken = false;
    offer.ep = iface.proto && id < Reply::kIds && reply_length <= Reply::kMost ? ep : nullptr;
    if (offer.ep == nullptr) return;
    offer.length = length;
    offer.completion = completion;
    offer.reply.id = id;
    offer.reply.length = static_cast<uint8_t>(reply_length);
    if (reply_length != 0) memcpy(offer.reply.bytes, reply, reply_length);
}

int tern_reply_taken(uct_iface_h iface) {
    ReplyOffer& offer = tern::iface_of(iface).offer;
    const bool taken = offer.taken;
    offer.ep = nullptr;
    offer.taken = false;
    return static_cast<int>(taken);
}
