// SPDX-License-Identifier: BSD-3-Clause
// The configurations that are compared, and the two processes of each: one measures and one
// answers.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "bench/measure/machine.h"
#include "bench/measure/order.h"
#include "bench/measure/peer.h"
#include "bench/series/process.h"

namespace bench {

// On which processor the threads of the device run.
enum class DeviceThreads : uint8_t {
    kBeside,    // on that of the process that has the device
    kApart,     // they take no time from the process that is measured, as hardware does not
    kAnywhere,  // where the system puts them
};

// One of the configurations that are compared: what a pair of worker processes opens, and its
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

// The changes to the environment with which the processes of an arm are started.
Environment environment_of(const Arm& arm, const Setup& setup);

struct Outcome {
    Samples samples;
    double cpu_share = 1;  // the lower one of both processes
};

// Two connected workers of one arm. They sleep while they wait for orders.
class Pair {
  public:
    Pair(const Arm& arm, const Setup& setup);
    Pair(const Pair&) = delete;
    Pair& operator=(const Pair&) = delete;

    // Throws Failure.
    Outcome run(const Order& order);
    // Ends both workers. Throws Failure if one fails. The destructor kills them.
    void finish();

  private:
    struct Worker {
        Channel control;
        Process process;
    };
    Worker start(const Arm& arm, const Setup& setup, bool measures, int peer);
    Samples read_reply(Worker& worker, double* cpu_share);

    const std::string name_;
    // In the order in which they are started.
    std::pair<Channel, Channel> link_;
    Worker measuring_;
    Worker answering_;
};

// One end of the connection between the two workers of a pair. Both construct it, and call its
// functions, at the same time.
class Port {
  public:
    virtual ~Port() = default;

    // Carries out an order. Returns half round trips, or for streams the time from message to
    // message, one sample for each burst; in us. The result is empty in the worker that answers,
    // and in both if messages of that size are impossible.
    virtual Samples run(const Order& order) = 0;
};

// The first message to a worker. Plain data.
struct WorkerJob {
    char port[16] = {};
    char what[64] = {};
    char device[64] = {};
    int gid_index = 0;
    bool measures = false;
    int cpu = -1;         // none: -1
    int device_cpu = -1;  // of the threads that libraries start
    int peer = -1;        // descriptor of the channel to the other worker
};

// The command line of a worker has this word and the descriptor for its orders.
constexpr const char* kWorkerCommand = "worker";

using OpenPort = std::unique_ptr<Port> (*)(Peer& peer, const WorkerJob& job);

// Opens a port, together with the other worker of the pair, and carries out orders until the last
// one. Returns the exit status.
int worker_main(const char* descriptor, OpenPort open_port);

// A port for all orders that need no messages of UCX. `what` is the kind of memory that is
// registered: "private" or "shared".
std::unique_ptr<Port> open_verbs_port(Peer& peer, const WorkerJob& job);

}  // namespace bench
