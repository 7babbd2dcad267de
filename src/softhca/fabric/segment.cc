// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/fabric/segment.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "softhca/fabric/member_file.h"
#include "softhca/fabric/raw_memory.h"

namespace softhca {

namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Sets the size of the memory file. Most of it is never touched, but a limit of file sizes counts
// it: raises the limit meanwhile, as far as permitted, and holds off SIGXFSZ, which ends a process.
bool set_size(int fd) {
    rlimit before;
    const bool limited = ::getrlimit(RLIMIT_FSIZE, &before) == 0 && before.rlim_cur < kSegmentBytes;
    sigset_t signal;
    sigset_t mask;
    sigemptyset(&signal);
    sigaddset(&signal, SIGXFSZ);
    ::pthread_sigmask(SIG_BLOCK, &signal, &mask);
    if (limited) {
        const rlimit raised{before.rlim_max, before.rlim_max};
        ::setrlimit(RLIMIT_FSIZE, &raised);
    }
    const int status = ::ftruncate(fd, static_cast<off_t>(kSegmentBytes));
    const int error = errno;
    if (limited) ::setrlimit(RLIMIT_FSIZE, &before);
    const timespec now{};
    if (status != 0) ::sigtimedwait(&signal, nullptr, &now);
    ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
    errno = error;
    return status == 0;
}

// Creates a memory file of the segment's size that nobody can resize. -1, with *error, on failure.
int create_memory(std::string* error) {
    const int fd = ::memfd_create("softhca-fabric", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ::fchmod(fd, 0600) != 0 || !set_size(fd) ||
        ::fcntl(fd, F_ADD_SEALS, kSeals) != 0) {
        *error = std::string("cannot create the fabric's memory: ") + std::strerror(errno) +
                 (errno == EFBIG ? "; raise the limit of file sizes (ulimit -f)" : "");
        if (fd >= 0) ::close(fd);
        return -1;
    }
    return fd;
}

// Removes members that have died. *fd becomes a descriptor of a remaining member's memory, or -1;
// then *why, if not nullptr, says why that of remaining members cannot be opened.
void remove_gone_members(const MemberFile& file, std::vector<MemberFile::Member>* members, int* fd,
                         std::string* why = nullptr) {
    *fd = -1;
    std::erase_if(*members, [&file, fd, why](const MemberFile::Member& member) {
        int opened;
        const MemberState state = open_member(file, member, &opened, why);
        if (opened >= 0 && *fd < 0)
            *fd = opened;
        else if (opened >= 0)
            ::close(opened);
        return state == MemberState::kGone;
    });
}

}  // namespace

std::string Segment::member_file_path(const std::string& name) {
    return "/dev/shm/softhca-" + std::to_string(::geteuid()) + "-" + name;
}

std::unique_ptr<Segment> Segment::open(const std::string& name, const FabricConfig& config,
                                       std::string* error) {
    MemberFile file(member_file_path(name));
    if (!file.lock(true, error)) return nullptr;
    std::vector<MemberFile::Member> members;
    if (!file.members(&members, error)) return nullptr;
    int fd;
    std::string why;
    remove_gone_members(file, &members, &fd, &why);
    if (fd < 0 && !members.empty()) {
        *error = "cannot open the memory of fabric '" + name + "': " + why;
        return nullptr;
    }
    const bool fresh = fd < 0;
    if (fresh) {
        fd = create_memory(error);
        if (fd < 0) return nullptr;
    }
    std::unique_ptr<Segment> segment(new Segment(name));
    if (!segment->attach(fd, error)) return nullptr;
    FabricHeader& header = segment->header();
    segment->created_ = fresh;
    if (fresh) {
        header.version = kLayoutVersion;
        header.slot_bytes = sizeof(ProcessSlot);
        header.config = config;
        // A simulation gives the same result each time, and has nobody outside.
        if (config.virtual_time != 0 ||
            ::getrandom(&header.config.subnet, sizeof header.config.subnet, 0) < 0)
            header.config.subnet = 0;
        header.next_domain.store(1, std::memory_order_relaxed);
        header.magic.store(kFabricMagic, std::memory_order_release);
    } else if (header.magic.load(std::memory_order_acquire) != kFabricMagic ||
               header.version != kLayoutVersion || header.slot_bytes != sizeof(ProcessSlot)) {
        *error = "fabric '" + name +
                 "' belongs to another version of libsofthca; use another SOFTHCA_FABRIC";
        return nullptr;
    }
    members.push_back(file.self(segment->fd_, &segment->lock_));
    segment->byte_ = members.back().byte;
    if (!file.store(members, error)) return nullptr;
    return segment;
}

bool Segment::attach(int fd, std::string* error) {
    fd_ = fd;
    struct stat status;
    if (::fstat(fd, &status) != 0 || static_cast<uint64_t>(status.st_size) != kSegmentBytes ||
        (::fcntl(fd, F_GET_SEALS) & kSeals) != kSeals) {
        *error = "fabric '" + name_ +
                 "' belongs to another version of libsofthca; use another SOFTHCA_FABRIC";
        return false;
    }
    void* mapped = raw_mmap(kHeaderBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == nullptr) {
        *error = std::string("cannot map the fabric's memory: ") + std::strerror(errno);
        return false;
    }
    header_ = static_cast<FabricHeader*>(mapped);
    return true;
}

ArenaTables* Segment::map_arena(uint32_t slot) {
    void* mapped = raw_mmap(kArenaBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_,
                            arena_offset(slot));
    if (mapped == nullptr) return nullptr;
    ::madvise(mapped, kArenaBytes, MADV_DONTDUMP);
    ArenaTables* expected = nullptr;
    auto* tables = static_cast<ArenaTables*>(mapped);
    if (!arenas_[slot].compare_exchange_strong(expected, tables, std::memory_order_acq_rel)) {
        raw_munmap(mapped, kArenaBytes);
        return expected;
    }
    return tables;
}

void Segment::punch_arena(uint32_t slot) {
    ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                static_cast<off_t>(arena_offset(slot)), static_cast<off_t>(kArenaBytes));
}

void Segment::leave() {
    MemberFile file(member_file_path(name_));
    std::string error;
    // Without the lock, the next process that joins removes this one.
    if (!file.lock(false, &error, MemberFile::Patience::kFifthOfASecond)) return;
    std::vector<MemberFile::Member> members;
    if (!file.members(&members, &error)) return;
    std::erase_if(members, [this](const MemberFile::Member& member) {
        return member.pid == ::getpid() && member.fd == fd_ && member.byte == byte_;
    });
    int other;
    remove_gone_members(file, &members, &other);
    if (other >= 0) ::close(other);
    file.store(members, &error);
}

bool Segment::remove_if_unused(const std::string& name, std::string* error) {
    MemberFile file(member_file_path(name));
    errno = 0;
    if (!file.lock(false, error)) return errno == ENOENT;
    std::vector<MemberFile::Member> members;
    int fd;
    if (!file.members(&members, error)) return false;
    remove_gone_members(file, &members, &fd);
    if (fd >= 0) ::close(fd);
    if (!file.store(members, error)) return false;
    if (!members.empty()) {
        *error =
            "fabric '" + name + "' is in use by process " + std::to_string(members.front().pid);
        return false;
    }
    return true;
}

Segment::~Segment() {
    for (auto& arena : arenas_)
        if (ArenaTables* tables = arena.load(std::memory_order_relaxed))
            raw_munmap(tables, kArenaBytes);
    if (header_ != nullptr) raw_munmap(header_, kHeaderBytes);
    if (fd_ >= 0) ::close(fd_);
    disown();
}

void Segment::disown() {
    if (lock_ >= 0) ::close(lock_);
    lock_ = -1;
}

}  // namespace softhca
