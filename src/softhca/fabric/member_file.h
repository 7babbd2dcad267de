// SPDX-License-Identifier: BSD-3-Clause
// The member file lists the processes that have a fabric's memory open, one line "pid descriptor
// inode namespace byte" each. flock() protects it. Each member keeps a byte of the file locked as
// long as it lives, which processes of other PID namespaces see, too.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/descriptor.h"

namespace softhca {

class MemberFile {
  public:
    struct Member {
        pid_t pid;
        int fd;
        uint64_t inode;
        uint64_t pid_namespace = 0;  // its inode
        uint64_t byte = 0;           // far behind the end of the file; 0: none
    };
    // For lock(): how long to wait for the lock of another process, which may be stopped.
    enum class Patience { kForever, kFifthOfASecond };

    explicit MemberFile(std::string path) : path_(std::move(path)) {}

    // Opens and locks the file; creates it if `create`. False, with *error, if that fails or the
    // file is not private to the user.
    bool lock(bool create, std::string* error, Patience patience = Patience::kForever);
    // This process as a member with the descriptor `fd` of the memory. Locks a byte of the locked
    // file as long as *lock is open, which is -1 if that is not possible.
    Member self(int fd, int* lock) const;
    // Whether the member's byte is locked, or it has none.
    bool may_live(const Member& member) const;
    // Reads the members of a locked file. False, with *error, on failure.
    bool members(std::vector<Member>* list, std::string* error) const;
    // Writes the list of a locked file; removes the file if the list is empty.
    bool store(const std::vector<Member>& members, std::string* error);

  private:
    std::string path_;
    tools::Descriptor fd_;
};

enum class MemberState { kPresent, kGone, kUnknown };

// Opens the memory of a member of the locked file through /proc into *fd, which the caller closes;
// -1 if not present. kGone: the process has died, or the descriptor is of something else. kUnknown,
// with the reason in *why if it is not nullptr: the process lives, but cannot be inspected: it is
// in another PID namespace or not dumpable, or there are too few descriptors.
MemberState open_member(const MemberFile& file, const MemberFile::Member& member, int* fd,
                        std::string* why = nullptr);

// The inode of this process's namespace of a kind, as "pid"; 0: unknown.
uint64_t own_namespace(const char* kind);

}  // namespace softhca
