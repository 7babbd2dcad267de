// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/fabric/member_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace softhca {

namespace {

constexpr size_t kMaxFileBytes = 1 << 16;

std::string failure(const std::string& what, const std::string& path) {
    return what + " " + path + ": " + std::strerror(errno);
}

int open_retry(const char* path, int flags, mode_t mode) {
    int fd;
    do {
        fd = ::open(path, flags, mode);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

bool lock_file(int fd, MemberFile::Patience patience) {
    constexpr int kTries = 200;
    if (patience == MemberFile::Patience::kForever) {
        int status;
        do {
            status = ::flock(fd, LOCK_EX);
        } while (status < 0 && errno == EINTR);
        return status == 0;
    }
    for (int i = 0; ::flock(fd, LOCK_EX | LOCK_NB) != 0; ++i) {
        if (errno != EWOULDBLOCK || i == kTries) return false;
        ::usleep(1000);
    }
    return true;
}

bool is_private_file(const struct stat& status) {
    return status.st_uid == ::geteuid() && S_ISREG(status.st_mode) && (status.st_mode & 077) == 0;
}

struct flock lock_of_byte(uint64_t byte) {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = static_cast<off_t>(byte);
    lock.l_len = 1;
    return lock;
}

// A byte that no other member has, behind all that the file may contain.
uint64_t any_byte() {
    constexpr uint64_t kBegin = uint64_t{1} << 32;
    uint64_t random = 0;
    if (::getrandom(&random, sizeof random, 0) != sizeof random) return 0;
    return kBegin + random % (uint64_t{1} << 62);
}

}  // namespace

uint64_t own_namespace(const char* kind) {
    struct stat status;
    return ::stat((std::string("/proc/self/ns/") + kind).c_str(), &status) == 0 ? status.st_ino : 0;
}

MemberFile::Member MemberFile::self(int fd, int* lock) const {
    struct stat status;
    Member member{::getpid(), fd, ::fstat(fd, &status) == 0 ? status.st_ino : 0,
                  own_namespace("pid"), any_byte()};
    // A description of its own, whose lock ends with its last descriptor. Nobody removes the file
    // meanwhile, because it is locked.
    *lock = open_retry(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
    struct flock wanted = lock_of_byte(member.byte);
    if (*lock < 0 || member.byte == 0 || ::fcntl(*lock, F_OFD_SETLK, &wanted) != 0) member.byte = 0;
    return member;
}

bool MemberFile::may_live(const Member& member) const {
    if (member.byte == 0) return true;
    struct flock found = lock_of_byte(member.byte);
    return ::fcntl(fd_.get(), F_OFD_GETLK, &found) != 0 || found.l_type != F_UNLCK;
}

bool MemberFile::lock(bool create, std::string* error, Patience patience) {
    for (;;) {
        const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (create ? O_CREAT : 0);
        fd_ = tools::Descriptor(open_retry(path_.c_str(), flags, 0600));
        const int fd = fd_.get();
        if (fd < 0) {
            *error = failure("cannot open", path_);
            return false;
        }
        struct stat status;
        // Checks first: another user could hold the lock of a file of his for ever.
        if (::fstat(fd, &status) == 0 && !is_private_file(status)) {
            *error = path_ + " is not a private file of this user; remove it";
            return false;
        }
        if (!lock_file(fd, patience) || ::fstat(fd, &status) != 0) {
            *error = failure("cannot lock", path_);
            return false;
        }
        // Without a link, the last member removed the file while this process waited.
        if (status.st_nlink != 0) return true;
    }
}

bool MemberFile::members(std::vector<Member>* list, std::string* error) const {
    std::string text(kMaxFileBytes, '\0');
    const ssize_t got = ::pread(fd_.get(), text.data(), text.size(), 0);
    if (got < 0) {
        *error = failure("cannot read", path_);
        return false;
    }
    list->clear();
    text.resize(static_cast<size_t>(got));
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find('\n', at), text.size());
        Member member;
        unsigned long inode;
        unsigned long pid_namespace = 0;
        unsigned long byte = 0;
        if (std::sscanf(text.substr(at, end - at).c_str(), "%d %d %lu %lu %lu", &member.pid,
                        &member.fd, &inode, &pid_namespace, &byte) >= 3) {
            member.inode = inode;
            member.pid_namespace = pid_namespace;
            member.byte = byte;
            list->push_back(member);
        }
        at = end + 1;
    }
    return true;
}

bool MemberFile::store(const std::vector<Member>& members, std::string* error) {
    if (members.empty()) {
        ::unlink(path_.c_str());
        return true;
    }
    std::string text;
    for (const Member& member : members) {
        text += std::to_string(member.pid) + " " + std::to_string(member.fd) + " " +
                std::to_string(member.inode) + " " + std::to_string(member.pid_namespace) + " " +
                std::to_string(member.byte) + "\n";
    }
    // Writes the new list over the old one before it sets the length: if the process dies or the
    // file system is full, living members are still in the file.
    if (::pwrite(fd_.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()) ||
        ::ftruncate(fd_.get(), static_cast<off_t>(text.size())) != 0) {
        *error = failure("cannot write", path_);
        return false;
    }
    return true;
}

namespace {

// Whether a process whose descriptors cannot be read has given up its memory: then it is about to
// end, and the kernel refuses access to what is left.
bool has_no_memory(pid_t pid) {
    FILE* file = std::fopen(("/proc/" + std::to_string(pid) + "/statm").c_str(), "re");
    if (file == nullptr) return errno == ENOENT || errno == ESRCH;
    unsigned long pages = 0;
    const bool read = std::fscanf(file, "%lu", &pages) == 1;
    std::fclose(file);
    return !read || pages == 0;
}

// The path of a member's descriptor, and its status. The first thread may have ended before the
// others: then in another thread. An empty path, with errno, if there is none.
std::string find_descriptor(const MemberFile::Member& member, struct stat* status) {
    const std::string process = "/proc/" + std::to_string(member.pid);
    const std::string descriptor = "/fd/" + std::to_string(member.fd);
    if (::stat((process + descriptor).c_str(), status) == 0) return process + descriptor;
    const int error = errno;
    std::string found;
    if (DIR* tasks = ::opendir((process + "/task").c_str())) {
        while (const dirent* task = ::readdir(tasks)) {
            const std::string path = process + "/task/" + task->d_name + descriptor;
            if (task->d_name[0] == '.' || ::stat(path.c_str(), status) != 0) continue;
            found = path;
            break;
        }
        ::closedir(tasks);
    }
    errno = error;
    return found;
}

MemberState why_not(const MemberFile& file, const MemberFile::Member& member, std::string* why) {
    if (errno == ENOENT || errno == ESRCH) return MemberState::kGone;
    const int error = errno;
    if (!file.may_live(member) || (error == EACCES && has_no_memory(member.pid)))
        return MemberState::kGone;
    if (why != nullptr) {
        *why = "process " + std::to_string(member.pid) +
               " cannot be inspected: " + std::strerror(error) +
               (error == EACCES
                    ? "; it is in another user namespace, as of a container (start both in one), "
                      "or not dumpable (setuid), or a security module forbids it"
                    : "");
    }
    return MemberState::kUnknown;
}

}  // namespace

MemberState open_member(const MemberFile& file, const MemberFile::Member& member, int* fd,
                        std::string* why) {
    *fd = -1;
    if (member.pid_namespace != 0 && member.pid_namespace != own_namespace("pid")) {
        if (!file.may_live(member)) return MemberState::kGone;
        if (why != nullptr) {
            *why = "its process " + std::to_string(member.pid) +
                   " is in another PID namespace, as in a container, where its memory cannot be "
                   "reached; start the containers in one (--pid=host), or use another "
                   "SOFTHCA_FABRIC";
        }
        return MemberState::kUnknown;
    }
    struct stat status;
    // Checks before it opens: the descriptor may be something else by now.
    const std::string path = find_descriptor(member, &status);
    if (path.empty()) return why_not(file, member, why);
    if (!S_ISREG(status.st_mode) || status.st_ino != member.inode) return MemberState::kGone;
    *fd = open_retry(path.c_str(), O_RDWR | O_CLOEXEC, 0);
    return *fd < 0 ? why_not(file, member, why) : MemberState::kPresent;
}

}  // namespace softhca
