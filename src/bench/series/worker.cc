// SPDX-License-Identifier: BSD-3-Clause
#include "bench/series/worker.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <optional>

#include "bench/measure/clock.h"
#include "tools/common/library.h"

namespace bench {
namespace {

constexpr char kMeeting = '@';
constexpr uint64_t kLookNs = 100'000'000;

// A worker's answer to an order; the samples follow. A worker's first reply says that it is ready.
struct Reply {
    bool ok = false;
    char text[256] = {};  // the error; in the first reply, the port's library
    uint64_t samples = 0;
    double cpu_share = 1;  // CPU time of the worker's thread, as a share of the order's time
};

template <size_t kSize>
void set_text(char (&field)[kSize], const std::string& text) {
    if (text.size() >= kSize) throw Failure("'" + text + "' is too long");
    std::snprintf(field, kSize, "%s", text.c_str());
}

void work(OpenPort open_port, Channel& control) {
    const auto job = control.take<WorkerJob>();
    std::deque<Peer> peers;
    peers.emplace_back(control.take_descriptor(), job.measures);
    // Threads that libraries start inherit the CPU.
    if (job.device_cpu >= 0) stay_on(job.device_cpu);
    const std::unique_ptr<Port> port = open_port(peers.front(), job);
    while (peers.size() < job.peers) {
        port->add_peer(peers.emplace_back(control.take_descriptor(), job.measures));
    }
    if (job.cpu >= 0) stay_on(job.cpu);
    Reply reply;
    reply.ok = true;
    set_text(reply.text, port->library());
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

WorkerJob job_of(const Arm& arm, const Setup& setup, bool measures) {
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
    return job;
}

std::string whom(const Arm& arm) {
    return arm.name + ": a worker process";
}

Words worker_command(const Setup& setup, const std::string& control) {
    Words words = setup.launcher;
    words.insert(words.end(), {tools::program_path(), kWorkerCommand, control});
    return words;
}

// What a launcher reads: it would pass this process's input on.
class Nothing {
  public:
    Nothing() : fd_(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {}
    ~Nothing() { ::close(fd_); }
    Nothing(const Nothing&) = delete;
    Nothing& operator=(const Nothing&) = delete;
    int fd() const { return fd_; }

  private:
    const int fd_;
};

}  // namespace

Environment environment_of(const Arm& arm, const Setup& setup) {
    Environment changes = arm.preloads_tern ? setup.with_tern : setup.without_tern;
    changes.insert(changes.end(), arm.environment.begin(), arm.environment.end());
    return changes;
}

Pair::Pair(const Arm& arm, const Setup& setup, uint32_t peers)
    : name_(arm.name), answering_(peers) {
    if (arm.launcher.empty()) {
        start(arm, setup);
    } else {
        launch(arm, setup);
    }
    {
        // Then only the workers have these descriptors: each notices the end of the other.
        WorkerJob job = job_of(arm, setup, true);
        job.peers = peers;
        measuring_.put(job);
        for (Channel& control : answering_) {
            const auto [one, other] = Channel::make("the peer process");
            measuring_.put_descriptor(one.fd());
            control.put(job_of(arm, setup, false));
            control.put_descriptor(other.fd());
        }
    }
    for (Channel* control : controls()) {
        const auto reply = control->take<Reply>();
        if (!reply.ok) throw Failure(name_ + ": " + reply.text);
        library_ = reply.text;
    }
}

std::vector<Channel*> Pair::controls() {
    std::vector<Channel*> all = {&measuring_};
    for (Channel& control : answering_) all.push_back(&control);
    return all;
}

void Pair::start(const Arm& arm, const Setup& setup) {
    for (Channel* control : controls()) {
        auto [mine, theirs] = Channel::make(whom(arm));
        processes_.emplace_back(worker_command(setup, std::to_string(theirs.fd())),
                                environment_of(arm, setup), std::vector<int>{theirs.fd()});
        *control = std::move(mine);
    }
}

void Pair::launch(const Arm& arm, const Setup& setup) {
    Meeting meeting;
    Words words = arm.launcher;
    const Words command = worker_command(setup, kMeeting + meeting.name());
    words.insert(words.end(), command.begin(), command.end());
    const Nothing nothing;
    processes_.emplace_back(std::move(words), environment_of(arm, setup), std::vector<int>{},
                            SIGTERM, Streams{.input = nothing.fd()});
    const uint64_t end = now_ns() + kPatienceNs;
    for (Channel* control : controls()) {
        std::optional<Channel> came;
        while (!(came = meeting.wait(whom(arm), kLookNs))) {
            if (processes_.front().wait_for(0)) throw Failure(name_ + ": the launcher has ended");
            if (now_ns() > end) throw Failure(name_ + ": the worker processes do not start");
        }
        *control = std::move(*came);
    }
}

Samples Pair::read_reply(Channel& control, double* cpu_share) {
    const auto reply = control.take<Reply>();
    if (!reply.ok) throw Failure(name_ + ": " + reply.text);
    *cpu_share = reply.cpu_share;
    return control.take_samples(reply.samples);
}

Outcome Pair::run(const Order& order) {
    Channel& answering = answering_.at(order.peer);
    answering.put(order);
    measuring_.put(order);
    Outcome outcome;
    double theirs;
    try {
        outcome.samples = read_reply(measuring_, &outcome.cpu_share);
        read_reply(answering, &theirs);
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
    for (Channel* control : controls()) control->put(quit);
    for (Process& process : processes_) {
        if (!process.finish()) throw Failure(name_ + ": a worker process failed at its end");
    }
}

int worker_main(const char* descriptor, OpenPort open_port) {
    Channel control;
    try {
        control = *descriptor == kMeeting ? Channel::join(descriptor + 1)
                                          : Channel(std::atoi(descriptor));
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
