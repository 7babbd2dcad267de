// SPDX-License-Identifier: BSD-3-Clause
#include "tern/verbs/xrc_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

namespace tern::verbs {

namespace {

// Exclusive locks are held only briefly, unless their holder is stopped.
constexpr int kAttempts = 1000;
constexpr useconds_t kPause = 1000;

}  // namespace

std::optional<XrcFile> XrcFile::open(const std::string& device, std::string& why,
                                     const std::string& folder) {
    const std::string path = folder + "/tern-xrc-" + std::to_string(geteuid()) + "-" + device;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
        if (attempt != 0) usleep(kPause);
        const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0) {
            why = "cannot open " + path + ": " + strerror(errno);
            return std::nullopt;
        }
        XrcFile file(fd, path);
        if (!file.is_ours(why)) return std::nullopt;
        // The last user may have removed the file before it was locked here.
        if (!file.lock(LOCK_SH) || !file.linked()) continue;
        if (!file.read_id()) {
            if (!file.lock(LOCK_EX) || !file.linked()) continue;
            if (!file.read_id() && !file.write_id()) {
                why = "cannot write " + path + ": " + strerror(errno);
                (void)unlink(path.c_str());
                return std::nullopt;
            }
            // Changing the lock is not atomic.
            if (!file.lock(LOCK_SH) || !file.linked()) continue;
        }
        file.owner_ = getpid();
        return file;
    }
    why = path + " is locked";
    return std::nullopt;
}

XrcFile::XrcFile(XrcFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)),
      id_(other.id_),
      owner_(other.owner_) {}

XrcFile::~XrcFile() {
    if (fd_ < 0) return;
    const int saved = errno;
    // A child of fork() shares its parent's lock.
    if (owner_ == getpid() && lock(LOCK_EX) && linked()) (void)unlink(path_.c_str());
    close(fd_);
    errno = saved;
}

bool XrcFile::is_ours(std::string& why) const {
    struct stat status {};
    if (fstat(fd_, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
        (status.st_mode & 07777) == 0600 && status.st_nlink <= 1)
        return true;
    why = path_ + " is not a file of this user's alone";
    return false;
}

// Whether the path still names this file.
bool XrcFile::linked() const {
    struct stat file {};
    struct stat named {};
    return fstat(fd_, &file) == 0 && lstat(path_.c_str(), &named) == 0 &&
           file.st_dev == named.st_dev && file.st_ino == named.st_ino;
}

bool XrcFile::lock(int kind) const {
    return flock(fd_, kind | LOCK_NB) == 0;
}

bool XrcFile::read_id() {
    return pread(fd_, &id_, sizeof(id_), 0) == sizeof(id_) && id_ != 0;
}

bool XrcFile::write_id() {
    std::random_device random;
    do id_ = uint64_t{random()} << 32 | random();
    while (id_ == 0);
    return pwrite(fd_, &id_, sizeof(id_), 0) == sizeof(id_);
}

}  // namespace tern::verbs
