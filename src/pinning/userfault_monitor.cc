// SPDX-License-Identifier: BSD-3-Clause
#include "pinning/userfault_monitor.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <new>

#include "pinning/mapping.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

namespace tern {

namespace {

constexpr uint64_t kEvents =
    UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_REMAP;

// Whether a change is under way, given the answer to a change of protections without arguments.
bool under_way(int fd) {
    return ioctl(fd, UFFDIO_WRITEPROTECT, nullptr) != 0 && errno == EAGAIN;
}

}  // namespace

std::unique_ptr<UserfaultMonitor> UserfaultMonitor::create(Inbox& inbox,
                                                           std::function<void()> told) {
    std::unique_ptr<UserfaultMonitor> monitor(new UserfaultMonitor(inbox, std::move(told)));
    if (!monitor->open()) return nullptr;
    return monitor;
}

bool UserfaultMonitor::open() {
    constexpr int kFlags = O_CLOEXEC | O_NONBLOCK;
    fd_ = static_cast<int>(syscall(SYS_userfaultfd, kFlags | UFFD_USER_MODE_ONLY));
    // Before Linux 5.11 there was no such flag.
    if (fd_ < 0 && errno == EINVAL) fd_ = static_cast<int>(syscall(SYS_userfaultfd, kFlags));
    if (fd_ < 0) return false;
    close_in_child(fd_);
    uffdio_api api{};
    api.api = UFFD_API;
    api.features = kEvents;
    if (ioctl(fd_, UFFDIO_API, &api) != 0) return false;
    stop_fd_ = eventfd(0, EFD_CLOEXEC);
    if (stop_fd_ < 0) return false;
    close_in_child(stop_fd_);

    // Write-protect mode came with Linux 5.7; nothing else is known to lack it.
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    void* memory = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return false;
    const auto start = reinterpret_cast<uintptr_t>(memory);
    const bool works = register_range(start, start + page) && !under_way(fd_) && errno == EFAULT &&
                       unregister_range(start, start + page);
    munmap(memory, page);
    return works;
}

UserfaultMonitor::~UserfaultMonitor() {
    if (guard_.inherited()) return;  // fork closed the descriptors, and there is no thread
    if (running_) {
        // While the reader still reads: a process forked by other means than fork() may keep the
        // descriptor open, and nobody would read what is sent to it.
        for (const auto& [start, end] : registered_) unregister_range(start, end);
        // What is under way now is the last.
        for (int i = 0; i < 10000 && !settled(); ++i) usleep(100);
        const uint64_t one = 1;
        while (write(stop_fd_, &one, sizeof(one)) < 0 && errno == EINTR) {
        }
        pthread_join(reader_, nullptr);
    }
    close_descriptors();
}

void UserfaultMonitor::close_descriptors() {
    for (const int fd : {stop_fd_, fd_}) {
        if (fd < 0) continue;
        keep_in_child(fd);
        close(fd);
    }
}

bool UserfaultMonitor::register_range(uint64_t start, uint64_t end) const {
    uffdio_register request{};
    request.range = {start, end - start};
    request.mode = UFFDIO_REGISTER_MODE_WP;
    return ioctl(fd_, UFFDIO_REGISTER, &request) == 0;
}

bool UserfaultMonitor::unregister_range(uint64_t start, uint64_t end) const {
    uffdio_range range{start, end - start};
    return ioctl(fd_, UFFDIO_UNREGISTER, &range) == 0;
}

bool UserfaultMonitor::start() {
    if (running_ || failed_) return running_;
    // Signals are for the program's threads.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const auto body = [](void* self) -> void* {
        pthread_setname_np(pthread_self(), "tern-monitor");
        static_cast<UserfaultMonitor*>(self)->run();
        return nullptr;
    };
    running_ = pthread_create(&reader_, nullptr, body, this) == 0;
    failed_ = !running_;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return running_;
}

bool UserfaultMonitor::watch(uint64_t start, uint64_t end) {
    if (!this->start()) return false;
    // While a change is under way the mapping may be a new one, and what is known of the old one.
    if (ranges_.contains(start, end) && settled()) return true;
    // Others can take the pages of shared memory and of files, and nobody tells.
    if (!private_anonymous(start, end)) return false;
    while (ranges_.size() >= kMostRanges) give_up_one();
    if (registered_.size() >= 2 * kMostRanges) registered_ = ranges_;
    // EBUSY: another userfaultfd has it.
    if (!register_range(start, end)) return false;
    try {
        registered_.add(start, end);
        ranges_.add(start, end);
    } catch (const std::bad_alloc&) {
        return false;
    }
    return true;
}

// Ends the watch of one range after the other, in turn.
void UserfaultMonitor::give_up_one() {
    const auto [start, end] = ranges_.after(given_up_);
    given_up_ = end;
    inbox_.put({start, end, true, false});
    ranges_.remove(start, end);
    unregister_range(start, end);
}

void UserfaultMonitor::changed(const MemoryChange& change) {
    if (!change.unmapped) return;
    ranges_.remove(change.start, change.end);
    if (change.end == UINT64_MAX) return;  // too many changes to tell: the kernel knows better
    registered_.remove(change.start, change.end);
    if (change.moved_to == 0) return;
    try {
        registered_.add(change.moved_to, change.moved_to + (change.end - change.start));
    } catch (const std::bad_alloc&) {
    }
}

bool UserfaultMonitor::settled() {
    // In this order: an event that is not under way any more was read while the reader was busy.
    return !running_ || (!under_way(fd_) && !busy_.load(std::memory_order_seq_cst));
}

void UserfaultMonitor::run() {
    pollfd polled[] = {{fd_, POLLIN, 0}, {stop_fd_, POLLIN, 0}};
    for (;;) {
        if (poll(polled, 2, -1) < 0) {
            // No reason to stop: who unmaps memory waits for us.
            polled[1].revents = 0;
            usleep(1000);
        }
        const bool told = read_events();
        if (told) told_();
        if (!told && (polled[1].revents & POLLIN) != 0) return;
    }
}

// Reads what there is. False if there was nothing.
bool UserfaultMonitor::read_events() {
    uffd_msg events[16];
    bool told = false;
    busy_.store(true, std::memory_order_seq_cst);
    for (;;) {
        const ssize_t size = read(fd_, events, sizeof(events));
        if (size < static_cast<ssize_t>(sizeof(events[0]))) break;
        const size_t count = static_cast<size_t>(size) / sizeof(events[0]);
        for (size_t i = 0; i < count; ++i) {
            const auto& what = events[i].arg;
            switch (events[i].event) {
                case UFFD_EVENT_UNMAP:
                    inbox_.put({what.remove.start, what.remove.end, true, false});
                    break;
                case UFFD_EVENT_REMOVE:
                    inbox_.put({what.remove.start, what.remove.end, false, true});
                    break;
                case UFFD_EVENT_REMAP:
                    inbox_.put({what.remap.from, what.remap.from + what.remap.len, true, false,
                                what.remap.to});
                    break;
                default:
                    break;
            }
        }
        told = true;
    }
    busy_.store(false, std::memory_order_seq_cst);
    return told;
}

}  // namespace tern
