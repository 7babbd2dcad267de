// SPDX-License-Identifier: BSD-3-Clause
// The two processes of an arm: one measures and one answers, as they are told.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "bench/measure/machine.h"
#include "bench/measure/order.h"
#include "bench/measure/peer.h"
#include "bench/series/process.h"

namespace bench {

// On whose processor the device's own threads run.
enum class DeviceThreads : uint8_t {
    kBeside,    // on that of the process that has the device
    kApart,     // they take no time from the process that is measured, as hardware does not
    kAnywhere,  // where the system puts them
};

// One of the configurations that take turns: what a pair of worker processes opens, and in which
// environment.
struct Arm {
    std::string name;
    std::string port;              // raw, uct, ucp, large: what the program can open
    std::string what;              // for it: a transport, a protocol, a kind of memory
    Environment environment = {};  // changes to that of this process
    bool preloads_tern = false;    // and those that bring Tern
    Order::Kind warm_up = Order::Kind::kWrites;
    DeviceThreads device_threads = DeviceThreads::kBeside;

    bool operator==(const Arm&) const = default;
};

// What all arms of a series have in common.
struct Setup {
    std::string device;  // as UCX names it
    int gid_index = 0;
    Cpus cpus;
    Environment with_tern = {};  // of arms that preload Tern
    Environment without_tern = {};
    std::string fabric = {};  // of a software HCA; empty: what the environment says
    Words launcher = {};      // in front of a worker's command
};

// What the processes of an arm are started with besides what is in the environment already.
Environment environment_of(const Arm& arm, const Setup& setup);

struct Outcome {
    Samples samples;
    double cpu_share = 1;  // the lower one of both processes
};

// Two workers of one arm, connected and waiting for orders; they use no CPU while they wait.
class Pair {
  public:
    Pair(const Arm& arm, const Setup& setup);
    Pair(const Pair&) = delete;
    Pair& operator=(const Pair&) = delete;

    // Throws Failure.
    Outcome run(const Order& order);
    // Ends both. Throws Failure. Without it they are killed.
    void finish();

  private:
    struct Worker {
        Channel control;
        Process process;
    };
    Worker start(const Arm& arm, const Setup& setup, bool measures, int peer);
    Samples read_reply(Worker& worker, double* cpu_share);

    const std::string name_;
    // Declared in the order in which they start.
    std::pair<Channel, Channel> link_;
    Worker measuring_;
    Worker answering_;
};

// One end of the connection that a worker measures over. Both workers of a pair make one at the
// same time, and call the same of it.
class Port {
  public:
    virtual ~Port() = default;

    // Carries out an order. Latency: half round trips in us. Streams: us from message to message,
    // one sample a burst. Empty in the worker that answers, and in both if it cannot be done with
    // messages of that size.
    virtual Samples run(const Order& order) = 0;
};

// What a worker is to do, the first message that it gets. Plain data.
struct WorkerJob {
    char port[16] = {};
    char what[64] = {};
    char device[64] = {};
    int gid_index = 0;
    bool measures = false;
    int cpu = -1;         // none: -1
    int device_cpu = -1;  // of the threads that libraries start
    int peer = -1;        // descriptor of the way to the other worker
};

// The command line of a worker: this word, and the descriptor through which its orders come.
constexpr const char* kWorkerCommand = "worker";

using OpenPort = std::unique_ptr<Port> (*)(Peer& peer, const WorkerJob& job);

// Opens its port together with the other worker of its pair and carries out orders until there are
// no more. Returns the exit status.
int worker_main(const char* descriptor, OpenPort open_port);

// Verbs and what is beside them on this machine: all orders but those for messages. `what` is the
// kind of memory that the device gets to see: "private" or "shared".
std::unique_ptr<Port> open_verbs_port(Peer& peer, const WorkerJob& job);

}  // namespace bench
