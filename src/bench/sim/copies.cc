// SPDX-License-Identifier: BSD-3-Clause
// Copies of memory take the processor's time: those of the program and of the transports, which
// call memcpy(). The device's own copies take none.
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "bench/sim/machine.h"

namespace bench::sim {
namespace {

// Shorter copies count as part of the transport's instructions.
constexpr size_t kLeast = 64;

// The addresses of the device's library.
struct Range {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    bool holds(const void* address) const {
        const auto at = reinterpret_cast<uintptr_t>(address);
        return begin <= at && at < end;
    }
};

Range object_of(const void* address) {
    struct Search {
        uintptr_t wanted;
        Range found;
    } search{reinterpret_cast<uintptr_t>(address), {}};
    ::dl_iterate_phdr(
        [](dl_phdr_info* object, size_t, void* argument) {
            Range range{~uintptr_t{0}, 0};
            for (int i = 0; i < object->dlpi_phnum; ++i) {
                const auto& part = object->dlpi_phdr[i];
                if (part.p_type != PT_LOAD) continue;
                const uintptr_t begin = object->dlpi_addr + part.p_vaddr;
                range.begin = std::min(range.begin, begin);
                range.end = std::max(range.end, begin + part.p_memsz);
            }
            auto& wanted = *static_cast<Search*>(argument);
            if (wanted.wanted < range.begin || wanted.wanted >= range.end) return 0;
            wanted.found = range;
            return 1;
        },
        &search);
    return search.found;
}

Machine* charged = nullptr;
Range device_code;

}  // namespace

void charge_copies(Machine* to) {
    device_code = object_of(::dlsym(RTLD_DEFAULT, "softhca_virtual_clock"));
    charged = to;
}

}  // namespace bench::sim

// Replaces the C library's for this program and all libraries in it.
extern "C" __attribute__((visibility("default"))) void* memcpy(void* to, const void* from,
                                                               size_t size) noexcept {
    using namespace bench::sim;
    if (charged != nullptr && size >= kLeast && !device_code.holds(__builtin_return_address(0)))
        charged->copy(size);
    return ::memmove(to, from, size);
}
