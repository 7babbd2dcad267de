// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/fabric/address_space.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

namespace softhca {

namespace {

enum class Memory { kMember, kOther, kUnknown };

// What memory a task uses. The kernel refuses to open that of a task that has given it up, and
// reads nothing from memory without users. All threads of a process use the same memory.
Memory memory_of(const std::string& task, const Witness& witness) {
    const int fd = ::open((task + "/mem").c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return Memory::kUnknown;
    uint64_t value = 0;
    const ssize_t got = ::pread(fd, &value, sizeof value, static_cast<off_t>(witness.address));
    ::close(fd);
    return got == sizeof value && value == witness.value ? Memory::kMember : Memory::kOther;
}

// The first thread may have ended before the others. The kernel leaves out threads if one ends
// while it lists them.
Memory memory_of_any_thread(const std::string& process, const Witness& witness) {
    DIR* directory = ::opendir((process + "/task").c_str());
    if (directory == nullptr) return Memory::kUnknown;
    Memory memory = Memory::kUnknown;
    while (const dirent* entry = ::readdir(directory)) {
        if (entry->d_name[0] != '.' && memory == Memory::kUnknown)
            memory = memory_of(process + "/task/" + entry->d_name, witness);
    }
    ::closedir(directory);
    return memory;
}

// Whether a process of this user has a thread that has not ended; one that is a zombie has none.
bool has_threads(const std::string& process) {
    struct stat status;
    if (::stat(process.c_str(), &status) != 0 || status.st_uid != ::geteuid()) return false;
    FILE* file = std::fopen((process + "/stat").c_str(), "re");
    if (file == nullptr) return errno != ENOENT && errno != ESRCH;
    char line[512] = {};
    const bool read = std::fgets(line, sizeof line, file) != nullptr;
    std::fclose(file);
    const char* name_end = std::strrchr(line, ')');
    if (!read || name_end == nullptr) return false;
    char state = 0;
    int threads = 0;
    const int found = std::sscanf(name_end + 1,
                                  " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                                  "%*s %d",
                                  &state, &threads);
    return found != 2 || (state != 'Z' && state != 'X') || threads > 1;
}

}  // namespace

Witness make_witness(uint64_t* value) {
    if (::getrandom(value, sizeof *value, 0) != sizeof *value)
        *value = static_cast<uint64_t>(::getpid()) << 32 | reinterpret_cast<uintptr_t>(value);
    return {reinterpret_cast<uint64_t>(value), *value};
}

bool address_space_in_use(pid_t pid, const Witness& witness) {
    const std::string process = "/proc/" + std::to_string(pid);
    Memory memory = memory_of(process, witness);
    if (memory == Memory::kUnknown) memory = memory_of_any_thread(process, witness);
    return memory == Memory::kUnknown ? has_threads(process) : memory == Memory::kMember;
}

}  // namespace softhca
