// SPDX-License-Identifier: BSD-3-Clause
#include "bench/series/worker.h"

#include <algorithm>
#include <cstdio>

#include "bench/measure/clock.h"
#include "bench/series/interrupt.h"
#include "common/library.h"

namespace bench {
namespace {

// A worker gives back up to a gigabyte, on a machine that may be busy.
constexpr uint64_t kEndNs = 60'000'000'000;

// A worker's answer to an order; the samples follow. The worker that measures first names the
// Meeting for its peers. The next reply of each worker says that it is ready.
struct Reply {
    bool ok = false;
    char text[256] = {};  // the error; that name
    uint64_t samples = 0;
    double cpu_share = 1;  // CPU time of the worker's thread, as a share of the order's time
};

template <size_t kSize>
void set_text(char (&field)[kSize], const std::string& text) {
    if (text.size() >= kSize) throw Failure("'" + text + "' is too long");
    std::snprintf(field, kSize, "%s", text.c_str());
}

// From a worker of an arm of that name. Throws Failure with the worker's error.
Reply reply_of(Channel& worker, const std::string& name) {
    const auto reply = worker.take<Reply>();
    if (!reply.ok) throw Failure(name + ": " + reply.text);
    return reply;
}

void say(Channel& control, const std::string& text) {
    Reply reply;
    reply.ok = true;
    set_text(reply.text, text);
    control.put(reply);
}

// Connects this worker with the other of its pair.
Peer meet_peer(Channel& control, const WorkerJob& job) {
    const std::string whom = "the peer process";
    if (*job.meeting != '\0') return {Channel::join(job.meeting, whom), false};
    Meeting meeting;
    say(control, meeting.name());
    return {meeting.wait(whom, [] {}), true};
}

void work(OpenPort open_port, Channel& control) {
    const auto job = control.take<WorkerJob>();
    Peer peer = meet_peer(control, job);
    // Threads that libraries start inherit the CPU.
    if (job.cpu >= 0) stay_on(job.cpu);
    const std::unique_ptr<Port> port = open_port(peer, job);
    say(control, "");
    // The loop also ends when the process that gives the orders has ended.
    for (Order order; control.receive(&order, sizeof order, 0);) {
        if (order.kind == Order::Kind::kQuit) break;
        const uint64_t wall = now_ns();
        const uint64_t cpu = now_ns(CLOCK_THREAD_CPUTIME_ID);
        const Samples samples = port->run(order);
        const uint64_t used = now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
        control.put(
            Reply{.ok = true,
                  .samples = samples.size(),
                  .cpu_share = static_cast<double>(used) / static_cast<double>(now_ns() - wall)});
        control.put_samples(samples);
    }
}

WorkerJob job_of(const Arm& arm, const Setup& setup, bool measures) {
    WorkerJob job;
    set_text(job.port, arm.port);
    set_text(job.what, arm.what);
    set_text(job.device, setup.device);
    job.memory = arm.shared ? Memory::Kind::kShared : Memory::Kind::kPrivate;
    job.gid_index = setup.gid_index;
    if (setup.cpus) job.cpu = measures ? setup.cpus->first : setup.cpus->second;
    return job;
}

}  // namespace

Pair::Pair(const Arm& arm, const Setup& setup) : name_(arm.name), workers_(2) {
    Meeting meeting;
    const Words words = {tools::program_path(), kWorkerCommand, meeting.name()};
    Environment changes = arm.preloads_tern ? setup.with_tern : setup.without_tern;
    changes.insert(changes.end(), arm.environment.begin(), arm.environment.end());
    while (processes_.size() < workers_.size()) processes_.emplace_back(words, changes);
    for (Channel& worker : workers_) {
        worker = meeting.wait(name_ + ": a worker process", [&] {
            if (interrupted() != 0) throw Failure(name_ + ": interrupted");
            for (Process& process : processes_) {
                if (process.wait_for(0)) throw Failure(name_ + ": a worker has ended");
            }
        });
    }
    WorkerJob job = job_of(arm, setup, true);
    workers_.front().put(job);
    job = job_of(arm, setup, false);
    set_text(job.meeting, reply_of(workers_.front(), name_).text);
    workers_.back().put(job);
    for (Channel& worker : workers_) (void)reply_of(worker, name_);
}

Outcome Pair::run(const Order& order) {
    Channel& measuring = workers_.front();
    Channel& answering = workers_.back();
    answering.put(order);
    measuring.put(order);
    Outcome outcome;
    try {
        const Reply reply = reply_of(measuring, name_);
        outcome = {measuring.take_samples(reply.samples), reply.cpu_share};
        const Reply theirs = reply_of(answering, name_);
        answering.take_samples(theirs.samples);
        if (!order.one_sided) outcome.cpu_share = std::min(outcome.cpu_share, theirs.cpu_share);
    } catch (const Failure& failure) {
        throw Failure(std::string(failure.what()) + ", with messages of " +
                      std::to_string(order.size) + " bytes");
    }
    return outcome;
}

void Pair::finish() {
    Order quit;
    quit.kind = Order::Kind::kQuit;
    for (Channel& worker : workers_) worker.put(quit);
    for (Process& process : processes_) {
        if (process.wait_for(kEndNs) != 0)
            throw Failure(name_ + ": a worker process failed at its end");
    }
}

int worker_main(const char* meeting, OpenPort open_port) {
    Channel control;
    try {
        control = Channel::join(meeting, "the process that gives orders");
        work(open_port, control);
    } catch (const std::exception& error) {
        Reply reply;
        std::snprintf(reply.text, sizeof reply.text, "%s", error.what());
        try {
            control.put(reply);
        } catch (const std::exception&) {
            std::fprintf(stderr, "worker: %s\n", error.what());
        }
        return 1;
    }
    return 0;
}

}  // namespace bench
