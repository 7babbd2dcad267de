// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/command/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

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

// A slot in which a process is, or was.
struct Member {
    uint32_t number;
    const ProcessSlot* slot;
    bool alive;

    int32_t pid() const { return slot->pid.load(kRelaxed); }
};

std::vector<Member> members_of(FabricView& fabric) {
    std::vector<Member> members;
    for (uint32_t number = 0; number < kMaxProcesses; ++number) {
        const ProcessSlot& slot = fabric.header().slots[number];
        if (slot.state() != SlotState::kFree)
            members.push_back({number, &slot, fabric.alive(slot)});
    }
    std::ranges::sort(members, {}, &Member::pid);
    return members;
}

const char* executor_of(const Member& member) {
    return member.slot->thread_executor != 0 ? "thread" : "inline";
}

// Of all processes that live; at most at one time.
void sum_queues(FabricView& fabric, const std::vector<Member>& members, QueueUsage* all) {
    for (uint32_t kind = 0; kind < QueueUsage::kKinds; ++kind) {
        all->levels[kind].peak = fabric.header().queue_peaks[kind].load(kRelaxed);
        for (const Member& member : members)
            if (member.alive)
                all->levels[kind].live += member.slot->queues.levels[kind].live.load(kRelaxed);
    }
}

uint32_t devices_of(const FabricConfig& config) {
    return std::min(config.devices, kMaxDevices);
}
uint32_t ports_of(const FabricConfig& config) {
    return std::min(config.ports, kMaxPorts);
}
const char* link_layer_of(const FabricConfig& config) {
    return config.link_layer == LinkLayer::kEthernet ? "ethernet" : "infiniband";
}

// Calls `visit(device, port, up)` for each port.
template <typename Visit>
void for_each_port(const FabricHeader& header, Visit&& visit) {
    for (uint32_t device = 0; device < devices_of(header.config); ++device)
        for (uint32_t port = 1; port <= ports_of(header.config); ++port)
            visit("softhca" + std::to_string(device), port,
                  !port_down(header.faults, device, port));
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

std::string who(const Member& member) {
    return std::to_string(member.pid()) + " " + bounded(member.slot->name) +
           (member.alive ? "" : " (gone)");
}

std::string heading(const std::string& name, const FabricHeader& header, size_t members) {
    const FabricConfig& config = header.config;
    std::string text = "fabric " + name + ": " + plural(members, "process", "processes") + ", " +
                       plural(devices_of(config), "device", "devices") + " of " +
                       plural(ports_of(config), "port", "ports") + ", " + link_layer_of(config) +
                       "\npersonality " + bounded(config.personality_name) + "\nprofile " +
                       bounded(config.profile);
    if (config.nic.models_time()) text += ": " + describe(config.nic);
    text += "\nfaults " + describe(header.faults) + "\nports";
    for_each_port(header, [&](const std::string& device, uint32_t port, bool up) {
        text += " " + device + ":" + std::to_string(port) + (up ? " up" : " DOWN");
    });
    return text + "\n";
}

std::string objects(const FabricView& fabric, const std::vector<Member>& members) {
    std::vector<Row> rows = {{"PROCESS", "EXECUTOR", "QP", "SRQ", "CQ", "MR", "MW"}};
    for (const Member& member : members) {
        const ObjectCounts count = fabric.count_objects(member.number);
        rows.push_back(
            {who(member), executor_of(member), std::to_string(count.queue_pairs),
             std::to_string(count.shared_receive_queues), std::to_string(count.completion_queues),
             std::to_string(count.memory_regions), std::to_string(count.memory_windows)});
    }
    return table(rows);
}

std::string counters(const std::vector<Member>& members) {
    std::vector<Row> rows = {{"PROCESS"}};
    for (const auto& counter : kCounters) rows.front().emplace_back(counter.name);
    for (const Member& member : members) {
        Row& row = rows.emplace_back(Row{who(member)});
        for (const auto& counter : kCounters)
            row.push_back(std::to_string((member.slot->counters.*counter.field).load(kRelaxed)));
    }
    return table(rows);
}

Row queue_row(const std::string& name, const QueueUsage& queues) {
    Row row = {name};
    for (const QueueUsage::Level& level : queues.levels) {
        row.push_back(std::to_string(level.live.load(kRelaxed)));
        row.push_back(std::to_string(level.peak.load(kRelaxed)));
    }
    return row;
}

std::string queues(FabricView& fabric, const std::vector<Member>& members) {
    std::vector<Row> rows = {
        {"QUEUES", "QP", "peak", "CQ entries", "peak", "receive queues", "peak", "bytes", "peak"}};
    for (const Member& member : members)
        rows.push_back(queue_row(who(member), member.slot->queues));
    QueueUsage all;
    sum_queues(fabric, members, &all);
    rows.push_back(queue_row("all", all));
    return table(rows);
}

std::string percent(uint64_t part, uint64_t whole) {
    char text[16];
    std::snprintf(
        text, sizeof text, "%.2f%%",
        whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole));
    return text;
}

Row lateness_row(const std::string& name, const Lateness& lateness) {
    const uint64_t count = lateness.count.load(kRelaxed);
    const uint64_t late = lateness.late.load(kRelaxed);
    Row row = {name,
               std::to_string(count),
               std::to_string(late),
               percent(late, count),
               time_text(late == 0 ? 0 : lateness.total_ns.load(kRelaxed) / late),
               time_text(lateness.max_ns.load(kRelaxed))};
    for (const auto& bucket : lateness.histogram)
        row.push_back(std::to_string(bucket.load(kRelaxed)));
    return row;
}

void add(const Lateness& from, Lateness& to) {
    to.count += from.count.load(kRelaxed);
    to.late += from.late.load(kRelaxed);
    to.total_ns += from.total_ns.load(kRelaxed);
    to.max_ns = std::max(to.max_ns.load(kRelaxed), from.max_ns.load(kRelaxed));
    for (int i = 0; i < Lateness::kBuckets; ++i)
        to.histogram[i] += from.histogram[i].load(kRelaxed);
}

std::string lateness(const std::vector<Member>& members) {
    std::vector<Row> rows = {{"LATENESS", "operations", "late", "share", "mean", "max", "<1us",
                              "<10us", "<100us", "<1ms", "<10ms", "<100ms", "<1s", ">=1s"}};
    Lateness all = {};
    for (const Member& member : members) {
        rows.push_back(lateness_row(who(member), member.slot->lateness));
        add(member.slot->lateness, all);
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

nlohmann::ordered_json queues_json(const QueueUsage& queues) {
    nlohmann::ordered_json json = nlohmann::ordered_json::object();
    for (uint32_t kind = 0; kind < QueueUsage::kKinds; ++kind)
        json[kQueueKinds[kind]] = {{"live", queues.levels[kind].live.load(kRelaxed)},
                                   {"peak", queues.levels[kind].peak.load(kRelaxed)}};
    return json;
}

nlohmann::ordered_json member_json(const FabricView& fabric, const Member& member) {
    const ObjectCounts objects = fabric.count_objects(member.number);
    const Lateness& lateness = member.slot->lateness;
    nlohmann::ordered_json counters = nlohmann::ordered_json::object();
    for (const auto& counter : kCounters)
        counters[counter.name] = (member.slot->counters.*counter.field).load(kRelaxed);
    nlohmann::ordered_json histogram = nlohmann::ordered_json::array();
    for (const auto& bucket : lateness.histogram) histogram.push_back(bucket.load(kRelaxed));
    return {{"pid", member.pid()},
            {"name", bounded(member.slot->name)},
            {"alive", member.alive},
            {"executor", executor_of(member)},
            {"objects",
             {{"queue_pairs", objects.queue_pairs},
              {"shared_receive_queues", objects.shared_receive_queues},
              {"completion_queues", objects.completion_queues},
              {"memory_regions", objects.memory_regions},
              {"memory_windows", objects.memory_windows}}},
            {"queues", queues_json(member.slot->queues)},
            {"counters", counters},
            {"lateness",
             {{"operations", lateness.count.load(kRelaxed)},
              {"late", lateness.late.load(kRelaxed)},
              {"late_total_ns", lateness.total_ns.load(kRelaxed)},
              {"max_ns", lateness.max_ns.load(kRelaxed)},
              {"histogram", histogram}}}};
}

}  // namespace

std::string status_text(const std::string& name, FabricView& fabric) {
    const std::vector<Member> members = members_of(fabric);
    std::string text = heading(name, fabric.header(), members.size());
    if (members.empty()) return text;
    text +=
        "\n" + objects(fabric, members) + "\n" + queues(fabric, members) + "\n" + counters(members);
    if (fabric.header().config.nic.models_time()) text += "\n" + lateness(members);
    return text;
}

std::string status_json(const std::string& name, FabricView& fabric) {
    const FabricHeader& header = fabric.header();
    const FabricConfig& config = header.config;
    const std::vector<Member> members = members_of(fabric);
    QueueUsage all;
    sum_queues(fabric, members, &all);
    nlohmann::ordered_json json = {{"fabric", name},
                                   {"devices", devices_of(config)},
                                   {"ports_per_device", ports_of(config)},
                                   {"link_layer", link_layer_of(config)},
                                   {"personality", bounded(config.personality_name)},
                                   {"profile", bounded(config.profile)},
                                   {"model", model_json(config.nic)},
                                   {"faults", describe(header.faults)},
                                   {"queues", queues_json(all)},
                                   {"ports", nlohmann::ordered_json::array()},
                                   {"processes", nlohmann::ordered_json::array()}};
    for_each_port(header, [&](const std::string& device, uint32_t port, bool up) {
        json["ports"].push_back({{"device", device}, {"port", port}, {"up", up}});
    });
    for (const Member& member : members) json["processes"].push_back(member_json(fabric, member));
    return json.dump(kIndent, ' ', false, kReplace) + "\n";
}

}  // namespace softhca
