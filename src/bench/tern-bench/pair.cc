// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tern-bench/pair.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "bench/measure/clock.h"
#include "bench/measure/failure.h"
#include "bench/tern-bench/tern_library.h"
#include "bench/tern-bench/worker.h"

namespace bench {
namespace {

constexpr uint64_t kReplyNs = 60'000'000'000;

void receive(const std::string& name, int fd, void* bytes, size_t size) {
    const uint64_t end = now_ns() + kReplyNs;
    for (;;) {
        const uint64_t now = now_ns();
        if (now >= end) throw Failure(name + ": a worker process does not answer");
        pollfd ready{fd, POLLIN, 0};
        const int got = ::poll(&ready, 1, static_cast<int>((end - now) / 1'000'000) + 1);
        if (got > 0) break;
        if (got < 0 && errno != EINTR) throw call_failed("poll");
    }
    if (::recv(fd, bytes, size, 0) != static_cast<ssize_t>(size)) {
        throw Failure(name + ": a worker process has died");
    }
}

// RDMA takes no part of the process that is written to, and some orders none of it at all.
bool answers_with_device_alone(Layer layer, const Order& order) {
    return layer == Layer::kProbe ? order.kind != Order::Kind::kWrites
                                  : layer == Layer::kRaw && order.kind == Order::Kind::kStream;
}

void send_order(const std::string& name, int fd, const Order& order) {
    if (::send(fd, &order, sizeof order, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof order)) {
        throw Failure(name + ": a worker process is gone");
    }
}

}  // namespace

Environment environment_of(const Arm& arm, const Setup& setup) {
    Environment changes = {{"UCX_NET_DEVICES", setup.device}, {"UCX_WARN_UNUSED_ENV_VARS", "n"}};
    const char* preload = std::getenv("LD_PRELOAD");
    std::string list = without_tern(preload != nullptr ? preload : "");
    std::string folder;
    if (arm.preloads_tern && setup.by_plugin_path) {
        folder = setup.tern_library.substr(0, setup.tern_library.rfind('/'));
    } else if (arm.preloads_tern) {
        list = setup.tern_library + (list.empty() ? "" : ":" + list);
    }
    changes.emplace_back("LD_PRELOAD", list);
    if (setup.by_plugin_path) changes.emplace_back("UCX_PLUGIN_PATH", folder);
    changes.emplace_back("UCX_TLS", arm.layer == Layer::kUcp ? arm.transport : "");
    changes.insert(changes.end(), arm.environment.begin(), arm.environment.end());
    return changes;
}

Pair::Pair(const Arm& arm, const Setup& setup)

    : name_(arm.name),
      layer_(arm.layer),
      link_(socket_pair()),
      measuring_(start(arm, setup, true, link_.first.get())),
      answering_(start(arm, setup, false, link_.second.get())) {
    // Theirs now: when one dies, the other must see it.
    link_.first = Descriptor();
    link_.second = Descriptor();
    double ignored;
    read_reply(measuring_, &ignored);
    read_reply(answering_, &ignored);
}

void Pair::finish() {
    Order quit;
    quit.kind = Order::Kind::kQuit;
    for (Worker* worker : {&measuring_, &answering_}) {
        send_order(name_, worker->control.get(), quit);
    }
    for (Worker* worker : {&measuring_, &answering_}) {
        if (!worker->process.finish())
            throw Failure(name_ + ": a worker process failed at its end");
    }
}

Pair::Worker Pair::start(const Arm& arm, const Setup& setup, bool measures, int peer) {
    auto [mine, theirs] = socket_pair();
    WorkerJob job;
    job.layer = arm.layer;
    job.transport = arm.transport;
    job.device = setup.device;
    job.gid_index = setup.gid_index;
    job.measures = measures;
    if (setup.cpus) job.cpu = measures ? setup.cpus->first : setup.cpus->second;
    job.device_cpu = arm.device_apart && setup.cpus ? setup.cpus->second : job.cpu;
    job.control = theirs.get();
    job.peer = peer;
    std::vector<std::string> words = worker_arguments(job);
    words.insert(words.begin(), kWorkerCommand);
    return {std::move(mine), Process(words, environment_of(arm, setup), {job.control, job.peer})};
}

Samples Pair::read_reply(Worker& worker, double* cpu_share) {
    Reply reply;
    receive(name_, worker.control.get(), &reply, sizeof reply);
    if (!reply.ok) throw Failure(name_ + ": " + reply.text);
    *cpu_share = reply.cpu_share;
    Samples samples(reply.samples);
    for (size_t done = 0; done < samples.size();) {
        const size_t count = std::min<size_t>(Reply::kChunk, samples.size() - done);
        receive(name_, worker.control.get(), samples.data() + done, count * sizeof(double));
        done += count;
    }
    return samples;
}

Outcome Pair::run(const Order& order) {
    send_order(name_, answering_.control.get(), order);
    send_order(name_, measuring_.control.get(), order);
    Outcome outcome;
    double theirs;
    try {
        outcome.samples = read_reply(measuring_, &outcome.cpu_share);
        read_reply(answering_, &theirs);
    } catch (const Failure& failure) {
        throw Failure(std::string(failure.what()) + ", with messages of " +
                      std::to_string(order.size) + " bytes");
    }
    if (!answers_with_device_alone(layer_, order))
        outcome.cpu_share = std::min(outcome.cpu_share, theirs);
    return outcome;
}

}  // namespace bench
