// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/command/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "softhca/core/queue_memory.h"
#include "softhca/core/text.h"

namespace softhca {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

constexpr struct {
    const char* name;
    std::atomic<uint64_t> Counters::*field;
} kCounters[] = {
    {"messages", &Counters::messages},
    {"bytes", &Counters::bytes},
    {"completions", &Counters::completions},
    {"events", &Counters::events},
    {"rnr_naks", &Counters::rnr_naks},
    {"retransmissions", &Counters::retransmissions},
    {"errors", &Counters::errors},
    {"dropped", &Counters::dropped},
    {"registered_bytes", &Counters::registered_bytes},
    {"registrations", &Counters::registrations},
};

constexpr const char* kQueueKinds[] = {"queue_pairs", "completion_entries", "receive_queues",
                                       "bytes"};
static_assert(std::size(kQueueKinds) == QueueUsage::kKinds);

// A text in shared memory may lack its terminating zero.
template <size_t size>
std::string bounded(const char (&text)[size]) {
    return {text, ::strnlen(text, size)};
}

LatenessReport read_lateness(const Lateness& lateness) {
    LatenessReport report{lateness.count.load(kRelaxed),
                          lateness.late.load(kRelaxed),
                          lateness.total_ns.load(kRelaxed),
                          lateness.max_ns.load(kRelaxed),
                          {}};
    for (size_t i = 0; i < report.histogram.size(); ++i) {
        report.histogram[i] = lateness.histogram[i].load(kRelaxed);
    }
    return report;
}

ProcessReport read_process(const FabricView& fabric, uint32_t slot, const ProcessSlot& process) {
    ProcessReport report;
    report.pid = process.pid.load(kRelaxed);
    report.name = bounded(process.name);
    report.alive = fabric.alive(process);
    report.thread_executor = process.thread_executor != 0;
    report.objects = fabric.count_objects(slot);
    for (const auto& counter : kCounters) {
        report.counters.emplace_back(counter.name,
                                     (process.counters.*counter.field).load(kRelaxed));
    }
    for (uint32_t kind = 0; kind < QueueUsage::kKinds; ++kind) {
        report.queues.live[kind] = process.queues.levels[kind].live.load(kRelaxed);
        report.queues.peak[kind] = process.queues.levels[kind].peak.load(kRelaxed);
    }
    report.lateness = read_lateness(process.lateness);
    return report;
}

using Row = std::vector<std::string>;

// Columns are as wide as their widest cell. The first column is flush left, the others flush right.
std::string table(const std::vector<Row>& rows) {
    std::vector<size_t> widths(rows.front().size(), 0);
    for (const Row& row : rows) {
        for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string text;
    for (const Row& row : rows) {
        for (size_t i = 0; i < row.size(); ++i) {
            const std::string padding(widths[i] - row[i].size(), ' ');
            text += i == 0 ? row[i] + padding : "  " + padding + row[i];
        }
        text.erase(text.find_last_not_of(' ') + 1);
        text += '\n';
    }
    return text;
}

std::string plural(size_t count, const std::string& one, const std::string& many) {
    return std::to_string(count) + " " + (count == 1 ? one : many);
}

std::string who(const ProcessReport& process) {
    return std::to_string(process.pid) + " " + process.name + (process.alive ? "" : " (gone)");
}

std::string heading(const Report& report) {
    std::string text = "fabric " + report.fabric + ": " +
                       plural(report.processes.size(), "process", "processes") + ", " +
                       plural(report.devices, "device", "devices") + " of " +
                       plural(report.ports_per_device, "port", "ports") + ", " +
                       (report.ethernet ? "ethernet" : "infiniband") + "\n";
    text += "personality " + report.personality + "\nprofile " + report.profile;
    if (report.nic.models_time()) text += ": " + describe(report.nic);
    text += "\nfaults " + report.faults + "\n";
    return text;
}

std::string ports(const Report& report) {
    std::string text = "ports";
    for (const PortReport& port : report.ports) {
        text += " softhca" + std::to_string(port.device) + ":" + std::to_string(port.port) +
                (port.up ? " up" : " DOWN");
    }
    return text + "\n";
}

std::string objects(const Report& report) {
    std::vector<Row> rows = {{"PROCESS", "EXECUTOR", "QP", "SRQ", "CQ", "MR", "MW"}};
    for (const ProcessReport& process : report.processes) {
        const ObjectCounts& count = process.objects;
        rows.push_back(
            {who(process), process.thread_executor ? "thread" : "inline",
             std::to_string(count.queue_pairs), std::to_string(count.shared_receive_queues),
             std::to_string(count.completion_queues), std::to_string(count.memory_regions),
             std::to_string(count.memory_windows)});
    }
    return table(rows);
}

std::string counters(const Report& report) {
    Row titles = {"PROCESS"};
    for (const auto& [name, value] : report.processes.front().counters) titles.emplace_back(name);
    std::vector<Row> rows = {titles};
    for (const ProcessReport& process : report.processes) {
        Row row = {who(process)};
        for (const auto& [name, value] : process.counters) row.push_back(std::to_string(value));
        rows.push_back(row);
    }
    return table(rows);
}

Row queue_row(const std::string& name, const QueueReport& queues) {
    Row row = {name};
    for (uint32_t kind = 0; kind < QueueUsage::kKinds; ++kind) {
        row.push_back(std::to_string(queues.live[kind]));
        row.push_back(std::to_string(queues.peak[kind]));
    }
    return row;
}

// The memory is that of a driver of real devices.
std::string queues(const Report& report) {
    const std::string memory = report.queue_driver + " bytes";
    std::vector<Row> rows = {
        {"QUEUES", "QP", "peak", "CQ entries", "peak", "receive queues", "peak", memory, "peak"}};
    for (const ProcessReport& process : report.processes)
        rows.push_back(queue_row(who(process), process.queues));
    rows.push_back(queue_row("all", report.queues));
    return table(rows);
}

std::string percent(uint64_t part, uint64_t whole) {
    char text[16];
    std::snprintf(
        text, sizeof text, "%.2f%%",
        whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole));
    return text;
}

Row lateness_row(const std::string& name, const LatenessReport& lateness) {
    Row row = {name,
               std::to_string(lateness.count),
               std::to_string(lateness.late),
               percent(lateness.late, lateness.count),
               time_text(lateness.late == 0 ? 0 : lateness.total_ns / lateness.late),
               time_text(lateness.max_ns)};
    for (const uint64_t bucket : lateness.histogram) row.push_back(std::to_string(bucket));
    return row;
}

std::string lateness(const Report& report) {
    std::vector<Row> rows = {{"LATENESS", "operations", "late", "share", "mean", "max", "<1us",
                              "<10us", "<100us", "<1ms", "<10ms", "<100ms", "<1s", ">=1s"}};
    LatenessReport all;
    for (const ProcessReport& process : report.processes) {
        rows.push_back(lateness_row(who(process), process.lateness));
        all.add(process.lateness);
    }
    rows.push_back(lateness_row("all", all));
    return table(rows);
}

// A process may have any bytes in its name, including invalid UTF-8.
constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
constexpr int kIndent = 2;

// JSON has no infinite numbers and no NaN.
void add_finite(nlohmann::ordered_json* object, const char* name, double value) {
    if (std::isfinite(value)) (*object)[name] = value;
}

nlohmann::ordered_json model_json(const NicParameters& nic) {
    nlohmann::ordered_json json = nlohmann::ordered_json::object();
    for (const auto& [name, value, is_time] : parameter_values(nic)) {
        if (is_time)
            json[name] = static_cast<uint64_t>(value);
        else
            add_finite(&json, name.c_str(), value);
    }
    return json;
}

nlohmann::ordered_json queues_json(const QueueReport& queues) {
    nlohmann::ordered_json json = nlohmann::ordered_json::object();
    for (uint32_t kind = 0; kind < QueueUsage::kKinds; ++kind)
        json[kQueueKinds[kind]] = {{"live", queues.live[kind]}, {"peak", queues.peak[kind]}};
    return json;
}

nlohmann::ordered_json process_json(const ProcessReport& process) {
    const ObjectCounts& objects = process.objects;
    const LatenessReport& lateness = process.lateness;
    nlohmann::ordered_json counters = nlohmann::ordered_json::object();
    for (const auto& [name, value] : process.counters) counters[name] = value;
    return {{"pid", process.pid},
            {"name", process.name},
            {"alive", process.alive},
            {"executor", process.thread_executor ? "thread" : "inline"},
            {"objects",
             {{"queue_pairs", objects.queue_pairs},
              {"shared_receive_queues", objects.shared_receive_queues},
              {"completion_queues", objects.completion_queues},
              {"memory_regions", objects.memory_regions},
              {"memory_windows", objects.memory_windows}}},
            {"queues", queues_json(process.queues)},
            {"counters", counters},
            {"lateness",
             {{"operations", lateness.count},
              {"late", lateness.late},
              {"late_total_ns", lateness.total_ns},
              {"max_ns", lateness.max_ns},
              {"histogram", lateness.histogram}}}};
}

}  // namespace

void LatenessReport::add(const LatenessReport& other) {
    count += other.count;
    late += other.late;
    total_ns += other.total_ns;
    max_ns = std::max(max_ns, other.max_ns);
    for (size_t i = 0; i < histogram.size(); ++i) histogram[i] += other.histogram[i];
}

Report make_report(const std::string& name, FabricView* fabric) {
    const FabricHeader& header = fabric->header();
    Report report;
    report.fabric = name;
    report.devices = std::min(header.config.devices, kMaxDevices);
    report.ports_per_device = std::min(header.config.ports, kMaxPorts);
    report.ethernet = header.config.link_layer == LinkLayer::kEthernet;
    report.personality = bounded(header.config.personality_name);
    report.profile = bounded(header.config.profile);
    report.nic = header.config.nic;
    report.faults = describe(header.faults);
    for (uint32_t device = 0; device < report.devices; ++device) {
        for (uint32_t port = 1; port <= report.ports_per_device; ++port) {
            report.ports.push_back({device, port, !port_down(header.faults, device, port)});
        }
    }
    for (uint32_t slot = 0; slot < kMaxProcesses; ++slot) {
        const ProcessSlot& process = header.slots[slot];
        if (process.state() == SlotState::kFree) continue;
        report.processes.push_back(read_process(*fabric, slot, process));
    }
    std::ranges::sort(report.processes, {}, &ProcessReport::pid);
    report.queue_driver = queue_driver_name(header.config.personality.memory.queue_driver);
    for (uint32_t kind = 0; kind < QueueUsage::kKinds; ++kind) {
        report.queues.peak[kind] = header.queue_peaks[kind].load(kRelaxed);
        for (const ProcessReport& process : report.processes)
            if (process.alive) report.queues.live[kind] += process.queues.live[kind];
    }
    return report;
}

std::string as_text(const Report& report) {
    std::string text = heading(report) + ports(report);
    if (report.processes.empty()) return text;
    text += "\n" + objects(report) + "\n" + queues(report) + "\n" + counters(report);
    if (report.nic.models_time()) text += "\n" + lateness(report);
    return text;
}

std::string as_json(const Report& report) {
    nlohmann::ordered_json json = {{"fabric", report.fabric},
                                   {"devices", report.devices},
                                   {"ports_per_device", report.ports_per_device},
                                   {"link_layer", report.ethernet ? "ethernet" : "infiniband"},
                                   {"personality", report.personality},
                                   {"profile", report.profile},
                                   {"model", model_json(report.nic)},
                                   {"faults", report.faults},
                                   {"queue_driver", report.queue_driver},
                                   {"queues", queues_json(report.queues)},
                                   {"ports", nlohmann::ordered_json::array()},
                                   {"processes", nlohmann::ordered_json::array()}};
    for (const PortReport& port : report.ports) {
        json["ports"].push_back({{"device", "softhca" + std::to_string(port.device)},
                                 {"port", port.port},
                                 {"up", port.up}});
    }
    for (const ProcessReport& process : report.processes) {
        json["processes"].push_back(process_json(process));
    }
    return json.dump(kIndent, ' ', false, kReplace) + "\n";
}

}  // namespace softhca
