// SPDX-License-Identifier: BSD-3-Clause
#include "tern/pinning/watch/watched_ranges.h"

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
constexpr __u64 kAccess = 0x07;
constexpr __u64 kShared = 0x08;

struct Mapping {
    uint64_t start = 0;
    uint64_t end = 0;
    bool is_private = false;  // and comes from no file
    bool reserved = false;    // without any access
};

// Puts the mappings around a range together.
class Around {
  public:
    Around(uint64_t start, uint64_t end) : start_(start), end_(end) {}

    // Takes the mappings in the order of their addresses, the one before the range included. False:
    // no more of them is needed.
    bool take(const Mapping& next) {
        if (next.end <= start_) {
            before_ = next;
            return true;
        }
        const bool gap = next.start > (begun_ ? whole_.end : start_);
        if (gap || !next.is_private) {
            whole_.other = !gap && !complete();
            return false;
        }
        if (!begun_) {
            const bool joins = before_.end == next.start && before_.is_private && before_.reserved;
            whole_.start = joins ? before_.start : next.start;
            begun_ = true;
        } else if (whole_.end >= end_) {
            whole_.followed = reserve_taken_ || !next.reserved;
            if (whole_.followed) return false;
            reserve_taken_ = true;
        }
        whole_.end = next.end;
        return true;
    }
    bool complete() const { return begun_ && whole_.end >= end_; }
    const Mappings& whole() const { return whole_; }

  private:
    const uint64_t start_;
    const uint64_t end_;
    Mapping before_;
    Mappings whole_;
    bool begun_ = false;
    bool reserve_taken_ = false;
};

struct Close {
    void operator()(FILE* file) const { fclose(file); }
};

// 1: there is a mapping at this address, 0: there is none, -1: this kernel has no such query.
int ask(int fd, uint64_t address, Mapping& mapping) {
    MapQuery query{};
    query.size = sizeof(query);
    query.address = address;
    if (ioctl(fd, kMapQuery, &query) != 0) return errno == ENOENT ? 0 : -1;
    mapping = {.start = query.start,
               .end = query.end,
               .is_private = query.inode == 0 && (query.vma_flags & kShared) == 0,
               .reserved = (query.vma_flags & kAccess) == 0};
    return 1;
}

// False: this kernel has no such query.
bool ask_around(int fd, uint64_t start, Around& around) {
    Mapping mapping;
    Mapping before;
    int answer = ask(fd, start, mapping);
    if (answer <= 0) return answer == 0;
    if (mapping.start != 0 && ask(fd, mapping.start - 1, before) > 0) (void)around.take(before);
    while (answer > 0 && around.take(mapping)) answer = ask(fd, mapping.end, mapping);
    return answer >= 0;
}

void read_around(FILE* maps, Around& around) {
    char line[512];
    bool whole = true;  // the previous line was read to its end
    while (fgets(line, sizeof(line), maps) != nullptr) {
        const bool begins = whole;
        whole = strchr(line, '\n') != nullptr;
        unsigned long long first = 0;
        unsigned long long last = 0;
        unsigned long long inode = 0;
        char rights[5] = "";
        if (!begins) continue;
        if (sscanf(line, "%llx-%llx %4s %*x %*x:%*x %llu", &first, &last, rights, &inode) != 4)
            return;
        if (!around.take({.start = first,
                          .end = last,
                          .is_private = inode == 0 && rights[3] == 'p',
                          .reserved = strncmp(rights, "---", 3) == 0}))
            return;
    }
}

}  // namespace

bool private_mappings(uint64_t start, uint64_t end, Mappings& whole, bool by_query) {
    const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    Around around(start, end);
    if (by_query && ask_around(fd, start, around)) {
        close(fd);
    } else {
        const std::unique_ptr<FILE, Close> maps(fdopen(fd, "r"));
        if (maps) read_around(maps.get(), around);
        if (!maps) close(fd);
    }
    whole = around.whole();
    return around.complete();
}

}  // namespace tern
