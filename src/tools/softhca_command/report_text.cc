// SPDX-License-Identifier: BSD-3-Clause
// The report as aligned text.
#include <algorithm>
#include <cstdio>

#include "core/text.h"
#include "tools/softhca_command/report.h"

namespace softhca {
namespace {

using Row = std::vector<std::string>;

/// Columns as wide as their widest cell; the first is flush left, the others right.
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
    text += "profile " + report.profile;
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

}  // namespace

std::string as_text(const Report& report) {
    std::string text = heading(report) + ports(report);
    if (report.processes.empty()) return text;
    text += "\n" + objects(report) + "\n" + counters(report);
    if (report.nic.models_time()) text += "\n" + lateness(report);
    return text;
}

}  // namespace softhca
