// SPDX-License-Identifier: BSD-3-Clause
// The kernel can let RDTSC trap. That takes microseconds, and some virtual machines ignore it, so
// the instructions of Tern, which knows where they are, become jumps to code that returns what a
// trap would.
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <ucontext.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "bench/measure/clock.h"
#include "bench/sim/machine.h"

namespace bench::sim {

#if defined(__x86_64__)
// As RDTSC, changes no register but two: %eax and %edx get the counter.
asm(R"(
.pushsection .text
.globl tern_sim_read_counter
.hidden tern_sim_read_counter
.type tern_sim_read_counter, @function
tern_sim_read_counter:
    pushq %rbp
    movq %rsp, %rbp
    pushfq
    pushq %rcx
    pushq %rsi
    pushq %rdi
    pushq %r8
    pushq %r9
    pushq %r10
    pushq %r11
    subq $512, %rsp
    andq $-16, %rsp
    fxsave64 (%rsp)
    cld
    call tern_sim_ticks
    fxrstor64 (%rsp)
    leaq -64(%rbp), %rsp
    movq %rax, %rdx
    shrq $32, %rdx
    movl %eax, %eax
    popq %r11
    popq %r10
    popq %r9
    popq %r8
    popq %rdi
    popq %rsi
    popq %rcx
    popfq
    popq %rbp
    ret
.size tern_sim_read_counter, . - tern_sim_read_counter
.popsection
)");
extern "C" void tern_sim_read_counter();

namespace {

constexpr unsigned char kRead[] = {0x0f, 0x31};                         // RDTSC
constexpr unsigned char kReadWithProcessor[] = {0x0f, 0x01, 0xf9};      // RDTSCP
constexpr unsigned char kTernsRead[] = {0x2e, 0x2e, 0x2e, 0x0f, 0x31};  // RDTSC, with prefixes

uint64_t (*counter)() = nullptr;
volatile bool trapped = false;

}  // namespace

extern "C" [[gnu::used, gnu::visibility("hidden")]] uint64_t tern_sim_ticks() {
    return counter();
}

namespace {

template <size_t size>
bool is(const unsigned char* code, const unsigned char (&instruction)[size]) {
    return std::memcmp(code, instruction, size) == 0;
}

// Executes the instruction in virtual time.
void on_trap(int signal, siginfo_t*, void* context) {
    auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    const auto* code = reinterpret_cast<const unsigned char*>(registers[REG_RIP]);
    const bool with_processor = is(code, kReadWithProcessor);
    if (counter == nullptr || (!with_processor && !is(code, kRead))) {
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

// A jump to an address.
struct [[gnu::packed]] Jump {
    unsigned char operation = 0xe9;
    int32_t distance;

    Jump(const void* from, const void* to)
        : distance(static_cast<int32_t>(reinterpret_cast<intptr_t>(to) -
                                        reinterpret_cast<intptr_t>(from) - sizeof(Jump))) {}
};
static_assert(sizeof(Jump) == sizeof kTernsRead);

// What is executed in the place of a read of Tern's: below the 128 bytes that a function may use
// without reserving them, it calls the code that all of them share.
struct [[gnu::packed]] Detour {
    unsigned char make_room[5] = {0x48, 0x8d, 0x64, 0x24, 0x80};  // lea -128(%rsp),%rsp
    unsigned char call[6] = {0xff, 0x15, 16, 0, 0, 0};            // call *shared(%rip)
    unsigned char give_back[8] = {0x48, 0x8d, 0xa4, 0x24, 0x80, 0x00, 0x00, 0x00};  // lea 128(...)
    Jump back;
    unsigned char unused[3] = {};
    const void* shared;

    Detour(unsigned char* read, const void* code)
        : back(&back, read + sizeof kTernsRead), shared(code) {}
};
static_assert(offsetof(Detour, shared) == offsetof(Detour, give_back) + 16);

void write_code(unsigned char* at, const void* code, size_t size) {
    const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto begin = reinterpret_cast<uintptr_t>(at) / page * page;
    const size_t length = reinterpret_cast<uintptr_t>(at) + size - begin;
    auto* const pages = reinterpret_cast<void*>(begin);
    if (::mprotect(pages, length, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
        throw Failure("the kernel does not let code be changed");
    std::memcpy(at, code, size);
    ::mprotect(pages, length, PROT_READ | PROT_EXEC);
}

// A page for code, so near that jumps reach it.
unsigned char* page_near(const unsigned char* code, size_t bytes) {
    constexpr uintptr_t kStep = 1 << 20;
    const uintptr_t at = reinterpret_cast<uintptr_t>(code) / kStep * kStep;
    for (uintptr_t distance = kStep; distance < uintptr_t{1} << 30; distance += kStep) {
        void* const page = ::mmap(reinterpret_cast<void*>(at - distance), bytes,
                                  PROT_READ | PROT_WRITE | PROT_EXEC,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (page != MAP_FAILED) return static_cast<unsigned char*>(page);
    }
    throw Failure("the kernel has no room for code");
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

std::vector<unsigned char*> reads_of(const std::string& name) {
    using Reads = const int32_t*(const int32_t**);
    std::vector<unsigned char*> found;
    void* const library = ::dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) return found;
    auto* const reads = reinterpret_cast<Reads*>(::dlsym(library, "tern_counter_reads"));
    const int32_t* end = nullptr;
    for (const int32_t* read = reads != nullptr ? reads(&end) : end; read != end; ++read)
        found.push_back(reinterpret_cast<unsigned char*>(reinterpret_cast<uintptr_t>(read) +
                                                         static_cast<intptr_t>(*read)));
    ::dlclose(library);
    return found;
}

// Their detours stay: a thread may be in them.
void replace_reads(bool virtually) {
    static std::vector<unsigned char*> replaced;
    if (!virtually) {
        for (unsigned char* const read : replaced) write_code(read, kTernsRead, sizeof kTernsRead);
        replaced.clear();
        return;
    }
    for (const std::string& name : copies_of_tern()) {
        const std::vector<unsigned char*> reads = reads_of(name);
        if (reads.empty()) continue;
        unsigned char* detour = page_near(reads.front(), reads.size() * sizeof(Detour));
        for (unsigned char* const read : reads) {
            if (!is(read, kTernsRead)) continue;
            new (detour) Detour(read, reinterpret_cast<const void*>(&tern_sim_read_counter));
            const Jump jump(read, detour);
            write_code(read, &jump, sizeof jump);
            replaced.push_back(read);
            detour += sizeof(Detour);
        }
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
    }
    counter = ticks;
    if (::prctl(PR_SET_TSC, trap ? PR_TSC_SIGSEGV : PR_TSC_ENABLE) != 0)
        throw Failure("the kernel does not let the processor's time-stamp counter be virtual");
    replace_reads(trap);
    return !trap || reads_trap();
}
#else
bool replace_counter(uint64_t (*ticks)()) {
    if (ticks != nullptr) throw Failure("simulations need a processor of type x86-64");
    return true;
}
#endif

}  // namespace bench::sim
