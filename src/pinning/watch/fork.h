// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <mutex>

namespace tern {

// What a parent has declared, pinned and watched stays the parent's: in the child of a fork the
// inherited objects do nothing, not even lock (the lock may have been another thread's), free or
// give back. New ones work as everywhere.
class ForkGuard {
  public:
    ForkGuard();
    // Whether this object came here by fork().
    bool inherited() const { return depth_ != depth(); }
    // Changes when this process forks.
    static unsigned forks();

  private:
    static unsigned depth();
    unsigned depth_;
};

// Guards what there is once in a process. fork() waits for it: it is free in the child.
std::mutex& process_lock();

// The child of a fork closes this descriptor: what it stands for must end with the parent's.
void close_in_child(int fd);
void keep_in_child(int fd);

}  // namespace tern
