// SPDX-License-Identifier: BSD-3-Clause
// `tern-bench sim --rwapi`: notified writes of librwapi, RDMA writes, and UCP, in virtual time.
#include <algorithm>
#include <cstdio>
#include <iterator>

#include "bench/series/progress.h"
#include "bench/sim/benchmarks.h"
#include "bench/tern-bench/command.h"
#include "bench/tern-bench/sim.h"

namespace bench::sim {
namespace {

// Whether what is counted is a share of messages, not a time or a throughput.
bool is_count(const Value& value) {
    return value.unit.empty();
}

// Two ways that are compared.
struct Comparison {
    const char* name;
    const char* with;
};
constexpr Comparison kMoreComparisons[] = {
    {"send, UD", "send"},
    {"signal", "OpenSHMEM's calls, tern"},
    {"polled", "OpenSHMEM's calls, tern"},
    {"polled, behind the data", "OpenSHMEM's calls, tern"},
    {"signal", "OpenSHMEM's calls, rc_verbs"},
    {"polled", "OpenSHMEM's calls, rc_verbs"},
    {"polled, behind the data", "OpenSHMEM's calls, rc_verbs"},
    {"notified", "UCP's messages, tern"},
    {"notified", "UCP's messages, rc_verbs"},
    {"rwapi_write", "UCP's messages, tern"},
    {"rwapi_write", "UCP's messages, rc_verbs"},
};

class Benchmarks {
  public:
    Benchmarks(const Adapter& adapter, const std::vector<std::string>& transports,
               const std::vector<uint32_t>& sizes) {
        std::vector<std::string> simulations(std::begin(kSimulations), std::end(kSimulations));
        simulations.insert(simulations.end(), transports.begin(), transports.end());
        // The device and the programs get equal bytes each time.
        Progress progress(static_cast<uint32_t>(simulations.size()), false);
        for (const std::string& simulation : simulations) {
            progress.step(simulation);
            for (Value& value : values_in(simulate(adapter, simulation, sizes)))
                values_.push_back(std::move(value));
        }
        progress.clear();
        for (const Value& value : values_) add(value, value.name, value.unit, value.value);
        for (const Value& value : values_) {
            if (is_count(value)) continue;
            if (value.name != kWriteName) compare(value, kWriteName);
            for (const auto& [name, with] : kMoreComparisons)
                if (value.name == name) compare(value, with);
        }
    }
    const std::vector<report::Figure>& figures() const { return figures_; }

  private:
    static std::string simulate(const Adapter& adapter, const std::string& simulation,
                                const std::vector<uint32_t>& sizes) {
        Environment environment = over_ucp(simulation);
        if (simulation == "rwapi") environment.emplace_back("UCX_NET_DEVICES", "");
        environment.emplace_back("RWAPI_TLS", "tern");
        return run_in_virtual_time(
            adapter, simulation,
            [&](const std::string& result) -> Words {
                Words words = {"tern-sim", simulation, kBenchmarks, result};
                for (const uint32_t size : sizes) words.push_back(std::to_string(size));
                return words;
            },
            environment);
    }

    void add(const Value& value, const std::string& name, const std::string& unit, double number) {
        figures_.push_back(
            report::exact_figure(value.test, static_cast<uint64_t>(value.x), name, unit, number));
    }
    // Adds the ratio to another one, if that was measured.
    void compare(const Value& value, const char* with) {
        const auto other = std::ranges::find_if(values_, [&](const Value& each) {
            return each.test == value.test && each.x == value.x && each.name == with;
        });
        if (other != values_.end())
            add(value, value.name + " / " + with, std::string(1, report::kRatioUnit),
                value.value / other->value);
    }

    std::vector<Value> values_;
    std::vector<report::Figure> figures_;
};

}  // namespace

int run_benchmarks_of_rwapi(const Adapter& adapter, const std::vector<std::string>& transports,
                            const std::vector<uint32_t>& sizes, const std::string& json) {
    for (const uint32_t size : sizes)
        if (size >= 8 && size % 8 != 0) throw Failure("--sizes: less than 8, or multiples of 8");
    const Benchmarks benchmarks(adapter, transports, sizes);
    const std::string costs = costs_text(adapter, transports, Above::kRwapiToo);
    std::printf("%scosts %s\n\n%s", profile_text(adapter).c_str(), costs.c_str(),
                report::as_matrix(benchmarks.figures()).c_str());
    if (!json.empty())
        write_file(json, report::as_json(facts_of("sim --rwapi", adapter, "2", costs),
                                         benchmarks.figures()));
    return 0;
}

}  // namespace bench::sim
