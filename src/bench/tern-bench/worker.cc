// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tern-bench/worker.h"

#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bench/measure/clock.h"
#include "bench/measure/cpus.h"
#include "bench/tern-bench/port.h"

namespace bench {
namespace {

enum Word {
    kLayer,
    kTransport,
    kDevice,
    kGidIndex,
    kMeasures,
    kCpu,
    kDeviceCpu,
    kControl,
    kPeer,
    kWords
};

WorkerJob parse(char** words) {
    WorkerJob job;
    job.layer = static_cast<Layer>(std::atoi(words[kLayer]));
    job.transport = words[kTransport];
    job.device = words[kDevice];
    job.gid_index = std::atoi(words[kGidIndex]);
    job.measures = std::atoi(words[kMeasures]) != 0;
    job.cpu = std::atoi(words[kCpu]);
    job.device_cpu = std::atoi(words[kDeviceCpu]);
    job.control = std::atoi(words[kControl]);
    job.peer = std::atoi(words[kPeer]);
    return job;
}

std::unique_ptr<Port> open_port(Peer& peer, const WorkerJob& job) {
    switch (job.layer) {
        case Layer::kRaw:
            return open_raw_port(peer, job.transport, job.device, job.gid_index);
        case Layer::kUct:
            return open_uct_port(peer, job.transport, job.device);
        case Layer::kUcp:
            return open_ucp_port(peer);
        case Layer::kLarge:
            return open_large_port(peer, job.transport, job.device, job.gid_index);
        case Layer::kProbe:
            return open_probe_port(peer, job.transport, job.device, job.gid_index);
    }
    throw Failure("no such layer");
}

uint64_t cpu_time_ns() {
    timespec time;
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

// The way to the process that gives the orders. When that is gone, so is the reason to go on.
class Control {
  public:
    explicit Control(int fd) : fd_(fd) {}

    // False at the end.
    bool next(Order* order) {
        ssize_t got;
        do {
            got = ::recv(fd_, order, sizeof *order, 0);
        } while (got < 0 && errno == EINTR);
        return got == static_cast<ssize_t>(sizeof *order) && order->kind != Order::Kind::kQuit;
    }
    void answer(const Samples& samples, double cpu_share) {
        Reply reply;
        reply.ok = true;
        reply.samples = samples.size();
        reply.cpu_share = cpu_share;
        send(&reply, sizeof reply);
        for (size_t done = 0; done < samples.size();) {
            const size_t count = std::min<size_t>(Reply::kChunk, samples.size() - done);
            send(samples.data() + done, count * sizeof(double));
            done += count;
        }
    }
    void refuse(const char* why) {
        Reply reply;
        std::snprintf(reply.text, sizeof reply.text, "%s", why);
        send(&reply, sizeof reply);
    }

  private:
    void send(const void* bytes, size_t size) {
        if (::send(fd_, bytes, size, MSG_NOSIGNAL) != static_cast<ssize_t>(size)) {
            throw call_failed("answering");
        }
    }

    const int fd_;
};

void work(const WorkerJob& job, Control& control) {
    Peer peer(job.peer, 0, job.measures);
    // Threads stay where they are started.
    if (job.device_cpu >= 0) stay_on(job.device_cpu);
    const std::unique_ptr<Port> port = open_port(peer, job);
    if (job.cpu >= 0) stay_on(job.cpu);
    control.answer({}, 1);
    for (Order order; control.next(&order);) {
        const uint64_t wall = now_ns();
        const uint64_t cpu = cpu_time_ns();
        const Samples samples = port->run(order);
        const uint64_t used = cpu_time_ns() - cpu;
        control.answer(samples, static_cast<double>(used) / static_cast<double>(now_ns() - wall));
    }
}

}  // namespace

std::vector<std::string> worker_arguments(const WorkerJob& job) {
    return {std::to_string(static_cast<int>(job.layer)),
            job.transport,
            job.device,
            std::to_string(job.gid_index),
            std::to_string(job.measures),
            std::to_string(job.cpu),
            std::to_string(job.device_cpu),
            std::to_string(job.control),
            std::to_string(job.peer)};
}

int worker_main(int argc, char** argv) {
    if (argc != kWords) return 2;
    const WorkerJob job = parse(argv);
    Control control(job.control);
    try {
        work(job, control);
    } catch (const std::exception& error) {
        try {
            control.refuse(error.what());
        } catch (const std::exception&) {
            std::fprintf(stderr, "tern-bench: worker: %s\n", error.what());
        }
        return 1;
    }
    return 0;
}

}  // namespace bench
