// SPDX-License-Identifier: BSD-3-Clause
// What calls cost, counted and not timed: how often they look at completion queues, and how many
// instructions they take.
#pragma once

#include <infiniband/verbs.h>
#include <signal.h>
#include <ucontext.h>

#include <cstdint>

namespace tern::test {

// While it exists, calls of ibv_poll_cq() on this context are counted. Only one at a time.
class QueueLooks {
  public:
    explicit QueueLooks(ibv_context* context) : context_(context) {
        library_ = context->ops.poll_cq;
        count_ = 0;
        context->ops.poll_cq = look;
    }
    ~QueueLooks() { context_->ops.poll_cq = library_; }
    QueueLooks(const QueueLooks&) = delete;
    QueueLooks& operator=(const QueueLooks&) = delete;

    static uint64_t count() { return count_; }

  private:
    static int look(ibv_cq* cq, int most, ibv_wc* completions) {
        count_ = count_ + 1;
        return library_(cq, most, completions);
    }

    static inline int (*library_)(ibv_cq*, int, ibv_wc*) = nullptr;
    static inline uint64_t count_ = 0;
    ibv_context* context_;
};

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define TERN_COUNTS_INSTRUCTIONS 1

// Counts the instructions of this thread one by one: after each the processor traps. Those of the
// kernel do not count. Some microseconds for each.
class Instructions {
  public:
    // `call` must not block SIGTRAP.
    template <class Call>
    static uint64_t of(Call&& call) {
        struct sigaction action {
        }, before{};
        action.sa_sigaction = on_trap;
        action.sa_flags = SA_SIGINFO;
        sigaction(SIGTRAP, &action, &before);
        count_ = 0;
        stop_ = false;
        // Below the stack pointer is memory that the compiler may use.
        asm volatile(
            "lea -128(%%rsp), %%rsp; pushfq; orq $0x100, (%%rsp); popfq; "
            "lea 128(%%rsp), %%rsp" ::
                : "memory", "cc");
        call();
        stop_ = true;
        asm volatile("nop; nop" ::: "memory");
        sigaction(SIGTRAP, &before, nullptr);
        return count_;
    }

  private:
    static void on_trap(int, siginfo_t*, void* context) {
        constexpr greg_t kTrap = 0x100;
        count_ = count_ + 1;
        if (stop_) static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] &= ~kTrap;
    }

    static inline volatile uint64_t count_ = 0;
    static inline volatile bool stop_ = false;
};
#endif

}  // namespace tern::test
