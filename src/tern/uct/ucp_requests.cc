// SPDX-License-Identifier: BSD-3-Clause
#include "tern/uct/send.h"

#include <dlfcn.h>
#include <string.h>

#include <string_view>

#include "tern/uct/md.h"

namespace tern {

namespace {

// Whether a function is of UCP's library.
bool of_ucp(uct_am_callback_t function) {
    Dl_info info{};
    if (dladdr(reinterpret_cast<void*>(function), &info) == 0 || info.dli_fname == nullptr)
        return false;
    std::string_view file = info.dli_fname;
    file.remove_prefix(file.rfind('/') + 1);  // npos + 1 is 0
    return file.starts_with("libucp.") || file.starts_with("libucp-");
}

// Other users of UCT may use the id for something else, and change the memory. Whoever sends
// requests also receives them: UCP if the handler is UCP's.
bool sent_by_ucp(TernIface& iface) {
    const uct_am_callback_t handler = iface.super.am[compat::kUcpRequestToSend].cb;
    if (handler != iface.requests.handler) {
        iface.requests.handler = handler;
        iface.requests.of_ucp = of_ucp(handler);
    }
    return iface.requests.of_ucp;
}

void copy_early(TernIface& iface, Channel& channel) {
    const Packing& packed = packed_keys.last;
    if (packed.domain == &memory_domain(iface.super.md) && packed.copyable() && sent_by_ucp(iface))
        (void)iface.rendezvous->make_early_copy(channel, packed.message);
}

}  // namespace

void request_begins() {
    packed_keys.count = 0;
}

void request_sent(TernIface& iface, Channel& channel) {
    transfers_on(channel).readable = false;
    if (packed_keys.count != 0) note_use(packed_keys.last);
    if (packed_keys.count == 1) copy_early(iface, channel);
}

void request_sent(TernIface& iface, Channel& channel, std::span<const std::byte> message) {
    transfers_on(channel).readable = false;
    const PackedKey& key = packed_keys.last.key;
    if (packed_keys.count != 0 &&
        memmem(message.data(), message.size(), &key, sizeof(key)) != nullptr) {
        note_use(packed_keys.last);
        copy_early(iface, channel);
    }
    packed_keys.count = 0;
}

}  // namespace tern
