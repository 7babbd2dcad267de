// SPDX-License-Identifier: BSD-3-Clause
// The configurations that are compared, and the two processes of each: one measures, the other
// answers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/measure/machine.h"
#include "bench/measure/order.h"
#include "bench/measure/peer.h"
#include "bench/series/process.h"

namespace bench {

// One of the configurations that are compared: the port that a pair of workers opens, and the
// environment.
struct Arm {
    std::string name;
    std::string port;              // raw, uct, ucp, rwapi
    std::string what;              // of the port: a transport
    bool shared = false;           // the kind of memory of the port
    Environment environment = {};  // changes to the environment of this process
    bool preloads_tern = false;    // and the changes that load Tern
    Order::Kind warm_up = Order::Kind::kWrites;

    bool operator==(const Arm&) const = default;
};

// What a result lacks, and why: a line for each arm that failed, and one if the measurement was
// interrupted.
using Gaps = std::vector<std::string>;

// The common parts of all arms of a series.
struct Setup {
    std::string device;  // as UCX names it
    int gid_index = 0;
    Cpus cpus;
    Environment with_tern = {};  // for arms that preload Tern
    Environment without_tern = {};
    Gaps* gaps = nullptr;  // of those who run a series
};

struct Outcome {
    Samples samples;
    double cpu_share = 1;  // the lower of both processes'; one-sided: the measuring one's
};

// Two connected workers of one arm. They sleep while they wait for orders.
class Pair {
  public:
    Pair(const Arm& arm, const Setup& setup);
    Pair(const Pair&) = delete;
    Pair& operator=(const Pair&) = delete;

    // Throws Failure.
    Outcome run(const Order& order);
    // Ends the workers. Throws Failure if one fails. The destructor kills them.
    void finish();

  private:
    const std::string name_;
    std::vector<Process> processes_;  // the workers
    std::vector<Channel> workers_;    // the first measures, the other one answers
};

// One end of the connection between the two workers of a pair. Both workers construct it, and call
// its functions, at the same time.
class Port {
  public:
    virtual ~Port() = default;

    // Carries out an order. Returns half round trips or, for streams, the time between two
    // messages, one sample for each burst; in us. The result is empty in the worker that answers,
    // and in both if messages of the size are impossible.
    virtual Samples run(const Order& order) = 0;
};

// The first message to a worker. Plain data.
struct WorkerJob {
    char port[16] = {};
    char what[64] = {};
    char device[64] = {};
    char meeting[32] = {};  // of the worker that measures; empty: it is this worker
    Memory::Kind memory = Memory::Kind::kPrivate;
    int gid_index = 0;
    int cpu = -1;  // -1: any
};

// The command line of a worker has this word and the name of the Meeting where it gets its orders.
constexpr const char* kWorkerCommand = "worker";

using OpenPort = std::unique_ptr<Port> (*)(Peer& peer, const WorkerJob& job);
template <typename Kind>
std::unique_ptr<Port> open(Peer& peer, const WorkerJob& job) {
    return std::make_unique<Kind>(peer, job);
}

// Opens a port together with the other worker of the pair, and carries out orders until kQuit.
// Returns the exit status.
int worker_main(const char* meeting, OpenPort open_port);

// A port for all orders that do not need UCX.
std::unique_ptr<Port> open_verbs_port(Peer& peer, const WorkerJob& job);

}  // namespace bench
