// SPDX-License-Identifier: BSD-3-Clause
// What UCX and the transports must not have in a simulation, or must have another of: threads,
// random numbers, the machine's clock rate.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/types.h>

#include <cerrno>
#include <cstdint>

#include "bench/sim/machine.h"

namespace bench::sim {
namespace {

bool may_start = true;

// Each run has the same numbers.
uint64_t random_number() {
    static uint64_t state = 0;
    state = state * 6364136223846793005 + 1442695040888963407;
    return state >> 16;
}

}  // namespace

void let_threads_start(bool let) {
    may_start = let;
}

}  // namespace bench::sim

using bench::sim::random_number;
// Exported, so that the libraries call these and not the libraries' own.
#define REPLACED extern "C" __attribute__((visibility("default")))

// Without threads Tern watches memory by hooks, and cleans up in the calls of the program.
REPLACED int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                            void* (*body)(void*), void* argument) noexcept {
    static const auto real =
        reinterpret_cast<decltype(&pthread_create)>(::dlsym(RTLD_NEXT, "pthread_create"));
    return bench::sim::may_start ? real(thread, attributes, body, argument) : EAGAIN;
}

// Of two that connect to each other, the numbers say whose connection is kept.
REPLACED uint64_t ucs_generate_uuid(uint64_t) {
    return random_number();
}
REPLACED int rand_r(unsigned*) noexcept {
    return static_cast<int>(random_number() & 0x7fffffff);
}
REPLACED ssize_t getrandom(void* to, size_t size, unsigned) {
    for (size_t i = 0; i < size; ++i)
        static_cast<unsigned char*>(to)[i] = static_cast<unsigned char>(random_number());
    return static_cast<ssize_t>(size);
}
// std::random_device::_M_getval().
REPLACED unsigned _ZNSt13random_device9_M_getvalEv(void*) {  // NOLINT
    return static_cast<unsigned>(random_number());
}

// UCX measures it.
REPLACED double ucs_get_cpu_clocks_per_sec() {
    return bench::sim::kGigahertz * 1e9;
}
