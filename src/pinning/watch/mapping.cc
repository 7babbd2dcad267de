// SPDX-License-Identifier: BSD-3-Clause
#include "pinning/watch/mapping.h"

#include <fcntl.h>
#include <linux/ioctl.h>
#include <linux/types.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace tern {

namespace {

// PROCMAP_QUERY of Linux 6.11, which an older linux/fs.h lacks.
struct MapQuery {
    __u64 size;
    __u64 flags;
    __u64 address;
    __u64 start;
    __u64 end;
    __u64 vma_flags;
    __u64 page_size;
    __u64 offset;
    __u64 inode;
    __u32 major;
    __u32 minor;
    __u32 name_size;
    __u32 build_id_size;
    __u64 name;
    __u64 build_id;
};
static_assert(sizeof(MapQuery) == 104);
constexpr unsigned long kMapQuery = _IOWR('f', 17, MapQuery);
constexpr __u64 kShared = 0x08;

struct Close {
    void operator()(FILE* file) const { fclose(file); }
};

// As private_anonymous(). 1: yes, 0: no, -1: this kernel has no such query.
int ask(int fd, uint64_t start, uint64_t end) {
    while (start < end) {
        MapQuery query{};
        query.size = sizeof(query);
        query.address = start;
        if (ioctl(fd, kMapQuery, &query) != 0) return errno == ENOENT ? 0 : -1;
        if (query.inode != 0 || (query.vma_flags & kShared) != 0 || query.end <= start) return 0;
        start = query.end;
    }
    return 1;
}

}  // namespace

bool private_anonymous(uint64_t start, uint64_t end) {
    const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    if (const int answer = ask(fd, start, end); answer >= 0) {
        close(fd);
        return answer > 0;
    }
    const std::unique_ptr<FILE, Close> maps(fdopen(fd, "r"));
    if (!maps) {
        close(fd);
        return false;
    }
    char line[512];
    bool whole = true;  // the previous line was read to its end
    while (start < end && fgets(line, sizeof(line), maps.get()) != nullptr) {
        const bool begins = whole;
        whole = strchr(line, '\n') != nullptr;
        unsigned long long first = 0;
        unsigned long long last = 0;
        unsigned long long inode = 0;
        char rights[5] = "";
        if (!begins) continue;
        if (sscanf(line, "%llx-%llx %4s %*x %*x:%*x %llu", &first, &last, rights, &inode) != 4)
            return false;
        if (last <= start) continue;
        if (first > start || inode != 0 || rights[3] != 'p') return false;
        start = last;
    }
    return start >= end;
}

}  // namespace tern
