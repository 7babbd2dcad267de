// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tern-bench/sim.h"

#include <sys/personality.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "bench/report/figure.h"
#include "bench/series/options.h"
#include "bench/series/process.h"
#include "bench/sim/benchmarks.h"
#include "bench/sim/costs.h"
#include "bench/sim/machine.h"
#include "bench/sim/patterns.h"
#include "bench/tern-bench/command.h"
#include "common/command.h"
#include "common/library.h"
#include "softhca/inspect/inspect.h"

namespace bench::sim {
namespace {

struct SimOptions {
    Adapter adapter;
    bool rwapi = false;
    std::vector<uint32_t> sizes{std::begin(kBenchmarkSizes), std::end(kBenchmarkSizes)};
    uint32_t ranks = 8;
    uint32_t per_port = 1;
    std::vector<std::string> transports = kUsualTransports;
    std::vector<std::string> patterns{std::begin(kPatterns), std::end(kPatterns)};
    std::string json;
};

// The results of one transport.
struct Column {
    std::string transport;
    std::vector<Value> values;
};

softhca_inspect_model model_of(const Adapter& adapter) {
    softhca_inspect_model model;
    char error[256];
    if (softhca_inspect_find_model(adapter.profile.c_str(), adapter.model.c_str(), &model, error,
                                   sizeof error) != 0)
        throw Failure(error);
    return model;
}

std::string model_text(const Adapter& adapter) {
    const softhca_inspect_model model = model_of(adapter);
    char text[512];
    softhca_inspect_describe(&model, text, sizeof text);
    return text;
}

// Nothing of this environment may change a result: the variables of UCX, of rwapi, of the software
// HCA and of malloc() are removed. `from` has changes of tern-bench's own.
Environment environment(const Environment& from, const Adapter& adapter) {
    const softhca_inspect_model model = model_of(adapter);
    Environment changes;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view variable = *entry;
        if (!variable.starts_with("UCX_") && !variable.starts_with("SOFTHCA_") &&
            !variable.starts_with("RWAPI_") && !variable.starts_with("MALLOC_") &&
            !variable.starts_with("TERN_TUNABLES=") && !variable.starts_with("GLIBC_TUNABLES="))
            continue;
        changes.emplace_back(variable.substr(0, variable.find('=')), "");
    }
    // The simulation runs Tern's timers, and no other thread can be late.
    std::string tunables = "batch_poll=1,pin_quarantine=0";
    for (const auto& [name, value] : from)
        if (name == "TERN_TUNABLES")
            tunables += "," + value;
        else if (name != "UCX_NET_DEVICES")
            changes.emplace_back(name, value);
    changes.emplace_back("TERN_TUNABLES", tunables);
    // UCX's handler of SIGSEGV would take the traps of the time-stamp counter for errors.
    changes.emplace_back("UCX_HANDLE_ERRORS", "none");
    changes.emplace_back("UCX_WARN_UNUSED_ENV_VARS", "n");
    changes.emplace_back("UCX_IB_ASYNC_EVENTS", "n");
    // UCX copies with an instruction instead of calls of memcpy, of which sizes depends on the
    // processor.
    changes.emplace_back("UCX_BUILTIN_MEMCPY_MIN", "inf");
    // From which size on UCP copies no more depends on the vendor of the processor.
    changes.emplace_back("UCX_BCOPY_BW", "7000MBs");
    // On some processors it would register all memory twice.
    changes.emplace_back("UCX_IB_PCI_RELAXED_ORDERING", "n");
    // Tern's answer to each change of memory takes time. How many changes the kernel reports
    // depends on which mappings happen to be neighbours, and how often malloc() returns memory on
    // addresses.
    changes.emplace_back("UCX_TERN_PIN_MONITOR", "ucm");
    changes.emplace_back("MALLOC_TRIM_THRESHOLD_", std::to_string(INT64_MAX));
    const Processor& processor = adapter.processor;
    changes.emplace_back(kCopyVariable, std::to_string(processor.copy));
    changes.emplace_back(kBlockVariable, std::to_string(processor.block));
    changes.emplace_back(kInstructionsVariable, std::to_string(processor.instructions));
    // What Tern would measure. Registrations are those of the adapter's model.
    const auto fixed = static_cast<double>(softhca_inspect_registration_ns(&model, 0));
    const auto million = static_cast<double>(softhca_inspect_registration_ns(&model, 1'000'000));
    changes.emplace_back("UCX_TERN_RNDV_COSTS",
                         formatted("copy=%.0fMBs,pin=%.0fMBs,pin_latency=%.0fns",
                                   processor.copy * 1000.0, 1e6 / (million - fixed) * 1000, fixed));
    return changes;
}

// "16", or "16:8" if 8 share a port.
std::string ranks_text(const SimOptions& options) {
    const std::string ranks = std::to_string(options.ranks);
    return options.per_port == 1 ? ranks : ranks + ":" + std::to_string(options.per_port);
}

Column simulate(const SimOptions& options, const std::string& transport) {
    Column column{title_of(transport), {}};
    column.values = values_in(
        run_in_virtual_time(options.adapter, transport, [&](const std::string& result) -> Words {
            Words words = {"tern-sim", transport, ranks_text(options), result};
            words.insert(words.end(), options.patterns.begin(), options.patterns.end());
            return words;
        }));
    return column;
}

// A transport may have no value: a pattern of two ranks needs no dynamic connections.
const Value* find(const Column& column, const Value& value) {
    const auto found = std::ranges::find_if(column.values, [&value](const Value& each) {
        return each.test == value.test && each.x == value.x;
    });
    return found == column.values.end() ? nullptr : &*found;
}

// Cells at the right of columns that have their titles' width.
std::string cell(const std::string& title, size_t least, const std::string& text) {
    return " " + std::string(std::max(title.size(), least) - text.size(), ' ') + text;
}

std::string as_text(const SimOptions& options, const std::vector<Column>& columns) {
    const std::string costs = costs_text(options.adapter, options.transports);
    std::string text = profile_text(options.adapter) + "ranks " + ranks_text(options) + "\ncosts " +
                       costs + "\n\n";
    text += formatted("%-22s %8s %-4s", "pattern", "bytes", "unit");
    const std::vector<Column> others(columns.begin() + 1, columns.end());
    const auto ratio_title = [&](const Column& other) {
        return others.size() == 1 ? "ratio" : "/ " + other.transport;
    };
    for (const Column& column : columns) text += cell(column.transport, 12, column.transport);
    for (const Column& other : others) text += cell(ratio_title(other), 8, ratio_title(other));
    text += "\n";
    for (const Value& first : columns.front().values) {
        text += formatted("%-22s %8.0f %-4s", first.test.c_str(), first.x, first.unit.c_str());
        for (const Column& column : columns) {
            const Value* value = find(column, first);
            text += cell(column.transport, 12,
                         value == nullptr ? "-" : formatted("%.3f", value->value));
        }
        for (const Column& other : others) {
            const Value* value = find(other, first);
            text += cell(ratio_title(other), 8,
                         value == nullptr ? "-" : formatted("%.3f", first.value / value->value));
        }
        text += "\n";
    }
    return text;
}

std::string as_json(const SimOptions& options, const std::vector<Column>& columns) {
    std::vector<report::Figure> figures;
    const auto add = [&](const Value& value, const std::string& name, const std::string& unit,
                         double number) {
        figures.push_back(
            report::exact_figure(value.test, static_cast<uint64_t>(value.x), name, unit, number));
    };
    for (const Value& first : columns.front().values) {
        for (const Column& column : columns)
            if (const Value* value = find(column, first))
                add(first, column.transport, first.unit, value->value);
        for (const Column& column : columns)
            if (const Value* value = find(column, first); value != nullptr && value != &first)
                add(first, columns.front().transport + " / " + column.transport,
                    std::string(1, report::kRatioUnit), first.value / value->value);
    }
    return report::as_json(facts_of("sim", options.adapter, ranks_text(options),
                                    costs_text(options.adapter, options.transports)),
                           figures);
}

}  // namespace

std::vector<Value> values_in(const std::string& result) {
    std::vector<Value> values;
    std::istringstream text(result);
    for (std::string line; std::getline(text, line);) {
        std::istringstream words_of(line);
        Value value;
        std::string number, size;
        std::getline(words_of, value.test, '\t');
        std::getline(words_of, size, '\t');
        std::getline(words_of, value.unit, '\t');
        std::getline(words_of, number, '\t');
        std::getline(words_of, value.name, '\t');
        value.x = std::strtod(size.c_str(), nullptr);
        value.value = std::strtod(number.c_str(), nullptr);
        values.push_back(value);
    }
    return values;
}

std::string profile_text(const Adapter& adapter) {
    return "profile " + adapter.profile + ": " + model_text(adapter) + "\n";
}

Facts facts_of(const std::string& command, const Adapter& adapter, const std::string& ranks,
               const std::string& costs) {
    return {{"command", command},
            {"profile", adapter.profile},
            {"model", model_text(adapter)},
            {"slow", std::to_string(adapter.slow)},
            {"ranks", ranks},
            {"costs", costs}};
}

void add_adapter(CLI::App& app, Adapter& adapter) {
    app.add_option("--profile", adapter.profile, "model of the adapter")
        ->option_text("NAME")
        ->check(known_profile())
        ->capture_default_str();
    app.add_option("--model", adapter.model, "single parameters that differ from the profile")
        ->check(known_model());
    app.add_option("--slow", adapter.slow,
                   "the network and registrations are slower by this factor")
        ->option_text("N")
        ->check(CLI::Range(1, 10'000))
        ->capture_default_str();
    add_processor(app, adapter.processor);
}

void add_processor(CLI::App& app, Processor& processor) {
    const auto add = [&app](const char* name, uint32_t& value, const char* what,
                            const auto& values) {
        app.add_option(name, value, what)
            ->option_text("N")
            ->check(CLI::IsMember(std::vector<uint32_t>{std::begin(values), std::end(values)}))
            ->capture_default_str();
    };
    add("--copy", processor.copy, "GB/s of the processor's copies: 6, 10 or 20", kCopyBandwidths);
    add("--instructions", processor.instructions,
        "instructions that the processor executes in a ns: 3, 6 or 9", kInstructionRates);
    app.add_option("--block", processor.block,
                   "ns of each 64 bytes after the first of a request of inline data")
        ->option_text("N")
        ->check(CLI::Range(uint64_t{0}, kMostBlock))
        ->capture_default_str();
}

std::string run_in_virtual_time(const Adapter& adapter, const std::string& transport,
                                const std::function<Words(const std::string& result)>& command,
                                const Environment& more) {
    Options common;
    common.device = "softhca0:1";
    const Setup setup = make_setup(common);
    const OwnFabric fabric("tern-sim");
    const MemoryFile result;
    Words words = fabric.launcher({"--profile", adapter.profile, "--model", adapter.model, "--slow",
                                   std::to_string(adapter.slow), "--clock", "virtual"});
    Words program = command(result.path());
    std::string error;
    program.front() = tools::find_library({program.front().c_str(), "", TERN_LIBEXECDIR}, &error);
    if (program.front().empty()) throw Failure(error);
    words.insert(words.end(), program.begin(), program.end());
    Environment changes = environment(setup.with_tern, adapter);
    changes.insert(changes.end(), more.begin(), more.end());
    // Where memory lies must not depend on the run: it decides the order of keys in tables.
    const int before = ::personality(0xffffffff);
    if (::personality(static_cast<unsigned long>(before) | ADDR_NO_RANDOMIZE) < 0)
        throw Failure("the kernel does not let addresses be the same in each run");
    Process process(words, changes);
    ::personality(static_cast<unsigned long>(before));
    if (process.wait() != 0) throw Failure("the simulation of " + transport + " has failed");
    return result.text();
}

Environment over_ucp(const std::string& transport) {
    return {{"UCX_NET_DEVICES", "softhca0:1"},
            {"UCX_TLS", running(transport) == "rc_verbs" ? "rc_v,self" : "tern,self"},
            // The device's threads would get arenas of their own, in an order that differs.
            {"MALLOC_ARENA_MAX", "1"}};
}

std::string title_of(const std::string& transport) {
    return transport + (costs_of(transport).is_modelled() ? ", modelled" : "");
}

void add_transports(CLI::App& app, std::vector<std::string>& transports) {
    std::vector<std::string> names;
    for (const TransportCosts& transport : kTransports) names.emplace_back(transport.name);
    app.add_option("--transports", transports,
                   "what is compared with the first one: tern, rc_verbs, rc_mlx5, dc_mlx5; the "
                   "last two are modelled [tern,rc_verbs]")
        ->option_text("NAME,...")
        ->delimiter(',')
        ->check(CLI::IsMember(names));
}

std::string costs_text(const Adapter& adapter, const std::vector<std::string>& transports,
                       Above above) {
    const VerbsCosts verbs;
    nlohmann::ordered_json costs = {
        {"verbs_ns",
         {{"post", verbs.post},
          {"request", verbs.request},
          {"block", adapter.processor.block},
          {"receive", verbs.receive},
          {"poll", verbs.poll},
          {"completion", verbs.completion}}},
        {"read_clock_ns", kReadClock},
        {"copy_bytes_per_ns", adapter.processor.copy},
        {"instructions_per_ns", adapter.processor.instructions},
    };
    for (const std::string& name : transports) {
        const TransportCosts& transport = costs_of(name);
        costs["instructions"][name] = {{"send", transport.send},
                                       {"copy", transport.copy},
                                       {"receive", transport.receive.first},
                                       {"further", transport.receive.further},
                                       {"poll", transport.poll},
                                       {"full_poll", transport.full_poll}};
        if (transport.append != 0) {
            costs["instructions"][name]["append"] = transport.append;
            costs["instructions"][name]["append_byte"] = transport.append_byte;
            costs["instructions"][name]["append_copy"] = transport.append_copy;
        }
        if (!transport.is_modelled()) continue;
        costs["modelled_ns"][name]["request"] = transport.request;
        if (transport.initiators == 0) continue;
        costs["modelled_ns"][name]["connect"] = transport.connect_ns;
        costs["initiators"][name] = transport.initiators;
    }
    if (above == Above::kUct) return costs.dump();
    costs["instructions"]["ucp"] = {{"send", kUcp.send},
                                    {"receive", kUcp.receive},
                                    {"message", kUcp.message},
                                    {"ended", kUcp.ended},
                                    {"progress", kUcp.progress}};
    if (above == Above::kUcpToo) return costs.dump();
    costs["instructions"]["ucp"]["put"] = kUcp.put;
    costs["instructions"]["ucp"]["fence"] = kUcp.fence;
    costs["instructions"]["rwapi"] = {{"write", kRwapi.write},
                                      {"write_long", kRwapi.write_long},
                                      {"notify", kRwapi.notify},
                                      {"notify_copied", kRwapi.notify_copied},
                                      {"notify_long", kRwapi.notify_long},
                                      {"set", kRwapi.set},
                                      {"set_apart", kRwapi.set_apart},
                                      {"set_copied", kRwapi.set_copied},
                                      {"set_long", kRwapi.set_long},
                                      {"take", kRwapi.take.first},
                                      {"take_further", kRwapi.take.further},
                                      {"take_signal", kRwapi.take_signal.first},
                                      {"take_signal_further", kRwapi.take_signal.further},
                                      {"poll", kRwapi.poll},
                                      {"look", kRwapi.look}};
    return costs.dump();
}

}  // namespace bench::sim

int bench::run_sim(int argc, char** argv) {
    using namespace sim;
    CLI::App app(
        "Simulates Tern and UCX's own rc_verbs on the software HCA in virtual time: exact figures "
        "that do not\ndepend on this machine, under a model of an adapter and a table of costs of "
        "the processor.",
        "tern-bench sim");
    SimOptions options;
    add_adapter(app, options.adapter);
    add_transports(app, options.transports);
    app.add_option("--ranks", options.ranks, "ranks of the patterns of many ranks")
        ->check(CLI::Range(2, 256))
        ->capture_default_str();
    app.add_option(
           "--per-port", options.per_port,
           "ranks that share an adapter and its port, of each node the ones that are as far "
           "apart as there are nodes")
        ->option_text("N")
        ->check(CLI::Range(1, 256))
        ->capture_default_str();
    app.add_option("--patterns", options.patterns, "some of the patterns, instead of all")
        ->option_text("NAME,...")
        ->delimiter(',')
        ->check(
            CLI::IsMember(std::vector<std::string>{std::begin(kPatterns), std::end(kPatterns)}));
    CLI::Option* const rwapi =
        app.add_flag("--rwapi", options.rwapi,
                     "the benchmarks of the RWAPI paper between two ranks, instead of patterns")
            ->excludes("--ranks")
            ->excludes("--per-port")
            ->excludes("--patterns");
    add_list(app, "--sizes", options.sizes, ',',
             "of --rwapi: lengths of messages, in bytes, or with K or M [1 to 1M]")
        ->option_text("N,...")
        ->needs(rwapi)
        ->check(CLI::Range(uint64_t{1}, kLongestMessage))
        ->transform(CLI::AsSizeValue(false));
    app.add_option("--json", options.json, "also write the result to this file, as JSON");
    return tools::run_command(&app, argc - 1, argv + 1, [&] {
        if (!options.json.empty()) check_writable(options.json);
        if (options.rwapi)
            return run_benchmarks_of_rwapi(options.adapter, options.transports, options.sizes,
                                           options.json);
        std::vector<Column> columns;
        // The device and the programs get equal bytes each time.
        Progress progress(static_cast<uint32_t>(options.transports.size()), false);
        for (const std::string& transport : options.transports) {
            progress.step(transport);
            columns.push_back(simulate(options, transport));
        }
        progress.clear();
        std::fputs(as_text(options, columns).c_str(), stdout);
        if (!options.json.empty()) write_file(options.json, as_json(options, columns));
        return 0;
    });
}
