// SPDX-License-Identifier: BSD-3-Clause
#include "tern/tern-run/job_record.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>

namespace tern {
namespace {

using nlohmann::json;

std::string text_in(const json& record, const char* name) {
    const auto found = record.find(name);
    return found != record.end() && found->is_string() ? found->get<std::string>() : "";
}

uint64_t number_in(const json& record, const char* name) {
    const auto found = record.find(name);
    return found != record.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

PeerRecord peer_of(const json& record) {
    return {.device = text_in(record, "device"),
            .peer = text_in(record, "peer"),
            .address = text_in(record, "address"),
            .requests = number_in(record, "requests"),
            .hot = number_in(record, "blocks_taken") != 0,
            .polls_memory = number_in(record, "polls_memory") != 0,
            .staged = number_in(record, "staged"),
            .placed = number_in(record, "placed"),
            .read = number_in(record, "read"),
            .bytes = number_in(record, "bytes")};
}

void add_counts(const json& record, const char* name, std::map<std::string, uint64_t>& sums) {
    const auto counts = record.find(name);
    if (counts == record.end() || !counts->is_object()) return;
    for (const auto& [key, value] : counts->items()) {
        if (!value.is_number_unsigned()) continue;
        uint64_t& sum = sums[key];
        sum = key.ends_with("_most") ? std::max(sum, value.get<uint64_t>())
                                     : sum + value.get<uint64_t>();
    }
}

void take(const json& record, ProcessRecord& process) {
    process.host = text_in(record, "host");
    process.pid = number_in(record, "pid");
    const std::string rank = text_in(record, "rank");
    unsigned number = 0;
    if (std::from_chars(rank.data(), rank.data() + rank.size(), number).ec == std::errc())
        process.rank = number;
    process.by_pmi = text_in(record, "rank_by") == "PMI_RANK";
    if (const std::string program = text_in(record, "program"); !program.empty())
        process.program = program;
    const std::string event = text_in(record, "event");
    if (event == "misfit") {
        process.misfit = text_in(record, "why");
    } else if (event == "devices") {
        process.queried = true;
        process.devices = number_in(record, "count");
        process.transports = text_in(record, "tls");
        process.net_devices = text_in(record, "net_devices");
    } else if (event == "unused") {
        process.unused.push_back(
            {text_in(record, "what"), text_in(record, "why"), text_in(record, "remedy")});
    } else if (event == "interface") {
        process.interfaces.push_back(text_in(record, "id"));
    } else if (event == "lanes") {
        process.lanes.push_back(text_in(record, "text"));
    } else if (event == "peer") {
        process.peers.push_back(peer_of(record));
    } else if (event == "counters") {
        ++process.closed;
        add_counts(record, "counters", process.counters);
        add_counts(record, "reasons", process.reasons);
    }
}

}  // namespace

std::string ProcessRecord::name() const {
    if (rank) return std::to_string(*rank);
    return program + "[" + std::to_string(pid) + "]";
}

std::vector<ProcessRecord> read_records(const std::string& folder) {
    std::vector<ProcessRecord> processes;
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
        if (file.path().extension() != ".json") continue;
        ProcessRecord process;
        std::ifstream lines(file.path());
        for (std::string line; std::getline(lines, line);) {
            const json record = json::parse(line, nullptr, false);
            if (record.is_object()) take(record, process);
        }
        if (process.pid != 0) processes.push_back(std::move(process));
    }
    std::ranges::sort(processes, {}, [](const ProcessRecord& process) {
        return std::tuple(!process.rank, process.rank.value_or(0), process.host, process.pid);
    });
    return processes;
}

}  // namespace tern
