// SPDX-License-Identifier: BSD-3-Clause
// Registered memory, memory of queues and queue pairs of a process, by the numbers of its peers and
// of its hot peers. Counted in virtual time, where one process has the interfaces of all peers.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <string_view>

#include "bench/series/interrupt.h"
#include "bench/sim/patterns.h"
#include "bench/tern-bench/command.h"
#include "bench/tern-bench/sim.h"

namespace bench {
namespace {

constexpr const char* kDriver = "mlx5";      // whose queues are counted
constexpr uint32_t kAllHot = 32;             // UCX_TERN_HOT_MAX
constexpr uint32_t kMostConnections = 4096;  // UCX_TERN_QP_MAX on a device of many queue pairs
constexpr uint32_t kInitiators = 8;          // UCX_DC_MLX5_NUM_DCI
constexpr uint32_t kRanks = 32;              // of a node, for XRC
constexpr uint32_t kMany[] = {1024, 4096, 10'000, 100'000};

constexpr const char* kStageNames[sim::kStages] = {
    "endpoints made, nothing sent", "a message with each peer", "many small messages with each",
    "many messages of up to 8 KiB with each"};

// What the device counts for a process, at each stage.
using Footprint = std::array<double, sim::kCounts>;
using Life = std::array<Footprint, sim::kStages>;

// UCX's settings of this environment, which the simulation would leave out.
Environment settings_of_ucx() {
    Environment settings = {{"SOFTHCA_PERSONALITY", kDriver}};
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view variable = *entry;
        const size_t sign = variable.find('=');
        if (variable.starts_with("UCX_") && !variable.starts_with("UCX_NET_DEVICES"))
            settings.emplace_back(variable.substr(0, sign), variable.substr(sign + 1));
    }
    return settings;
}

Life live(const std::string& transport, uint32_t peers, uint32_t hot) {
    Life life = {};
    std::istringstream text(sim::run_in_virtual_time(
        {}, transport,
        [&](const std::string& result) -> Words {
            return {"tern-sim", transport,           std::to_string(peers + 1),
                    result,     sim::kMemoryPattern, std::to_string(hot)};
        },
        settings_of_ucx()));
    for (std::string line; std::getline(text, line);) {
        std::istringstream words(line);
        uint32_t stage = 0, x = 0, count = 0;
        double value = 0;
        if (words >> stage >> x >> count >> value && stage < sim::kStages && count < sim::kCounts)
            life[stage][count] = value;
    }
    return life;
}

// Two numbers of peers that were counted. Beyond the largest number of hot peers each peer adds the
// same amount, so these give all others.
class CountLine {
  public:
    CountLine(uint32_t few_peers, const Life& few, uint32_t many_peers, const Life& many)
        : few_peers_(few_peers), few_(few), peers_(many_peers - few_peers), many_(many) {}

    double slope(int stage, int count) const {
        return (many_[stage][count] - few_[stage][count]) / peers_;
    }
    double at(int stage, int count, double peers) const {
        return std::trunc(few_[stage][count] + slope(stage, count) * (peers - few_peers_));
    }
    Life life(uint32_t peers) const {
        Life life;
        for (int stage = 0; stage < sim::kStages; ++stage)
            for (int count = 0; count < sim::kCounts; ++count)
                life[stage][count] = at(stage, count, peers);
        return life;
    }

  private:
    uint32_t few_peers_;
    const Life& few_;
    uint32_t peers_;
    const Life& many_;
};

// The figures of all numbers of peers.
class MemoryFigures {
  public:
    void add(const std::string& name, uint32_t peers, const Life& life) {
        for (int stage = 0; stage < sim::kStages; ++stage) {
            const std::string text = name + ": " + kStageNames[stage];
            add_bytes(registered_, peers, text, life[stage][sim::kRegistered]);
            add_bytes(queues_, peers, text, life[stage][sim::kQueues]);
            // The number of messages does not affect queue pairs.
            if (stage > sim::kTalked) continue;
            pairs_.push_back(exact_figure("queue pairs of a process", peers, peers_text(peers),
                                          text, "", life[stage][sim::kPairs]));
        }
        add_bytes(all_, peers, name, all_of(life));
    }
    // What only queues are known of.
    void add_queues(const std::string& name, uint32_t peers, double bytes) {
        add_bytes(queues_, peers, name, bytes);
    }
    void compare(const std::string& name, uint32_t peers, const Life& one, const Life& other) {
        all_.push_back(exact_figure(kAll, peers, peers_text(peers), name,
                                    std::string(1, report::kRatioUnit),
                                    all_of(one) / all_of(other)));
    }
    std::vector<Figure> take() {
        for (auto* const more : {&queues_, &registered_, &pairs_})
            all_.insert(all_.end(), more->begin(), more->end());
        return std::move(all_);
    }
    static std::string peers_text(uint32_t peers) {
        return std::to_string(peers) + (peers == 1 ? " peer" : " peers");
    }

  private:
    static constexpr const char* kAll = "registered memory and queues of a process";

    static double all_of(const Life& life) {
        return life[sim::kHotLong][sim::kRegistered] + life[sim::kHotLong][sim::kQueues];
    }
    void add_bytes(std::vector<Figure>& to, uint32_t peers, const std::string& name, double bytes) {
        const char* test = &to == &queues_       ? "memory of the queues of a process"
                           : &to == &registered_ ? "registered memory of a process"
                                                 : kAll;
        to.push_back(exact_figure(test, peers, peers_text(peers), name, "KiB", bytes / 1024));
    }

    std::vector<Figure> all_;
    std::vector<Figure> queues_;
    std::vector<Figure> registered_;
    std::vector<Figure> pairs_;
};

// Of other designs, whose queues would be as long as those of rc_verbs.
void add_designs(MemoryFigures& figures, const CountLine& verbs, uint32_t peers) {
    const double each = verbs.slope(sim::kHotLong, sim::kQueues);
    const double none = verbs.at(sim::kHotLong, sim::kQueues, 0);
    figures.add_queues("dc, calculated", peers, none + each * std::min(peers, kInitiators));
    figures.add_queues("XRC with nodes of " + std::to_string(kRanks) + " ranks, calculated", peers,
                       none + each * std::ceil(static_cast<double>(peers) / kRanks));
}

}  // namespace

Result run_memory(const Options& options, const Setup& setup) {
    if (!setup.device.starts_with("softhca"))
        throw Failure("only the software HCA counts what a process takes");
    const std::vector<uint32_t>& peers = options.peers;
    const std::string transports[] = {options.transport, "rc_verbs"};
    MemoryFigures figures;
    std::map<std::string, std::map<uint32_t, Life>> lives;
    std::set<std::string> failed;
    Progress progress(static_cast<uint32_t>(2 * peers.size()));
    const auto both = [&] { return failed.empty() && interrupted() == 0; };
    for (const uint32_t count : peers) {
        const uint32_t hot = options.hot < 0 ? count : std::min<uint32_t>(options.hot, count);
        for (const std::string& transport : transports) {
            if (interrupted() != 0 || failed.contains(transport)) continue;
            try {
                progress.step(transport + " with " + MemoryFigures::peers_text(count));
                const Life life = lives[transport][count] = live(transport, count, hot);
                figures.add(transport, count, life);
            } catch (const Failure& failure) {
                progress.clear();
                failed.insert(transport);
                if (interrupted() == 0 && failed.size() == 2) throw;
                if (interrupted() == 0) add_gap(setup, transport + ": " + failure.what());
            }
        }
        if (interrupted() != 0) break;
        if (both())
            figures.compare(transports[0] + " / rc_verbs", count, lives[transports[0]][count],
                            lives["rc_verbs"][count]);
    }
    progress.end();
    progress.clear();
    if (interrupted() != 0) add_gap(setup, "interrupted before all numbers of peers were counted");
    const size_t last = peers.size() - 1;
    if (both() && last > 0 && peers[last - 1] >= kAllHot && peers[last] > peers[last - 1]) {
        const auto line = [&](const std::string& transport) {
            auto& counted = lives[transport];
            return CountLine(peers[last - 1], counted[peers[last - 1]], peers[last],
                             counted[peers[last]]);
        };
        const CountLine tern = line(transports[0]), verbs = line("rc_verbs");
        for (const uint32_t count : peers) add_designs(figures, verbs, count);
        for (const uint32_t count : kMany) {
            const Life ours = tern.life(count), theirs = verbs.life(count);
            figures.add(transports[0] + ", calculated", count, ours);
            figures.add("rc_verbs, calculated", count, theirs);
            figures.compare(transports[0] + " / rc_verbs, calculated", count, ours, theirs);
            if (count > kMostConnections)
                figures.add(transports[0] + " with " + std::to_string(kMostConnections) +
                                " connections, calculated",
                            count, tern.life(kMostConnections));
            add_designs(figures, verbs, count);
        }
    }
    return table_of(
        figures.take(),
        "One process in the middle of its peers, talking to one after the other, in virtual time. "
        "The memory of queues is\n"
        "that of mlx5's driver. rc_verbs has a receive queue of 4095 buffers of 8256 B. With "
        "\"many messages\" all peers\n"
        "are hot, or as many as UCX_TERN_HOT_MAX. dc has 8 queue pairs for sends, XRC one for each "
        "node.\n");
}

}  // namespace bench
