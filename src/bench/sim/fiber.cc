// SPDX-License-Identifier: BSD-3-Clause
#include "bench/sim/fiber.h"

#include <utility>

#include "bench/measure/clock.h"

namespace bench::sim {
namespace {

constexpr size_t kStack = 1 << 20;

Fiber* running = nullptr;

}  // namespace

Fiber::Fiber(std::function<void()> body)
    : body_(std::move(body)), stack_(std::make_unique_for_overwrite<char[]>(kStack)) {
    if (::getcontext(&context_) != 0) throw Failure("getcontext has failed");
    context_.uc_stack.ss_sp = stack_.get();
    context_.uc_stack.ss_size = kStack;
    context_.uc_link = &outside_;
    ::makecontext(&context_, run, 0);
}

bool Fiber::resume() {
    if (ended_) return true;
    Fiber* const before = std::exchange(running, this);
    ::swapcontext(&outside_, &context_);
    running = before;
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    return ended_;
}

void Fiber::wait() {
    Fiber& me = *running;
    ::swapcontext(&me.context_, &me.outside_);
}

void Fiber::run() {
    Fiber& me = *running;
    try {
        me.body_();
    } catch (...) {
        me.error_ = std::current_exception();
    }
    me.ended_ = true;
}

}  // namespace bench::sim
