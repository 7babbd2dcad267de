// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/fabric/member_file.h"

#include <fcntl.h>
#include <sys/file.h>
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

int flock_retry(int fd) {
    int status;
    do {
        status = ::flock(fd, LOCK_EX);
    } while (status < 0 && errno == EINTR);
    return status;
}

}  // namespace

MemberFile::~MemberFile() {
    if (fd_ >= 0) ::close(fd_);
}

bool MemberFile::lock(bool create, std::string* error) {
    for (;;) {
        const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | (create ? O_CREAT : 0);
        const int fd = open_retry(path_.c_str(), flags, 0600);
        if (fd < 0) {
            *error = failure("cannot open", path_);
            return false;
        }
        struct stat status;
        if (flock_retry(fd) != 0 || ::fstat(fd, &status) != 0) {
            *error = failure("cannot lock", path_);
            ::close(fd);
            return false;
        }
        if (status.st_nlink == 0) {  // the last member removed the file while this process waited
            ::close(fd);
            continue;
        }
        if (status.st_uid != ::geteuid() || !S_ISREG(status.st_mode) ||
            (status.st_mode & 077) != 0) {
            *error = path_ + " is not a private file of this user; remove it";
            ::close(fd);
            return false;
        }
        fd_ = fd;
        return true;
    }
}

bool MemberFile::members(std::vector<Member>* list, std::string* error) const {
    std::string text(kMaxFileBytes, '\0');
    const ssize_t got = ::pread(fd_, text.data(), text.size(), 0);
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
        if (std::sscanf(text.substr(at, end - at).c_str(), "%d %d %lu", &member.pid, &member.fd,
                        &inode) == 3) {
            member.inode = inode;
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
                std::to_string(member.inode) + "\n";
    }
    // Writes the new list over the old one before it sets the length: if the process dies or the
    // file system is full, living members are still in the file.
    if (::pwrite(fd_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()) ||
        ::ftruncate(fd_, static_cast<off_t>(text.size())) != 0) {
        *error = failure("cannot write", path_);
        return false;
    }
    return true;
}

namespace {

// Whether errno means that a process or its descriptor no longer exists. A process that is exiting
// refuses access.
bool is_gone_error() {
    return errno == ENOENT || errno == ESRCH || errno == EACCES;
}

}  // namespace

MemberState open_member(const MemberFile::Member& member, int* fd) {
    const std::string path =
        "/proc/" + std::to_string(member.pid) + "/fd/" + std::to_string(member.fd);
    struct stat status;
    *fd = -1;
    // Checks before it opens: the descriptor may be something else by now.
    if (::stat(path.c_str(), &status) != 0)
        return is_gone_error() ? MemberState::kGone : MemberState::kUnknown;
    if (!S_ISREG(status.st_mode) || status.st_ino != member.inode) return MemberState::kGone;
    *fd = open_retry(path.c_str(), O_RDWR | O_CLOEXEC, 0);
    if (*fd < 0) return is_gone_error() ? MemberState::kGone : MemberState::kUnknown;
    return MemberState::kPresent;
}

}  // namespace softhca
