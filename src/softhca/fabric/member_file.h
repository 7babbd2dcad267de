// SPDX-License-Identifier: BSD-3-Clause
// The member file lists the processes that have a fabric's memory open, one line "pid descriptor
// inode namespace" each. flock() protects it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace softhca {

class MemberFile {
  public:
    struct Member {
        pid_t pid;
        int fd;
        uint64_t inode;
        uint64_t pid_namespace = 0;  // its inode
    };
    // For lock(): how long to wait for the lock of another process, which may be stopped.
    enum class Patience { kForever, kFifthOfASecond };

    // The descriptor of this process as a member.
    static Member self(int fd);

    explicit MemberFile(std::string path) : path_(std::move(path)) {}
    ~MemberFile();
    MemberFile(const MemberFile&) = delete;
    MemberFile& operator=(const MemberFile&) = delete;

    // Opens and locks the file; creates it if `create`. False, with *error, if that fails or the
    // file is not private to the user.
    bool lock(bool create, std::string* error, Patience patience = Patience::kForever);
    // Reads the members of a locked file. False, with *error, on failure.
    bool members(std::vector<Member>* list, std::string* error) const;
    // Writes the list of a locked file; removes the file if the list is empty.
    bool store(const std::vector<Member>& members, std::string* error);

  private:
    std::string path_;
    int fd_ = -1;
};

enum class MemberState { kPresent, kGone, kUnknown };

// Opens a member's memory through /proc into *fd, which the caller closes; -1 if not present.
// kGone: the process has died, or the descriptor is of something else. kUnknown, with the reason in
// *why if it is not nullptr: the process may live, but cannot be inspected: it is in another PID
// namespace or not dumpable, or there are too few descriptors.
MemberState open_member(const MemberFile::Member& member, int* fd, std::string* why = nullptr);

}  // namespace softhca
