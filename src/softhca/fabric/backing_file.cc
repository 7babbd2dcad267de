// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/fabric/backing_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace softhca {

namespace {

struct Mapping {
    uint64_t start;
    uint64_t end;
    uint64_t offset;
    uint64_t inode;
    dev_t device;
    bool shared;
    char path[256];
};

// PROCMAP_QUERY (Linux 6.11) finds one mapping without reading all of them.
struct ProcmapQuery {
    uint64_t size, query_flags, query_addr;
    uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
    uint32_t dev_major, dev_minor, vma_name_size, build_id_size;
    uint64_t vma_name_addr, build_id_addr;
};
constexpr unsigned long kProcmapQuery = _IOWR('f', 17, ProcmapQuery);
constexpr uint64_t kVmaWritable = 2;
constexpr uint64_t kVmaShared = 8;

// nullopt: the kernel does not support the request.
std::optional<bool> query_mapping(int maps, uint64_t address, Mapping* mapping) {
    ProcmapQuery query{};
    query.size = sizeof query;
    query.query_addr = address;
    query.vma_name_addr = reinterpret_cast<uint64_t>(mapping->path);
    query.vma_name_size = sizeof mapping->path;
    if (::ioctl(maps, kProcmapQuery, &query) != 0)
        return errno == ENOENT ? std::optional<bool>(false) : std::nullopt;
    mapping->start = query.vma_start;
    mapping->end = query.vma_end;
    mapping->offset = query.vma_offset;
    mapping->inode = query.inode;
    mapping->device = makedev(query.dev_major, query.dev_minor);
    mapping->shared =
        (query.vma_flags & (kVmaShared | kVmaWritable)) == (kVmaShared | kVmaWritable);
    return true;
}

bool read_mapping(int maps, uint64_t address, Mapping* mapping) {
    FILE* file = ::fdopen(::dup(maps), "r");
    if (file == nullptr) return false;
    char line[512];
    bool found = false;
    while (!found && std::fgets(line, sizeof line, file) != nullptr) {
        unsigned long start, end, offset, inode;
        unsigned int device_major, device_minor;
        char flags[5];
        mapping->path[0] = '\0';
        if (std::sscanf(line, "%lx-%lx %4s %lx %x:%x %lu %255[^\n]", &start, &end, flags, &offset,
                        &device_major, &device_minor, &inode, mapping->path) < 7)
            continue;
        found = address >= start && address < end;
        mapping->start = start;
        mapping->end = end;
        mapping->offset = offset;
        mapping->inode = inode;
        mapping->device = makedev(device_major, device_minor);
        mapping->shared = flags[1] == 'w' && flags[3] == 's';
    }
    std::fclose(file);
    return found;
}

bool find_mapping(uint64_t address, Mapping* mapping) {
    const int maps = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (maps < 0) return false;
    const std::optional<bool> answer = query_mapping(maps, address, mapping);
    const bool found = answer ? *answer : read_mapping(maps, address, mapping);
    ::close(maps);
    return found;
}

// Whether the descriptor is open on the file of the mapping, and that file is in memory.
bool is_backing(int fd, const Mapping& mapping) {
    constexpr long kTmpfsMagic = 0x01021994;
    constexpr long kHugetlbfsMagic = 0x958458f6;
    struct stat status;
    struct statfs file_system;
    return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_ino == mapping.inode &&
           status.st_dev == mapping.device && ::fstatfs(fd, &file_system) == 0 &&
           (file_system.f_type == kTmpfsMagic || file_system.f_type == kHugetlbfsMagic);
}

int open_if_backing(const char* path, const Mapping& mapping) {
    const int fd = ::open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && !is_backing(fd, mapping)) {
        ::close(fd);
        return -1;
    }
    return fd;
}

// A memfd has no path, but the program may still have its descriptor.
int open_own_descriptor(const Mapping& mapping) {
    DIR* directory = ::opendir("/proc/self/fd");
    if (directory == nullptr) return -1;
    int found = -1;
    while (const dirent* entry = ::readdir(directory)) {
        const int fd = std::atoi(entry->d_name);
        if (entry->d_name[0] != '.' && is_backing(fd, mapping)) {
            found = open_if_backing(("/proc/self/fd/" + std::to_string(fd)).c_str(), mapping);
            break;
        }
    }
    ::closedir(directory);
    return found;
}

int open_backing(const Mapping& mapping) {
    char link[64];
    std::snprintf(link, sizeof link, "/proc/self/map_files/%lx-%lx", mapping.start, mapping.end);
    int fd = open_if_backing(link, mapping);  // needs a privilege
    if (fd < 0 && mapping.path[0] == '/') fd = open_if_backing(mapping.path, mapping);
    return fd >= 0 ? fd : open_own_descriptor(mapping);
}

// The open descriptors of backing files, one for each file.
class OpenFiles {
  public:
    // The descriptor of the mapping's file; -1 if the file cannot be opened.
    int acquire(const Mapping& mapping) {
        const std::lock_guard lock(mutex_);
        File& file = files_[{mapping.device, mapping.inode}];
        if (file.users == 0) file.fd = open_backing(mapping);
        if (file.fd < 0) {
            files_.erase({mapping.device, mapping.inode});
            return -1;
        }
        ++file.users;
        return file.fd;
    }

    void release(int fd) {
        const std::lock_guard lock(mutex_);
        const auto it =
            std::ranges::find_if(files_, [fd](const auto& entry) { return entry.second.fd == fd; });
        if (it != files_.end() && --it->second.users == 0) {
            ::close(fd);
            files_.erase(it);
        }
    }

    // For fork(): no other thread is in here meanwhile, and the child begins without files.
    void lock() { mutex_.lock(); }
    void unlock() { mutex_.unlock(); }
    void forget() {
        for (const auto& [name, file] : files_) ::close(file.fd);
        files_.clear();
    }

  private:
    struct File {
        int fd = -1;
        uint32_t users = 0;
    };
    std::mutex mutex_;
    std::map<std::pair<dev_t, uint64_t>, File> files_;
};

OpenFiles* const all_open_files = new OpenFiles;

// Never destroyed: threads may deregister while the process exits. Made when the library is loaded:
// a child whose parent was making it during the fork would wait for it for ever.
OpenFiles& open_files() {
    return *all_open_files;
}

[[maybe_unused]] const int kForkHandlers =
    pthread_atfork([] { open_files().lock(); }, [] { open_files().unlock(); },
                   [] {
                       open_files().forget();
                       open_files().unlock();
                   });

}  // namespace

BackingFile find_backing_file(uint64_t address, uint64_t length) {
    Mapping mapping;
    if (!find_mapping(address, &mapping) || !mapping.shared || address + length > mapping.end)
        return {};
    return {open_files().acquire(mapping), mapping.inode,
            mapping.offset + (address - mapping.start)};
}

void release_backing_file(const BackingFile& file) {
    if (file.fd >= 0) open_files().release(file.fd);
}

}  // namespace softhca
