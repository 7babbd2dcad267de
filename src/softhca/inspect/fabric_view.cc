// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/inspect/fabric_view.h"

#include <dirent.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "softhca/fabric/member_file.h"
#include "softhca/fabric/segment.h"

namespace softhca {

std::unique_ptr<FabricView> FabricView::open(const std::string& name, std::string* error) {
    std::unique_ptr<FabricView> view(new FabricView);
    if (!view->find_memory(name, error) || !view->attach(name, error)) return nullptr;
    return view;
}

FabricView::~FabricView() {
    if (header_ != nullptr) ::munmap(static_cast<void*>(header_), kHeaderBytes);
    if (fd_ >= 0) ::close(fd_);
}

bool FabricView::find_memory(const std::string& name, std::string* error) {
    MemberFile file(Segment::member_file_path(name));
    errno = 0;
    if (!file.lock(false, error)) {
        if (errno == ENOENT) *error = "nobody is in fabric '" + name + "'";
        return false;
    }
    std::vector<MemberFile::Member> members;
    error->clear();
    if (!file.members(&members, error)) return false;
    for (const MemberFile::Member& member : members) {
        int fd;
        if (open_member(file, member, &fd, error) != MemberState::kPresent) continue;
        members_.push_back(member.pid);
        if (fd_ < 0)
            fd_ = fd;
        else
            ::close(fd);
    }
    if (fd_ < 0 && error->empty()) *error = "nobody is in fabric '" + name + "'";
    return fd_ >= 0;
}

bool FabricView::attach(const std::string& name, std::string* error) {
    struct stat status;
    *error = "fabric '" + name + "' belongs to another version of libsofthca";
    if (::fstat(fd_, &status) != 0 || static_cast<uint64_t>(status.st_size) != kSegmentBytes)
        return false;
    void* mapped = ::mmap(nullptr, kHeaderBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    if (mapped == MAP_FAILED) {
        *error = std::string("cannot map the fabric's memory: ") + std::strerror(errno);
        return false;
    }
    header_ = static_cast<FabricHeader*>(mapped);
    return header_->magic.load(std::memory_order_acquire) == kFabricMagic &&
           header_->version == kLayoutVersion && header_->slot_bytes == sizeof(ProcessSlot);
}

bool FabricView::alive(const ProcessSlot& process) const {
    if (process.state() != SlotState::kAlive) return false;
    return std::ranges::find(members_, process.pid.load(std::memory_order_relaxed)) !=
           members_.end();
}

std::vector<std::string> FabricView::names() {
    const std::string path = Segment::member_file_path("");
    const size_t slash = path.rfind('/');
    const std::string prefix = path.substr(slash + 1);
    std::vector<std::string> found;
    DIR* folder = ::opendir(path.substr(0, slash).c_str());
    if (folder == nullptr) return found;
    while (const dirent* entry = ::readdir(folder)) {
        const std::string_view file = entry->d_name;
        if (file.starts_with(prefix)) found.emplace_back(file.substr(prefix.size()));
    }
    ::closedir(folder);
    std::ranges::sort(found);
    return found;
}

}  // namespace softhca
