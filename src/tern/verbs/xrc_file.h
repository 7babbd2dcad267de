// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace tern::verbs {

// The small file that names an XRC domain: the processes of a user that open the same file share
// the domain. Each process holds a shared lock, and the last process to close the file removes it.
// If that process is killed, the last of the file's later users removes it.
class XrcFile {
  public:
    static constexpr const char* kFolder = "/dev/shm";

    // Opens or creates the file of this user and `device` in `folder`. Empty on failure, and if
    // other users have access to the file; `why` says why.
    static std::optional<XrcFile> open(const std::string& device, std::string& why,
                                       const std::string& folder = kFolder);
    ~XrcFile();
    XrcFile(XrcFile&& other) noexcept;
    XrcFile& operator=(XrcFile&& other) = delete;

    int fd() const { return fd_; }
    // Random, not 0: distinguishes the domain from all others, on any machine.
    uint64_t id() const { return id_; }
    const std::string& path() const { return path_; }

  private:
    XrcFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
    bool is_ours(std::string& why) const;
    bool linked() const;
    bool lock(int kind) const;
    bool read_id();
    bool write_id();

    int fd_;
    std::string path_;
    uint64_t id_ = 0;
    pid_t owner_ = 0;
};

}  // namespace tern::verbs
