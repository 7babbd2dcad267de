// SPDX-License-Identifier: BSD-3-Clause
#include "bench/series/worker.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "bench/measure/clock.h"
#include "tools/common/library.h"

namespace bench {
namespace {

// A worker's answer to an order; the samples follow. A worker's first reply says that it is ready.
struct Reply {
    bool ok = false;
    char text[256] = {};  // the error
    uint64_t samples = 0;
    double cpu_share = 1;  // CPU time of the worker's thread, as a share of the order's time
};

template <size_t kSize>
void set_text(char (&field)[kSize], const std::string& text) {
    if (text.size() >= kSize) throw Failure("'" + text + "' is too long");
    std::snprintf(field, kSize, "%s", text.c_str());
}

void work(const WorkerJob& job, OpenPort open_port, Channel& control) {
    Peer peer(job.peer, job.measures);
    // Threads that libraries start inherit the CPU.
    if (job.device_cpu >= 0) stay_on(job.device_cpu);
    const std::unique_ptr<Port> port = open_port(peer, job);
    if (job.cpu >= 0) stay_on(job.cpu);
    Reply reply;
    reply.ok = true;
    control.put(reply);
    // The loop also ends when the process that gives the orders has ended.
    for (Order order; control.receive(&order, sizeof order, 0);) {
        if (order.kind == Order::Kind::kQuit) break;
        const uint64_t wall = now_ns();
        const uint64_t cpu = now_ns(CLOCK_THREAD_CPUTIME_ID);
        const Samples samples = port->run(order);
        const uint64_t used = now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
        reply.samples = samples.size();
        reply.cpu_share = static_cast<double>(used) / static_cast<double>(now_ns() - wall);
        control.put(reply);
        control.put_samples(samples);
    }
}

}  // namespace

Environment environment_of(const Arm& arm, const Setup& setup) {
    Environment changes = arm.preloads_tern ? setup.with_tern : setup.without_tern;
    changes.insert(changes.end(), arm.environment.begin(), arm.environment.end());
    return changes;
}

Pair::Pair(const Arm& arm, const Setup& setup)
    : name_(arm.name),
      link_(Channel::make("the peer process")),
      measuring_(start(arm, setup, true, link_.first.fd())),
      answering_(start(arm, setup, false, link_.second.fd())) {
    // Only the workers may hold the descriptors, so that each worker notices the end of the other.
    link_ = {};
    double ignored;
    read_reply(measuring_, &ignored);
    read_reply(answering_, &ignored);
}

Pair::Worker Pair::start(const Arm& arm, const Setup& setup, bool measures, int peer) {
    auto [mine, theirs] = Channel::make(arm.name + ": a worker process");
    WorkerJob job;
    set_text(job.port, arm.port);
    set_text(job.what, arm.what);
    set_text(job.device, setup.device);
    job.gid_index = setup.gid_index;
    job.measures = measures;
    if (setup.cpus) job.cpu = measures ? setup.cpus->first : setup.cpus->second;
    if (arm.device_threads == DeviceThreads::kBeside) job.device_cpu = job.cpu;
    if (arm.device_threads == DeviceThreads::kApart && setup.cpus)
        job.device_cpu = setup.cpus->second;
    job.peer = peer;
    Words words = setup.launcher;
    words.insert(words.end(), {tools::program_path(), kWorkerCommand, std::to_string(theirs.fd())});
    Process process(std::move(words), environment_of(arm, setup), {theirs.fd(), peer});
    mine.put(job);
    return {std::move(mine), std::move(process)};
}

Samples Pair::read_reply(Worker& worker, double* cpu_share) {
    const auto reply = worker.control.take<Reply>();
    if (!reply.ok) throw Failure(name_ + ": " + reply.text);
    *cpu_share = reply.cpu_share;
    return worker.control.take_samples(reply.samples);
}

Outcome Pair::run(const Order& order) {
    answering_.control.put(order);
    measuring_.control.put(order);
    Outcome outcome;
    double theirs;
    try {
        outcome.samples = read_reply(measuring_, &outcome.cpu_share);
        read_reply(answering_, &theirs);
    } catch (const Failure& failure) {
        throw Failure(std::string(failure.what()) + ", with messages of " +
                      std::to_string(order.size) + " bytes");
    }
    if (!order.one_sided) outcome.cpu_share = std::min(outcome.cpu_share, theirs);
    return outcome;
}

void Pair::finish() {
    Order quit;
    quit.kind = Order::Kind::kQuit;
    for (Worker* worker : {&measuring_, &answering_}) worker->control.put(quit);
    for (Worker* worker : {&measuring_, &answering_}) {
        if (!worker->process.finish())
            throw Failure(name_ + ": a worker process failed at its end");
    }
}

int worker_main(const char* descriptor, OpenPort open_port) {
    Channel control(std::atoi(descriptor));
    try {
        work(control.take<WorkerJob>(), open_port, control);
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
