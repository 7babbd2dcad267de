// SPDX-License-Identifier: BSD-3-Clause
#include "bench/measure/machine.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "bench/measure/clock.h"
#include "tern/verbs/memory.h"

namespace bench {

Cpus choose_cpus() {
    cpu_set_t allowed;
    if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return std::nullopt;
    int first = -1;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (!CPU_ISSET(cpu, &allowed)) continue;
        if (first >= 0) return std::pair(first, cpu);
        first = cpu;
    }
    return std::nullopt;
}

void stay_on(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (::sched_setaffinity(0, sizeof set, &set) != 0) throw call_failed("sched_setaffinity");
}

std::string placement_text(const Cpus& cpus) {
    if (!cpus) return "both processes on one CPU: figures are worthless";
    std::string text = "processes polling on CPUs " + std::to_string(cpus->first) + " and " +
                       std::to_string(cpus->second);
    if (::sysconf(_SC_NPROCESSORS_ONLN) == 2) text += ", which are all there are";
    return text;
}

std::string load_text() {
    double average = 0;
    if (::getloadavg(&average, 1) != 1) return "unknown";
    return formatted("%.1f", average);
}

MemoryFile::MemoryFile() : fd_(::memfd_create("bench", MFD_CLOEXEC)) {
    if (fd() < 0) throw call_failed("memfd_create");
}

std::string MemoryFile::path() const {
    return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(fd());
}

std::string MemoryFile::text() const {
    std::string text(static_cast<size_t>(::lseek(fd(), 0, SEEK_END)), '\0');
    const ssize_t length = ::pread(fd(), text.data(), text.size(), 0);
    text.resize(static_cast<size_t>(std::max<ssize_t>(length, 0)));
    return text;
}

// The software HCA finds memory of a descriptor that is open without any privilege.
Memory::Memory(Kind kind, size_t size) : size_(size) {
    int fd = -1;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    if (kind == Kind::kShared) {
        fd = file_.emplace().fd();
        flags = MAP_SHARED;
        if (::ftruncate(fd, static_cast<off_t>(size)) != 0) throw call_failed("ftruncate");
    }
    void* mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, flags | MAP_POPULATE, fd, 0);
    if (mapped == MAP_FAILED) throw call_failed("mmap");
    data_ = static_cast<char*>(mapped);
    tern::verbs::touch_pages(data_, size);
}

Memory::~Memory() {
    ::munmap(data_, size_);
}

}  // namespace bench
