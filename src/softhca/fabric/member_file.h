// SPDX-License-Identifier: BSD-3-Clause
// The member file lists the processes that have a fabric's memory open, one line "pid descriptor
// inode" each. flock() protects it.
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
    };

    explicit MemberFile(std::string path) : path_(std::move(path)) {}
    ~MemberFile();
    MemberFile(const MemberFile&) = delete;
    MemberFile& operator=(const MemberFile&) = delete;

    // Opens and locks the file; creates it if `create`. False, with *error, if that fails or the
    // file is not private to the user.
    bool lock(bool create, std::string* error);
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
// kGone: the process has died, or the descriptor is of something else. kUnknown: there are too few
// descriptors, or too little memory, to find out.
MemberState open_member(const MemberFile::Member& member, int* fd);

}  // namespace softhca
