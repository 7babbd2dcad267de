// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <mutex>

namespace tern {

// Memory that a parent has declared, pinned and watched stays the parent's: in the child of a fork
// the inherited objects do nothing. They do not even lock (another thread may have held the lock),
// free or deregister. Objects made in the child work as usual.
class ForkGuard {
  public:
    ForkGuard();
    // Whether this object came here by fork().
    bool inherited() const { return depth_ != depth(); }
    // A number that changes when this process forks.
    static unsigned forks() { return forks_.load(std::memory_order_relaxed); }

  private:
    static unsigned depth() { return generation_.load(std::memory_order_relaxed); }
    static void before();
    static void in_parent();
    static void in_child();

    // The child of a fork may rely on plain words only.
    static std::atomic<unsigned> generation_;
    static std::atomic<unsigned> forks_;
    unsigned depth_;
};

// Guards objects that a process has once. fork() takes the lock, so the lock is free in the child.
std::mutex& process_lock();

// The child of a fork closes `fd`, so that the kernel's object ends when the parent closes it.
void close_in_child(int fd);
void keep_in_child(int fd);

}  // namespace tern
