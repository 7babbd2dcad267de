// SPDX-License-Identifier: BSD-3-Clause
#include "tern/pinning/watch/fork.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>

namespace tern {

namespace {

// The child of a fork may rely on plain words only.
std::array<std::atomic<int>, 64> descriptors{};  // descriptor plus one; 0: none

constinit std::mutex the_lock;

}  // namespace

constinit std::atomic<unsigned> ForkGuard::generation_{0};
constinit std::atomic<unsigned> ForkGuard::forks_{0};

void ForkGuard::before() {
    the_lock.lock();
    forks_.fetch_add(1, std::memory_order_relaxed);
}

void ForkGuard::in_parent() {
    forks_.fetch_add(1, std::memory_order_relaxed);
    the_lock.unlock();
}

void ForkGuard::in_child() {
    generation_.fetch_add(1, std::memory_order_relaxed);
    for (auto& slot : descriptors)
        if (const int fd = slot.exchange(0, std::memory_order_relaxed) - 1; fd >= 0) close(fd);
    the_lock.unlock();
}

ForkGuard::ForkGuard() {
    [[maybe_unused]] static const int registered = pthread_atfork(before, in_parent, in_child);
    depth_ = depth();
}

std::mutex& process_lock() {
    return the_lock;
}

void close_in_child(int fd) {
    for (auto& slot : descriptors)
        if (int none = 0; slot.compare_exchange_strong(none, fd + 1)) return;
    // No room: the child keeps the descriptor until it ends or calls exec().
}

void keep_in_child(int fd) {
    for (auto& slot : descriptors)
        if (int that = fd + 1; slot.compare_exchange_strong(that, 0)) return;
}

}  // namespace tern
