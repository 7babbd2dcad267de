// SPDX-License-Identifier: BSD-3-Clause
// What UCX's file system of a process (UCX_VFS_ENABLE) shows of an interface.
#include <new>
#include <string>

#include "tern/uct/iface.h"

namespace tern {

namespace {

// Called by UCX's thread for the file system, as for other transports: each number is read as it is
// at some moment of the call.
void show_counters(void* object, ucs_string_buffer_t* text, void*, uint64_t) try {
    const std::string line = counters_line(*static_cast<const TernIface*>(object));
    ucs_string_buffer_appendf(text, "%s", line.c_str());
} catch (const std::bad_alloc&) {
    (void)no_memory("show the counters");
}

void show_endpoints(void* object, ucs_string_buffer_t* text, void*, uint64_t) {
    ucs_string_buffer_appendf(text, "%u\n", static_cast<const TernIface*>(object)->endpoint_count);
}

}  // namespace

void iface_vfs_refresh(uct_iface_h uct_iface) {
    TernIface& iface = iface_of(uct_iface);
    (void)ucs_vfs_obj_add_ro_file(&iface, show_counters, nullptr, 0, "counters");
    (void)ucs_vfs_obj_add_ro_file(&iface, show_endpoints, nullptr, 0, "endpoints");
}

}  // namespace tern
