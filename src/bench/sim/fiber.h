// SPDX-License-Identifier: BSD-3-Clause
// Calls that wait for each other, in one thread: a call of a library that is given a function to
// wait by.
#pragma once

#include <ucontext.h>

#include <exception>
#include <functional>
#include <memory>

namespace bench::sim {

class Fiber {
  public:
    explicit Fiber(std::function<void()> body);
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;

    // Lets the fiber run until it waits or has ended. True: it has ended. Throws what it throws.
    bool resume();
    // Of the fiber that runs: returns when it is resumed.
    static void wait();

  private:
    static void run();

    std::function<void()> body_;
    std::unique_ptr<char[]> stack_;
    ucontext_t context_;
    ucontext_t outside_;
    bool ended_ = false;
    std::exception_ptr error_;
};

}  // namespace bench::sim
