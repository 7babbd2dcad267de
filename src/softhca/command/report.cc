// SPDX-License-Identifier: BSD-3-Clause
// What `softhca status` prints of a fabric: a text, or JSON.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "softhca/command/command.h"
#include "softhca/core/text.h"

namespace softhca {
namespace {

using Json = nlohmann::ordered_json;

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
    const ProcessSlot* slot;
    bool alive;

    int32_t pid() const { return slot->pid.load(kRelaxed); }
};

std::vector<Member> members_of(FabricView& fabric) {
    std::vector<Member> members;
    for (const ProcessSlot& slot : fabric.header().slots)
        if (slot.state() != SlotState::kFree) members.push_back({&slot, fabric.alive(slot)});
    std::ranges::sort(members, {}, &Member::pid);
    return members;
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

// A process may have any bytes in its name, including invalid UTF-8.
constexpr auto kReplace = Json::error_handler_t::replace;
constexpr int kIndent = 2;

// JSON has no infinite numbers and no NaN.
void add_finite(Json* object, const char* name, double value) {
    if (std::isfinite(value)) (*object)[name] = value;
}

Json model_json(const NicParameters& nic) {
    Json json = Json::object();
    for (const auto& [name, value, is_time] : parameter_values(nic)) {
        if (is_time)
            json[name] = static_cast<uint64_t>(value);
        else
            add_finite(&json, name.c_str(), value);
    }
    return json;
}

Json queue_json(uint64_t live, const std::atomic<uint64_t>& peak) {
    return {{"live", live}, {"peak", peak.load(kRelaxed)}};
}

Json queues_json(const QueueUsage& queues) {
    Json json = Json::object();
    for (uint32_t kind = 0; kind < QueueUsage::kKinds; ++kind)
        json[kQueueKinds[kind]] =
            queue_json(queues.levels[kind].live.load(kRelaxed), queues.levels[kind].peak);
    return json;
}

// Of all processes that live; at most at one time.
Json all_queues_json(const FabricHeader& header, const std::vector<Member>& members) {
    Json json = Json::object();
    for (uint32_t kind = 0; kind < QueueUsage::kKinds; ++kind) {
        uint64_t live = 0;
        for (const Member& member : members)
            if (member.alive) live += member.slot->queues.levels[kind].live.load(kRelaxed);
        json[kQueueKinds[kind]] = queue_json(live, header.queue_peaks[kind]);
    }
    return json;
}

Json member_json(const Member& member) {
    const ObjectCounts& objects = member.slot->objects;
    const Lateness& lateness = member.slot->lateness;
    Json counters = Json::object();
    for (const auto& counter : kCounters)
        counters[counter.name] = (member.slot->counters.*counter.field).load(kRelaxed);
    return {
        {"pid", member.pid()},
        {"name", bounded(member.slot->name)},
        {"alive", member.alive},
        {"executor", member.slot->thread_executor != 0 ? "thread" : "inline"},
        {"objects",
         {{"queue_pairs", member.slot->queues.levels[QueueUsage::kQueuePairs].live.load(kRelaxed)},
          {"shared_receive_queues", objects.shared_receive_queues.load(kRelaxed)},
          {"completion_queues", objects.completion_queues.load(kRelaxed)},
          {"memory_regions", objects.memory_regions.load(kRelaxed)},
          {"memory_windows", objects.memory_windows.load(kRelaxed)}}},
        {"queues", queues_json(member.slot->queues)},
        {"counters", counters},
        {"lateness",
         {{"operations", lateness.count.load(kRelaxed)},
          {"late", lateness.late.load(kRelaxed)},
          {"late_total_ns", lateness.total_ns.load(kRelaxed)}}}};
}

Json status(const std::string& name, FabricView& fabric) {
    const FabricHeader& header = fabric.header();
    const FabricConfig& config = header.config;
    const std::vector<Member> members = members_of(fabric);
    Json json = {{"fabric", name},
                 {"devices", devices_of(config)},
                 {"ports_per_device", ports_of(config)},
                 {"link_layer", link_layer_of(config)},
                 {"personality", bounded(config.personality_name)},
                 {"profile", bounded(config.profile)},
                 {"model", model_json(config.nic)},
                 {"faults", describe(header.faults)},
                 {"queues", all_queues_json(header, members)},
                 {"ports", Json::array()},
                 {"processes", Json::array()}};
    for_each_port(header, [&](const std::string& device, uint32_t port, bool up) {
        json["ports"].push_back({{"device", device}, {"port", port}, {"up", up}});
    });
    for (const Member& member : members) json["processes"].push_back(member_json(member));
    return json;
}

// A table of a part of the status: a line for each process and perhaps for all, a column for each
// name.
std::string table_of(const Json& processes, const char* part, const Json& all = {}) {
    std::vector<Row> rows;
    const auto add = [&](const std::string& name, const Json& values) {
        Row& row = rows.emplace_back(Row{name});
        for (const Json& value : values)
            row.push_back(value.is_object() ? value["live"].dump() + "/" + value["peak"].dump()
                                            : value.dump());
    };
    Row& names = rows.emplace_back(Row{part});
    for (const auto& [name, value] : processes.front()[part].items()) names.push_back(name);
    for (const Json& process : processes)
        add(process["pid"].dump() + " " + process["name"].get<std::string>() +
                (process["alive"].get<bool>() ? " " : " (gone) ") +
                process["executor"].get<std::string>(),
            process[part]);
    if (!all.empty()) add("all", all);
    return "\n" + table(rows);
}

}  // namespace

std::string status_text(const std::string& name, FabricView& fabric) {
    const Json json = status(name, fabric);
    const Json& processes = json["processes"];
    std::string text = heading(name, fabric.header(), processes.size());
    if (processes.empty()) return text;
    text += table_of(processes, "objects") + table_of(processes, "queues", json["queues"]) +
            table_of(processes, "counters");
    if (fabric.header().config.nic.models_time()) text += table_of(processes, "lateness");
    return text;
}

std::string status_json(const std::string& name, FabricView& fabric) {
    return status(name, fabric).dump(kIndent, ' ', false, kReplace) + "\n";
}

}  // namespace softhca
