// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/fabric/process_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "softhca/core/line_order.h"
#include "softhca/core/ordered_copy.h"
#include "softhca/fabric/member_file.h"

namespace softhca {

namespace {

constexpr uint64_t kTailBytes = 8;  // the part that programs poll: stored last
constexpr uint64_t kLineBytes = 64;
constexpr uint32_t kMaxPieces = 1024;  // of a list in one call: UIO_MAXIOV of the kernel

void copy_list(const IovList& to, const IovList& from) {
    uint32_t to_index = 0;
    uint64_t to_offset = 0;
    for (uint32_t from_index = 0; from_index < from.count(); ++from_index) {
        const iovec& source = from.data()[from_index];
        for (uint64_t done = 0; done < source.iov_len;) {
            const iovec& target = to.data()[to_index];
            const uint64_t length = std::min(source.iov_len - done, target.iov_len - to_offset);
            ordered_copy(static_cast<char*>(target.iov_base) + to_offset,
                         static_cast<char*>(source.iov_base) + done, length);
            done += length;
            to_offset += length;
            if (to_offset == target.iov_len) {
                ++to_index;
                to_offset = 0;
            }
        }
    }
}

// The lines of a copy to `target`, one of the two lists, in the order in which they are to appear.
LineOrder lines_of(const IovList& target) {
    return {reinterpret_cast<uintptr_t>(target.data()[0].iov_base), target.length()};
}

void copy_lines(const IovList& to, const IovList& from) {
    for (LineOrder lines = lines_of(to); !lines.done();) {
        const auto [offset, length] = lines.next();
        copy_list(to.slice(offset, length), from.slice(offset, length));
    }
}

// A position in a list.
class Position {
  public:
    explicit Position(const IovList& list) : entry_(list.data()) {}
    char* at() const { return static_cast<char*>(entry_->iov_base) + offset_; }
    uint64_t left() const { return entry_->iov_len - offset_; }
    void advance(uint64_t length) {
        offset_ += length;
        if (offset_ < entry_->iov_len) return;
        ++entry_;
        offset_ = 0;
    }

  private:
    const iovec* entry_;
    uint64_t offset_ = 0;
};

using Call = decltype(process_vm_writev);  // or process_vm_readv()

ssize_t copy_tail_last(Call* call, pid_t process, const IovList& local, const IovList& remote) {
    IovList pieces = local;
    pieces.split_tail(kTailBytes);
    return call(process, pieces.data(), pieces.count(), remote.data(), remote.count(), 0);
}

// Copies so that the bytes of `target`, one of the two lists, become visible in ascending order.
// The kernel copies a piece, or its part of a page, by one string instruction (rep movsb). The
// stores of one such instruction become visible in any order, by whole cache lines; those of
// separate ones are ordered (Intel SDM, volume 3, 8.2.4). Therefore each line of the target is a
// piece of its own: with pieces of two lines, a reader on an AMD EPYC still found lines out of
// order.
ssize_t copy_in_order(Call* call, pid_t process, const IovList& local, const IovList& remote,
                      const IovList& target) {
    iovec pieces[kMaxPieces];
    Position here(local);
    Position to(target);
    const uint64_t length = remote.length();
    for (uint64_t done = 0; done < length;) {
        const uint64_t begin = done;
        uint32_t count = 0;
        while (done < length && count < kMaxPieces) {
            const uint64_t line =
                kLineBytes - (reinterpret_cast<uintptr_t>(to.at()) & (kLineBytes - 1));
            const uint64_t rest = length - done;
            const uint64_t piece = std::min(
                {line, here.left(), to.left(), rest > kTailBytes ? rest - kTailBytes : rest});
            pieces[count++] = {here.at(), piece};
            here.advance(piece);
            to.advance(piece);
            done += piece;
        }
        const IovList there = remote.slice(begin, done - begin);
        const ssize_t copied = call(process, pieces, count, there.data(), there.count(), 0);
        if (copied < 0) return copied;
        if (static_cast<uint64_t>(copied) != done - begin)
            return static_cast<ssize_t>(begin) + copied;
    }
    return static_cast<ssize_t>(length);
}

// The elements of one call.
class Pieces {
  public:
    bool has_room() const { return count_ + kMaxSge + 3 <= kMaxPieces; }
    void add(const IovList& list) {
        std::copy_n(list.data(), list.count(), pieces_ + count_);
        count_ += list.count();
    }
    const iovec* data() const { return pieces_; }
    uint32_t count() const { return count_; }

  private:
    iovec pieces_[kMaxPieces];
    uint32_t count_ = 0;
};

// Copies the lines of a relaxed target, each as a piece of its own, as copy_in_order() does.
ssize_t copy_lines_by(Call* call, pid_t process, const IovList& local, const IovList& remote,
                      LineOrder lines) {
    ssize_t all = 0;
    while (!lines.done()) {
        Pieces here, there;
        ssize_t bytes = 0;
        while (!lines.done() && here.has_room() && there.has_room()) {
            const auto [offset, length] = lines.next();
            here.add(local.slice(offset, length));
            there.add(remote.slice(offset, length));
            bytes += static_cast<ssize_t>(length);
        }
        const ssize_t copied =
            call(process, here.data(), here.count(), there.data(), there.count(), 0);
        if (copied < 0) return copied;
        all += copied;
        if (copied != bytes) break;
    }
    return all;
}

// Whether the mappings of [begin, end) of this process permit writing.
bool maps_writable(uint64_t begin, uint64_t end) {
    FILE* maps = std::fopen("/proc/self/maps", "re");
    if (maps == nullptr) return true;
    char line[512];
    while (begin < end && std::fgets(line, sizeof line, maps) != nullptr) {
        unsigned long from, to;
        char flags[5];
        if (std::sscanf(line, "%lx-%lx %4s", &from, &to, flags) == 3 && begin >= from &&
            begin < to && flags[1] == 'w')
            begin = to;
    }
    std::fclose(maps);
    return begin >= end;
}

// Whether this process can read every page of the list, and also write it if `write`. Changes
// nothing, because the program may be writing there.
bool accessible(const IovList& list, bool write) {
    const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    for (uint32_t i = 0; i < list.count(); ++i) {
        const auto begin = reinterpret_cast<uint64_t>(list.data()[i].iov_base);
        const uint64_t end = begin + list.data()[i].iov_len;
        for (uint64_t at = begin; at < end; at = (at | (page - 1)) + 1) {
            char byte = 0;
            iovec here{&byte, 1};
            iovec there{reinterpret_cast<void*>(at), 1};
            if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != 1) return false;
        }
        if (write && !maps_writable(begin, end)) return false;
    }
    return true;
}

// The number behind `key` in a file of /proc; -1 if there is none.
int number_in(const char* path, const char* key) {
    int number = -1;
    if (FILE* file = std::fopen(path, "re")) {
        char line[256];
        while (number < 0 && std::fgets(line, sizeof line, file) != nullptr) {
            if (std::strncmp(line, key, std::strlen(key)) == 0)
                number = std::atoi(line + std::strlen(key));
        }
        std::fclose(file);
    }
    return number;
}

// 0, or the errno of copies that nothing but a filter or the kernel itself can refuse: of no bytes,
// from and to this process.
int refused_to_all() {
    const bool both = process_vm_readv(getpid(), nullptr, 0, nullptr, 0, 0) == 0 &&
                      process_vm_writev(getpid(), nullptr, 0, nullptr, 0, 0) == 0;
    return both ? 0 : errno;
}

// Why the kernel refuses to copy to or from a process, and what to do.
const char* cause_of_refusal(uint64_t user_namespace) {
    if (refused_to_all() != 0) {
        return number_in("/proc/self/status", "Seccomp:\t") > 0
                   ? "a seccomp filter forbids it, as in containers; permit process_vm_readv and "
                     "process_vm_writev in the filter, or grant the capability SYS_PTRACE"
                   : "the kernel has no process_vm_readv and process_vm_writev "
                     "(CONFIG_CROSS_MEMORY_ATTACH), or a security module forbids them";
    }
    const int scope = number_in("/proc/sys/kernel/yama/ptrace_scope", "");
    if (scope == 2) {
        return "Yama forbids it (kernel.yama.ptrace_scope is 2); set 0 or 1, or grant the "
               "capability SYS_PTRACE";
    }
    if (scope > 2) return "Yama forbids it until the next boot (kernel.yama.ptrace_scope is 3)";
    if (user_namespace != own_namespace("user"))
        return "it is in another user namespace, as in a container; start both in one";
    return "it is not dumpable (setuid), or has other capabilities";
}

}  // namespace

uint64_t IovList::length() const {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count_; ++i) sum += entries_[i].iov_len;
    return sum;
}

IovList IovList::slice(uint64_t offset, uint64_t length) const {
    IovList result;
    result.relaxed_ = relaxed_;
    for (uint32_t i = 0; i < count_ && length != 0; ++i) {
        if (offset >= entries_[i].iov_len) {
            offset -= entries_[i].iov_len;
            continue;
        }
        const uint64_t take = std::min(length, entries_[i].iov_len - offset);
        result.add(reinterpret_cast<uint64_t>(entries_[i].iov_base) + offset, take);
        length -= take;
        offset = 0;
    }
    return result;
}

void IovList::split_tail(uint64_t tail) {
    if (count_ == 0 || entries_[count_ - 1].iov_len <= tail) return;
    iovec& last = entries_[count_ - 1];
    const uint64_t head = last.iov_len - tail;
    last.iov_len = head;
    entries_[count_++] = {static_cast<char*>(last.iov_base) + head, tail};
}

bool ProcessMemory::map_peer(uint32_t slot, const KeyEntry* key, const IovList& remote,
                             IovList* mapped) {
    if (is_virtual_time()) {
        *mapped = remote;  // all members are in this process
        return true;
    }
    return key != nullptr && key->share_id != 0 &&
           maps_.translate(slot, *key, remote.data(), remote.count(), mapped);
}

CopyResult ProcessMemory::copy(uint32_t slot, const KeyEntry* key, const Sides& sides,
                               Order order) {
    const uint64_t length = sides.remote.length();
    if (length == 0) return CopyResult::kOk;
    const IovList& target = sides.writes ? sides.remote : sides.local;
    IovList mapped;
    if (map_peer(slot, key, sides.remote, &mapped)) {
        const auto copy_all = target.relaxed() ? copy_lines : copy_list;
        sides.writes ? copy_all(mapped, sides.local) : copy_all(sides.local, mapped);
        return CopyResult::kOk;
    }
    if (!host_.alive(slot)) return CopyResult::kGone;
    const pid_t process = host_.pid(slot);
    Call* const call = sides.writes ? process_vm_writev : process_vm_readv;
    const ssize_t copied =
        target.relaxed() ? copy_lines_by(call, process, sides.local, sides.remote, lines_of(target))
        : order == Order::kAscending
            ? copy_in_order(call, process, sides.local, sides.remote, target)
            : copy_tail_last(call, process, sides.local, sides.remote);
    return finish(slot, copied, length, sides.local, sides.writes);
}

void ProcessMemory::explain_refusal(uint32_t slot, int error) {
    if (explained_.test_and_set()) return;
    std::fprintf(stderr,
                 "softhca: cannot access the memory of process %d: %s: %s. Transfers to and from "
                 "memory that is not shared fail.\n",
                 static_cast<int>(host_.pid(slot)), std::strerror(error),
                 cause_of_refusal(host_.process(slot).user_namespace));
}

void ProcessMemory::try_members() {
    if (is_virtual_time()) return;  // all members are in this process
    if (const int error = refused_to_all(); error != 0) explain_refusal(host_.slot(), error);
    host_.for_each_member([this](uint32_t slot) {
        if (!host_.alive(slot)) return;
        const Witness witness = host_.process(slot).witness;
        uint64_t value;
        const iovec here{&value, sizeof value};
        const iovec there{reinterpret_cast<void*>(witness.address), sizeof value};
        const ssize_t got = process_vm_readv(host_.pid(slot), &here, 1, &there, 1, 0);
        if (got < 0 && errno == EPERM && host_.alive(slot)) explain_refusal(slot, EPERM);
    });
}

// The result of a copy by process id. The process that is alive afterwards has been so all the
// time: the id was not another one's, and no other program ran in it.
CopyResult ProcessMemory::finish(uint32_t slot, ssize_t copied, uint64_t length,
                                 const IovList& local, bool local_is_source) {
    const int error = copied < 0 ? errno : EFAULT;
    if (error == ESRCH || !host_.alive(slot)) return CopyResult::kGone;
    if (copied == static_cast<ssize_t>(length)) return CopyResult::kOk;
    const NoCancellation no_cancellation;  // the caller may hold locks of the fabric
    if (error == EPERM || error == ENOSYS) explain_refusal(slot, error);
    if (error == EFAULT && !accessible(local, !local_is_source)) return CopyResult::kLocalFault;
    return CopyResult::kRemoteFault;
}

}  // namespace softhca
