// SPDX-License-Identifier: BSD-3-Clause
#include "tern/pinning/watch/userfault_source.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

#include "common/blocked_signals.h"
#include "tern/base/shortage.h"
#include "tern/base/trace.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

namespace tern {

namespace {

constexpr uint64_t kEvents =
    UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_REMAP;

// Whether a change is under way. If so, the kernel refuses a change of protections with EAGAIN,
// before it looks at the arguments; if not, it refuses one of no memory with EINVAL. (A null
// argument would cost a page fault, a microsecond.)
bool under_way(int fd) {
    static constexpr uffdio_writeprotect kNoMemory{};
    return ioctl(fd, UFFDIO_WRITEPROTECT, &kNoMemory) != 0 && errno == EAGAIN;
}

// Mappings that the kernel allows a process, or 0.
size_t most_mappings() {
    size_t most = 0;
    if (FILE* const file = fopen("/proc/sys/vm/max_map_count", "re")) {
        if (fscanf(file, "%zu", &most) != 1) most = 0;
        fclose(file);
    }
    return most;
}

// The thread that was the first to need the reader may be bound to a processor that another one
// keeps busy, or take precedence over others, whose munmap() would wait for the reader.
void run_anywhere() {
    cpu_set_t all;
    memset(&all, 0xff, sizeof(all));
    (void)sched_setaffinity(0, sizeof(all), &all);
    const sched_param usual{};
    (void)sched_setscheduler(0, SCHED_OTHER, &usual);
}

}  // namespace

std::shared_ptr<UserfaultSource> UserfaultSource::get() {
    const std::lock_guard lock(process_lock());
    static std::weak_ptr<UserfaultSource> the_one;
    std::shared_ptr<UserfaultSource> source = the_one.lock();
    if (source && !source->guard_.inherited()) return source;
    source.reset(new UserfaultSource);
    if (!source->open()) return nullptr;
    the_one = source;
    return source;
}

bool UserfaultSource::open() {
    constexpr int kFlags = O_CLOEXEC | O_NONBLOCK;
    fd_ = static_cast<int>(syscall(SYS_userfaultfd, kFlags | UFFD_USER_MODE_ONLY));
    // Linux before 5.11 does not have the flag.
    if (fd_ < 0 && errno == EINVAL) fd_ = static_cast<int>(syscall(SYS_userfaultfd, kFlags));
    if (fd_ < 0) return false;
    close_in_child(fd_);
    uffdio_api api{};
    api.api = UFFD_API;
    api.features = kEvents;
    if (ioctl(fd_, UFFDIO_API, &api) != 0) return false;
    if (const size_t allowed = most_mappings(); allowed != 0)
        most_ = std::min<size_t>(kMostWatched, std::max<size_t>(allowed / 16, 1));
    stop_fd_ = eventfd(0, EFD_CLOEXEC);
    if (stop_fd_ < 0) return false;
    close_in_child(stop_fd_);

    // Write-protect mode came with Linux 5.7: a trial shows whether it works.
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    void* memory = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return false;
    const auto first = reinterpret_cast<uintptr_t>(memory);
    const bool works = register_range(first, first + page) && !under_way(fd_) && errno == EINVAL &&
                       unregister_range(first, first + page);
    munmap(memory, page);
    return works;
}

UserfaultSource::~UserfaultSource() {
    if (guard_.inherited()) return;  // the child has no reader, and fork closed the descriptors
    if (running_) {
        // While the reader still reads: a process forked by other means than fork() may keep the
        // descriptor open, and no thread would read the events.
        for (const auto& [first, last] : registered_) unregister_range(first, last);
        // The changes that are under way now are the last.
        for (int i = 0; i < 10000 && !settled(); ++i) usleep(100);
        const uint64_t one = 1;
        while (write(stop_fd_, &one, sizeof(one)) < 0 && errno == EINTR) {
        }
        pthread_join(reader_, nullptr);
    }
    for (const int fd : {stop_fd_, fd_}) {
        if (fd < 0) continue;
        keep_in_child(fd);
        close(fd);
    }
}

bool UserfaultSource::subscribe(Subscriber* subscriber) {
    for (auto& slot : subscribers_)
        if (Subscriber* none = nullptr; slot.compare_exchange_strong(none, subscriber)) return true;
    return false;
}

void UserfaultSource::unsubscribe(Subscriber* subscriber) {
    for (auto& slot : subscribers_)
        if (Subscriber* that = subscriber; slot.compare_exchange_strong(that, nullptr)) break;
    while (reading_ || ending_ != 0) std::this_thread::yield();
}

void UserfaultSource::report(const MemoryChange& change) {
    events_.put(change);
    for (auto& slot : subscribers_)
        if (Subscriber* subscriber = slot) subscriber->inbox.put(change);
}

bool UserfaultSource::register_range(uint64_t first, uint64_t last) const {
    uffdio_register request{};
    request.range = {first, last - first};
    request.mode = UFFDIO_REGISTER_MODE_WP;
    return ioctl(fd_, UFFDIO_REGISTER, &request) == 0;
}

bool UserfaultSource::unregister_range(uint64_t first, uint64_t last) const {
    uffdio_range range{first, last - first};
    return ioctl(fd_, UFFDIO_UNREGISTER, &range) == 0;
}

bool UserfaultSource::start() {
    if (running_ || failed_) return running_;
    const base::BlockedSignals blocked;
    const auto body = [](void* self) -> void* {
        pthread_setname_np(pthread_self(), "tern-monitor");
        run_anywhere();
        static_cast<UserfaultSource*>(self)->run();
        static_cast<UserfaultSource*>(self)->close_events();
        return nullptr;
    };
    running_ = pthread_create(&reader_, nullptr, body, this) == 0;
    failed_ = !running_;
    // A thread that begins may allocate memory (an address sanitizer's does), whose lock others
    // hold while they change watched memory.
    if (running_) reads_.wait(false);
    return running_;
}

bool UserfaultSource::refuses(uint64_t start, uint64_t end) {
    progress();
    const std::lock_guard lock(mutex_);
    if (noisy_.has(start, end, NoisyMappings::Clock::now())) return true;
    if (registered_.size() < most_ || registered_.contains(start, end)) return false;
    return ++refused_ % kWatchedInTurn != 0;
}

size_t UserfaultSource::watched() {
    const std::lock_guard lock(mutex_);
    return registered_.size();
}

void UserfaultSource::allow_changes(unsigned most) {
    const std::lock_guard lock(mutex_);
    noisy_.allow(most);
}

// Called under the lock, as is the next function. No change is settled from before the events end
// until all subscribers have the report.
void UserfaultSource::end(uint64_t first, uint64_t last) {
    // The mapping may have become longer.
    if (Mappings now; private_mappings(first, last, now)) {
        first = std::min(first, now.start);
        last = std::max(last, now.end);
    }
    ++ending_;
    unregister_range(first, last);
    registered_.remove(first, last);
    report({first, last, true});
    --ending_;
}

void UserfaultSource::handle(const MemoryChange& change) {
    if (change.end == UINT64_MAX) return;  // events are missing: some ranges will be there in vain
    const auto [first, last] = registered_.at(change.start);
    const bool noisy = last != 0 && noisy_.count(first, last, NoisyMappings::Clock::now());
    if (change.unmapped) registered_.remove(change.start, change.end);
    if (change.moved_to != 0) {
        try {
            registered_.add(change.moved_to, change.moved_to + (change.end - change.start));
        } catch (const std::bad_alloc&) {
        }
    }
    if (noisy) end(first, last);
}

bool UserfaultSource::begin(const Mappings& whole) {
    const std::lock_guard lock(mutex_);
    if (registered_.size() >= most_ && !registered_.contains(whole.start, whole.end)) {
        const auto [first, last] = registered_.after(turn_);
        turn_ = last;
        if (!std::exchange(told_, true)) TERN_DEBUG("%s", scarce::kWatched.line(ENOMEM).c_str());
        end(first, last);
    }
    if (!start() || !register_range(whole.start, whole.end)) return false;
    try {
        registered_.add(whole.start, whole.end);
    } catch (const std::bad_alloc&) {
    }
    return true;
}

void UserfaultSource::progress() {
    if (events_.empty()) return;
    const std::lock_guard lock(mutex_);
    events_.take_all([this](const MemoryChange& change) { handle(change); });
}

bool UserfaultSource::settled() const {
    // In this order: an event that is not under way any more was read with `reading_` set.
    return !under_way(fd_) && quiet();
}

void UserfaultSource::run() {
    reads_ = true;
    reads_.notify_one();
    pollfd polled[] = {{fd_, POLLIN, 0}, {stop_fd_, POLLIN, 0}};
    for (;;) {
        if (poll(polled, 2, -1) < 0) {
            // The reader must go on: calls that unmap memory wait for it.
            polled[1].revents = 0;
            usleep(1000);
        }
        if (!read_events() && (polled[1].revents & POLLIN) != 0) break;
    }
    // What the thread that wrote this did before, above all with fd_, has happened now; poll()
    // alone does not say so to a thread sanitizer.
    uint64_t one = 0;
    while (read(stop_fd_, &one, sizeof(one)) < 0 && errno == EINTR) {
    }
}

// By the reader, which may unmap memory when it ends (an address sanitizer's thread does). If that
// is still watched, because a change of memory and its report have crossed, nobody would read the
// event.
void UserfaultSource::close_events() {
    const std::lock_guard lock(process_lock());  // no process is forked meanwhile
    keep_in_child(fd_);
    close(std::exchange(fd_, -1));
}

// Reads the events that have come. False: there were none.
bool UserfaultSource::read_events() {
    uffd_msg events[16];
    bool any = false;
    reading_ = true;
    for (;;) {
        const ssize_t size = read(fd_, events, sizeof(events));
        if (size < static_cast<ssize_t>(sizeof(events[0]))) break;
        const size_t count = static_cast<size_t>(size) / sizeof(events[0]);
        for (size_t i = 0; i < count; ++i) {
            const auto& what = events[i].arg;
            switch (events[i].event) {
                case UFFD_EVENT_UNMAP:
                    report({what.remove.start, what.remove.end, true});
                    break;
                case UFFD_EVENT_REMOVE:
                    report({what.remove.start, what.remove.end, false, true});
                    break;
                case UFFD_EVENT_REMAP:
                    report({.start = what.remap.from,
                            .end = what.remap.from + what.remap.len,
                            .unmapped = true,
                            .moved_to = what.remap.to});
                    break;
                default:
                    break;
            }
        }
        any = true;
    }
    if (any)
        for (auto& slot : subscribers_)
            if (Subscriber* subscriber = slot) subscriber->notify();
    reading_ = false;
    return any;
}

}  // namespace tern
