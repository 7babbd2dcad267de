// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace tern::verbs {

// The small file that names an XRC domain: the processes of a user that open the same one share the
// domain. Whoever uses it holds a shared lock; the last to close it removes it, and so does the
// last of those who come after one that was killed.
class XrcFile {
  public:
    static constexpr const char* kFolder = "/dev/shm";

    // Opens the file of this user and `device` in `folder`, or makes it. Empty if there is none to
    // be had, or it is not this user's alone; `why` says what is wrong.
    static std::optional<XrcFile> open(const std::string& device, std::string& why,
                                       const std::string& folder = kFolder);
    ~XrcFile();
    XrcFile(XrcFile&& other) noexcept;
    XrcFile& operator=(XrcFile&& other) = delete;

    int fd() const { return fd_; }
    // Random, not 0: tells the domain from others, also from those of other machines.
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
