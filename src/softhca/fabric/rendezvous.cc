// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/rendezvous.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace softhca {

namespace {

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

Rendezvous::~Rendezvous() {
    if (fd_ >= 0) {
        ::close(fd_);
    }
}

bool Rendezvous::lock(bool create, std::string* error) {
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
        if (status.st_nlink == 0) {  // removed by the last member while we waited
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

std::vector<Rendezvous::Member> Rendezvous::members() const {
    std::vector<Member> list;
    const int copy = ::dup(fd_);
    FILE* file = copy < 0 ? nullptr : ::fdopen(copy, "r");
    if (file == nullptr) {
        if (copy >= 0) {
            ::close(copy);
        }
        return list;
    }
    std::rewind(file);
    Member member;
    unsigned long inode;
    while (std::fscanf(file, "%d %d %lu", &member.pid, &member.fd, &inode) == 3) {
        member.inode = inode;
        list.push_back(member);
    }
    std::fclose(file);
    return list;
}

bool Rendezvous::store(const std::vector<Member>& members, std::string* error) {
    if (members.empty()) {
        ::unlink(path_.c_str());
        return true;
    }
    std::string text;
    for (const Member& member : members) {
        text += std::to_string(member.pid) + " " + std::to_string(member.fd) + " " +
                std::to_string(member.inode) + "\n";
    }
    if (::ftruncate(fd_, 0) != 0 ||
        ::pwrite(fd_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
        *error = failure("cannot write", path_);
        return false;
    }
    return true;
}

int open_member(const Rendezvous::Member& member) {
    const std::string path =
        "/proc/" + std::to_string(member.pid) + "/fd/" + std::to_string(member.fd);
    const int fd = open_retry(path.c_str(), O_RDWR | O_CLOEXEC, 0);
    struct stat status;
    if (fd >= 0 &&
        (::fstat(fd, &status) != 0 || status.st_ino != member.inode || !S_ISREG(status.st_mode))) {
        ::close(fd);
        return -1;
    }
    return fd;
}

}  // namespace softhca
