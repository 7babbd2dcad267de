// SPDX-License-Identifier: BSD-3-Clause
// The member file: who has the fabric's memory open, one line "pid descriptor inode" each, kept
// under flock.
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

    /// Opens and locks the file, making it if `create`. False, with *error, if that can't be done
    /// safely.
    bool lock(bool create, std::string* error);
    /// The listed members; lock() first. False, with *error, if they can't be read.
    bool members(std::vector<Member>* list, std::string* error) const;
    /// Replaces the list; an empty one removes the file.
    bool store(const std::vector<Member>& members, std::string* error);

  private:
    std::string path_;
    int fd_ = -1;
};

enum class MemberState { present, gone, unknown };

/// Opens a member's memory through /proc into *fd, which the caller closes. `gone`: the member is,
/// or its descriptor is something else by now. `unknown`: that can't be told, for want of
/// descriptors or memory.
MemberState open_member(const MemberFile::Member& member, int* fd);

}  // namespace softhca
