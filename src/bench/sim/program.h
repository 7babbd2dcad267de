// SPDX-License-Identifier: BSD-3-Clause
// The program of a simulated rank: a coroutine that ends each step by `co_await`.
#pragma once

#include <coroutine>
#include <exception>
#include <utility>

namespace bench::sim {

class Program {
  public:
    struct promise_type {  // NOLINT(readability-identifier-naming)
        Program get_return_object() {
            return Program(std::coroutine_handle<promise_type>::from_promise(*this));
        }
        static std::suspend_always initial_suspend() { return {}; }
        static std::suspend_always final_suspend() noexcept { return {}; }
        static void return_void() {}
        void unhandled_exception() { error = std::current_exception(); }
        std::exception_ptr error;
    };

    explicit Program(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
    ~Program() {
        if (handle_) handle_.destroy();
    }
    Program(Program&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Program& operator=(Program&&) = delete;

    bool done() const { return handle_.done(); }
    // Runs a step; throws what the program throws.
    void step() {
        handle_.resume();
        if (handle_.promise().error) std::rethrow_exception(handle_.promise().error);
    }

  private:
    std::coroutine_handle<promise_type> handle_;
};

}  // namespace bench::sim
