// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/run/pmi_server.h"

#include <algorithm>

#include "rwapi/bootstrap/pmi1_message.h"

namespace rwapi {
namespace {

constexpr const char* kSpace = "job";
constexpr size_t kMaxKey = 64;
constexpr size_t kMaxKeys = 4096;  // of a process
// MPICH requests where the processes run. Here all run on one machine.
constexpr const char* kMappingKey = "PMI_process_mapping";

std::string has_ended(uint32_t rank) {
    return "process_" + std::to_string(rank) + "_has_ended";
}

}  // namespace

PmiServer::Replies PmiServer::take(uint32_t rank, std::string_view line) {
    Replies replies;
    const auto refuse = [&](const std::string& reason) {
        replies.error = reason + ": " + std::string(line.substr(0, 100));
        return replies;
    };
    const auto answer = [&](const std::string& text) {
        replies.lines.push_back({rank, text});
        return replies;
    };
    Process& process = processes_[rank];
    const auto message = Pmi1Message::parse(line);
    if (!message) return refuse("not a PMI-1 message");
    const std::string_view command = message->command();
    if (command == "init") {
        if (process.phase != Phase::kNew) return refuse("a second cmd=init");
        if (!message->number("pmi_version", 1, 1)) return refuse("not version 1 of PMI");
        process.phase = Phase::kEntered;
        return answer("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
    }
    if (command == "abort") {
        replies.abort = message->number("exitcode", 1, 255).value_or(1);
        return replies;
    }
    if (process.phase != Phase::kEntered) return refuse("before cmd=init, or after cmd=finalize");
    if (command == "get_maxes") {
        return answer("cmd=maxes kvsname_max=64 keylen_max=" + std::to_string(kMaxKey) +
                      " vallen_max=" + std::to_string(kPmi1MaxValue));
    }
    if (command == "get_my_kvsname") return answer(std::string("cmd=my_kvsname kvsname=") + kSpace);
    if (command == "get_universe_size") {
        return answer("cmd=universe_size rc=0 size=" + std::to_string(processes_.size()));
    }
    if (command == "get_appnum") return answer("cmd=appnum rc=0 appnum=0");
    if (command == "put" || command == "get") {
        const auto key = message->text("key");
        if (message->text("kvsname") != kSpace || !key)
            return refuse("no such key-value space, or no key");
        if (command == "get") return answer(get(*key));
        return answer(put(rank, *key, message->text("value").value_or("")));
    }
    if (command == "barrier_in") {
        if (process.in_barrier) return refuse("a second cmd=barrier_in");
        process.in_barrier = true;
        end_barrier_if_over(&replies);
        return replies;
    }
    if (command == "finalize") {
        process.phase = Phase::kLeft;
        return answer("cmd=finalize_ack rc=0");
    }
    return refuse("rwapi-run does not have this command");
}

PmiServer::Replies PmiServer::end(uint32_t rank) {
    Replies replies;
    processes_[rank].ended = true;
    processes_[rank].in_barrier = false;
    if (!ended_) ended_ = rank;
    end_barrier_if_over(&replies);
    return replies;
}

std::string PmiServer::put(uint32_t rank, std::string_view key, std::string_view value) {
    Process& process = processes_[rank];
    if (key.size() >= kMaxKey || value.size() >= kPmi1MaxValue || process.keys == kMaxKeys) {
        return "cmd=put_result rc=-1 msg=too_long_or_too_many";
    }
    if (!values_.emplace(key, Value{rank, std::string(value)}).second)
        return "cmd=put_result rc=-1 msg=duplicate_key";
    ++process.keys;
    return "cmd=put_result rc=0 msg=success";
}

std::string PmiServer::get(std::string_view key) const {
    if (key == kMappingKey) {
        return "cmd=get_result rc=0 msg=success value=(vector,(0,1," +
               std::to_string(processes_.size()) + "))";
    }
    const auto found = values_.find(key);
    if (found == values_.end()) return "cmd=get_result rc=-1 msg=key_not_found value=unknown";
    const auto& [rank, text] = found->second;
    // Who has the address of a dead process would only run into a time limit.
    if (processes_[rank].ended)
        return "cmd=get_result rc=-1 msg=" + has_ended(rank) + " value=unknown";
    return "cmd=get_result rc=0 msg=success value=" + text;
}

void PmiServer::end_barrier_if_over(Replies* replies) {
    const bool over = std::ranges::all_of(
        processes_, [](const Process& process) { return process.in_barrier || process.ended; });
    if (!over) return;
    const std::string line =
        ended_ ? "cmd=barrier_out rc=-1 msg=" + has_ended(*ended_) : "cmd=barrier_out rc=0";
    for (uint32_t rank = 0; rank < processes_.size(); ++rank) {
        if (!processes_[rank].in_barrier) continue;
        processes_[rank].in_barrier = false;
        replies->lines.push_back({rank, line});
    }
}

}  // namespace rwapi
