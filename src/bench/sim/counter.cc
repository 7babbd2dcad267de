// SPDX-License-Identifier: BSD-3-Clause
// The kernel can let RDTSC trap. Some virtual machines ignore that, so the instructions of Tern,
// which knows where they are, become ones that always trap.
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <ucontext.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "bench/measure/clock.h"
#include "bench/sim/machine.h"

namespace bench::sim {

#if defined(__x86_64__)
namespace {

constexpr unsigned char kRead[] = {0x0f, 0x31};                     // RDTSC
constexpr unsigned char kReadWithProcessor[] = {0x0f, 0x01, 0xf9};  // RDTSCP
constexpr unsigned char kUndefined[] = {0x0f, 0x0b};                // UD2

uint64_t (*counter)() = nullptr;
volatile bool trapped = false;

template <size_t size>
bool is(const unsigned char* code, const unsigned char (&instruction)[size]) {
    return std::memcmp(code, instruction, size) == 0;
}

// Executes the instruction in virtual time.
void on_trap(int signal, siginfo_t*, void* context) {
    auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    const auto* code = reinterpret_cast<const unsigned char*>(registers[REG_RIP]);
    const bool with_processor = is(code, kReadWithProcessor);
    if (counter == nullptr || (!with_processor && !is(code, kRead) && !is(code, kUndefined))) {
        ::signal(signal, SIG_DFL);  // another fault: the instruction is repeated
        return;
    }
    trapped = true;
    const uint64_t ticks = counter();
    registers[REG_RAX] = static_cast<greg_t>(ticks & 0xffffffff);
    registers[REG_RDX] = static_cast<greg_t>(ticks >> 32);
    if (with_processor) registers[REG_RCX] = 0;
    registers[REG_RIP] += with_processor ? 3 : 2;
}

void write_code(unsigned char* at, const unsigned char (&instruction)[2]) {
    const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto begin = reinterpret_cast<uintptr_t>(at) / page * page;
    const size_t length = reinterpret_cast<uintptr_t>(at) + sizeof instruction - begin;
    auto* const pages = reinterpret_cast<void*>(begin);
    if (::mprotect(pages, length, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
        throw Failure("the kernel does not let code be changed");
    std::memcpy(at, instruction, sizeof instruction);
    ::mprotect(pages, length, PROT_READ | PROT_EXEC);
}

// Each copy of Tern that is loaded.
std::vector<std::string> copies_of_tern() {
    std::vector<std::string> names;
    ::dl_iterate_phdr(
        [](dl_phdr_info* object, size_t, void* found) {
            if (std::strstr(object->dlpi_name, "libuct_tern") != nullptr)
                static_cast<std::vector<std::string>*>(found)->emplace_back(object->dlpi_name);
            return 0;
        },
        &names);
    return names;
}

void replace_reads(const unsigned char (&from)[2], const unsigned char (&to)[2]) {
    using Reads = const int32_t*(const int32_t**);
    for (const std::string& name : copies_of_tern()) {
        void* const library = ::dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
        if (library == nullptr) continue;
        auto* const reads = reinterpret_cast<Reads*>(::dlsym(library, "tern_counter_reads"));
        const int32_t* end = nullptr;
        for (const int32_t* read = reads != nullptr ? reads(&end) : end; read != end; ++read) {
            auto* const code = reinterpret_cast<unsigned char*>(reinterpret_cast<uintptr_t>(read) +
                                                                static_cast<intptr_t>(*read));
            if (is(code, from)) write_code(code, to);
        }
        ::dlclose(library);
    }
}

// Whether the kernel's promise holds.
bool reads_trap() {
    trapped = false;
    asm volatile("rdtsc" : : : "eax", "edx");
    return trapped;
}

}  // namespace

bool replace_counter(uint64_t (*ticks)()) {
    const bool trap = ticks != nullptr;
    if (trap) {
        struct sigaction action = {};
        action.sa_sigaction = on_trap;
        action.sa_flags = SA_SIGINFO;
        ::sigaction(SIGSEGV, &action, nullptr);
        ::sigaction(SIGILL, &action, nullptr);
    }
    counter = ticks;
    if (::prctl(PR_SET_TSC, trap ? PR_TSC_SIGSEGV : PR_TSC_ENABLE) != 0)
        throw Failure("the kernel does not let the processor's time-stamp counter be virtual");
    replace_reads(trap ? kRead : kUndefined, trap ? kUndefined : kRead);
    return !trap || reads_trap();
}
#else
bool replace_counter(uint64_t (*ticks)()) {
    if (ticks != nullptr) throw Failure("simulations need a processor of type x86-64");
    return true;
}
#endif

}  // namespace bench::sim
