// SPDX-License-Identifier: BSD-3-Clause
#include "bench/series/interrupt.h"

#include <csignal>
#include <initializer_list>

#include "bench/measure/clock.h"

namespace bench {
namespace {

// A terminal sends the signal to all processes of a job, and a launcher sends it on: these two are
// one wish.
constexpr uint64_t kSameWishNs = 1'000'000'000;

volatile sig_atomic_t came = 0;
volatile uint64_t came_ns = 0;
volatile pid_t receiver = 0;

void note_signal(int signal) {
    if (came == 0) {
        came_ns = now_ns();
        came = signal;
    } else if (now_ns() - came_ns > kSameWishNs) {
        ::signal(signal, SIG_DFL);
        ::raise(signal);
    }
}

void send_on(int signal) {
    came = signal;
    ::kill(receiver, signal);
}

void handle_by(void (*handler)(int)) {
    for (const int signal : {SIGINT, SIGTERM}) {
        struct sigaction action = {};
        // A shell that starts this process in the background ignores SIGINT for it.
        if (::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) continue;
        action = {};
        action.sa_handler = handler;
        action.sa_flags = SA_RESTART;
        ::sigaction(signal, &action, nullptr);
    }
}

}  // namespace

void watch_for_interrupts() {
    handle_by(note_signal);
}

void forward_interrupts(pid_t process) {
    receiver = process;
    handle_by(send_on);
}

int interrupted() {
    return came;
}

}  // namespace bench
