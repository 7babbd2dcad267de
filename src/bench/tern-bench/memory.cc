// SPDX-License-Identifier: BSD-3-Clause
// Registered memory and queue pairs of a process, by the numbers of its peers and of its hot peers.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "bench/measure/clock.h"
#include "bench/series/interrupt.h"
#include "bench/tern-bench/command.h"
#include "softhca/inspect/inspect.h"

namespace bench {
namespace {

constexpr uint32_t kClassicBytes = 512 << 10;  // 32 slots of 8 KiB at each end
constexpr uint32_t kLongMessage = 8192;
constexpr uint32_t kAllHot = 32;  // UCX_TERN_HOT_MAX

// Stages in the life of a process with peers.
enum Stage { kIdle, kTalked, kHot, kHotLong, kStages };
constexpr const char* kStageNames[kStages] = {
    "endpoints made, nothing sent", "a message with each peer", "many small messages with each",
    "many messages of up to 8 KiB with each"};

// What the device counts for a process: registered bytes, and queue pairs.
struct Footprint {
    double bytes = 0;
    double queue_pairs = 0;
};
using Life = std::array<Footprint, kStages>;

Footprint footprint_of(pid_t process) {
    char error[256] = {};
    const std::unique_ptr<softhca_inspect_fabric, void (*)(softhca_inspect_fabric*)> fabric(
        softhca_inspect_open(nullptr, error, sizeof error), softhca_inspect_close);
    softhca_inspect_usage usage = {};
    if (fabric == nullptr ||
        softhca_inspect_process(fabric.get(), process, &usage, error, sizeof error) != 0)
        throw Failure(error);
    return {static_cast<double>(usage.registered_bytes), static_cast<double>(usage.queue_pairs)};
}

Life live(const Arm& arm, const Setup& setup, uint32_t peers, uint32_t hot) {
    Pair middle(arm, setup, peers);
    Life life;
    // `count` round trips with each of the first `others` peers in turn, `rounds` times.
    const auto talk = [&](Stage stage, uint32_t others, uint32_t size, uint32_t rounds,
                          uint64_t count) {
        Order order = {Order::Kind::kMessages, size, count};
        for (uint32_t i = 0; i < rounds * others; ++i) {
            order.peer = i % others;
            middle.run(order);
        }
        life[stage] = footprint_of(middle.pid());
    };
    talk(kIdle, 0, 8, 0, 0);
    talk(kTalked, peers, 8, 1, 1);
    talk(kHot, hot, 8, 4, 20);
    talk(kHotLong, hot, kLongMessage, 8, 20);
    middle.finish();
    return life;
}

// The figures for many more peers. Beyond the largest number of hot peers each peer adds the same
// amount, so the measurements with two numbers of peers give all others.
Life extrapolated(const Life& few, uint32_t few_peers, const Life& many, uint32_t many_peers,
                  uint32_t peers) {
    const auto line = [&](double low, double high) {
        return std::trunc(low + (high - low) / (many_peers - few_peers) * (peers - few_peers));
    };
    Life life;
    for (int stage = 0; stage < kStages; ++stage) {
        life[stage] = {line(few[stage].bytes, many[stage].bytes),
                       line(few[stage].queue_pairs, many[stage].queue_pairs)};
    }
    return life;
}

// The figures of all numbers of peers.
struct MemoryFigures {
    void add(const std::string& name, uint32_t peers, const Life& life) {
        for (int stage = 0; stage < kStages; ++stage) {
            const std::string text = name + ": " + kStageNames[stage];
            add_bytes(peers, text, life[stage].bytes);
            // The number of messages does not affect queue pairs.
            if (stage > kTalked) continue;
            queue_pairs.push_back(exact_figure("queue pairs of a process", peers, peers_text(peers),
                                               text, "", life[stage].queue_pairs));
        }
    }
    void add_bytes(uint32_t peers, const std::string& name, double count) {
        bytes.push_back(exact_figure("registered memory of a process", peers, peers_text(peers),
                                     name, "KiB", count / 1024));
    }
    static std::string peers_text(uint32_t peers) {
        return std::to_string(peers) + (peers == 1 ? " peer" : " peers");
    }

    std::vector<Figure> bytes;
    std::vector<Figure> queue_pairs;
};

}  // namespace

Result run_memory(const Options& options, const Setup& setup) {
    if (!setup.device.starts_with("softhca"))
        throw Failure("only the software HCA counts what a process registers");
    const std::vector<uint32_t>& peers = options.peers;
    MemoryFigures figures;
    std::map<std::string, std::map<uint32_t, Life>> lives;
    std::set<std::string> failed;
    Progress progress;
    const size_t kind = progress.time().add(static_cast<uint32_t>(2 * peers.size()));
    const auto report = [&](uint32_t count, const char* how, const auto& life_of) {
        for (const std::string& transport : {options.transport, std::string("rc_verbs")}) {
            if (interrupted() != 0 || failed.contains(transport)) continue;
            try {
                const Life life = lives[transport][count] = life_of(transport);
                figures.add(transport + how, count, life);
            } catch (const Failure& failure) {
                progress.clear();
                failed.insert(transport);
                if (interrupted() == 0 && failed.size() == 2) throw;
                if (interrupted() == 0) add_gap(setup, failure.what());
            }
        }
        if (interrupted() != 0) return;
        figures.add_bytes(count, "fixed slots of the classic design, calculated",
                          static_cast<double>(count) * kClassicBytes);
    };
    for (const uint32_t count : peers) {
        const uint32_t hot = options.hot < 0 ? count : std::min<uint32_t>(options.hot, count);
        report(count, "", [&](const std::string& transport) {
            progress.step(kind, transport + " with " + MemoryFigures::peers_text(count));
            return live(uct_arm(transport), setup, count, hot);
        });
    }
    progress.end();
    progress.clear();
    if (interrupted() != 0) add_gap(setup, "interrupted before all numbers of peers were measured");
    const size_t last = peers.size() - 1;
    if (last > 0 && peers[last - 1] >= kAllHot && peers[last] > peers[last - 1]) {
        for (const uint32_t count : {1024, 4096}) {
            report(count, ", calculated", [&](const std::string& transport) {
                auto& measured = lives[transport];
                return extrapolated(measured[peers[last - 1]], peers[last - 1],
                                    measured[peers[last]], peers[last], count);
            });
        }
    }
    figures.bytes.insert(figures.bytes.end(), figures.queue_pairs.begin(),
                         figures.queue_pairs.end());
    return table_of(
        figures.bytes,
        "One process in the middle of its peers, all on this machine, talking to one after the "
        "other. rc_verbs\n"
        "registers its receive queue at the start (4095 buffers of 8256 B). With \"many messages\" "
        "all peers are hot,\n"
        "or as many as UCX_TERN_HOT_MAX.\n");
}

}  // namespace bench
