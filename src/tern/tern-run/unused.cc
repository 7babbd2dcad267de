// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <map>
#include <set>

#include "tern/tern-run/environment.h"
#include "tern/tern-run/job_record.h"

namespace tern {
namespace {

using Reason = std::pair<std::string, std::string>;  // and the remedy

const Reason kUnknown = {"UCX has opened no interface of it",
                         "set UCX_LOG_LEVEL=debug, which says why"};
const std::string kUseUcx =
    "have the MPI library use UCX (tern-run --check): Open MPI by --mca pml ucx; on other machines "
    "the launcher must start tern-run: mpirun tern-run COMMAND";
constexpr const char* kHaveOnly = "tern-run --only has Tern there too";
constexpr const char* kFit = "transport tern is not available: ";

Reason no_device(const ProcessRecord& process) {
    if (process.unused.empty())
        return {"libibverbs finds no device",
                "tern-run --check says more; tern-run --soft-hca needs none"};
    const UnusedRecord& first = process.unused.front();
    return {first.what + ": " + first.why, first.remedy};
}

// UCX knows of a device, and has opened no interface.
Reason no_interface(const ProcessRecord& process) {
    const std::string& transports = process.transports;
    if (!TransportList(transports).names_tern)
        return {"UCX_TLS=" + transports + " leaves tern out", "unset it, so that tern-run sets it"};
    if (!process.unused.empty()) {
        const UnusedRecord& last = process.unused.back();
        return {last.what + ": " + last.why, last.remedy};
    }
    if (!process.net_devices.empty())
        return {"UCX_NET_DEVICES=" + process.net_devices + " names no port that Tern can use",
                "unset it, or see tern-run --check"};
    return kUnknown;
}

Reason no_peer(const ProcessRecord& process) {
    const TransportList list(process.transports);
    if (list.networks)
        return {"UCX_TLS=" + process.transports + " lets UCX prefer another transport, and it did",
                "unset it, so that tern-run sets it"};
    if (process.by_pmi)
        return {"no messages came to UCX: MPICH uses its own shared memory within a machine",
                kHaveOnly};
    if (list.shared_memory)
        return {"no messages went to other machines, and UCX uses shared memory within one",
                kHaveOnly};
    return {"no messages were sent to other processes by UCX",
            "check that the processes are one job, of an MPI that uses UCX"};
}

std::optional<Reason> reason_of(const ProcessRecord& process, bool others_talk) {
    if (!process.misfit.empty()) {
        std::string why = process.misfit;
        if (why.starts_with(kFit)) why.erase(0, std::string(kFit).size());
        const size_t remedy = why.rfind("; ");
        if (remedy == std::string::npos) return Reason{why, ""};
        return Reason{why.substr(0, remedy), why.substr(remedy + 2)};
    }
    if (!process.queried) return std::nullopt;  // no program of UCX
    if (process.devices == 0) return no_device(process);
    if (process.interfaces.empty()) return no_interface(process);
    if (process.peers.empty() && process.closed != 0 && !others_talk) return no_peer(process);
    return std::nullopt;
}

NotUsed nobody(const std::vector<ProcessRecord>& processes, bool plug_in, int status) {
    if (processes.empty() && !plug_in)
        return {"", "the library was not loaded at all",
                "a static or set-uid program ignores LD_PRELOAD, and on other machines the "
                "launcher must start tern-run: mpirun tern-run COMMAND"};
    // mpirun may have refused to start anything, as root for example.
    if (status != 0)
        return {
            "",
            "no process used UCX before the command ended with status " + std::to_string(status),
            "its own messages may say why; " + kUseUcx};
    return {"", "no process used UCX", kUseUcx};
}

std::string ranges_of(const std::vector<unsigned>& sorted) {
    std::string text;
    for (size_t i = 0; i < sorted.size();) {
        size_t end = i + 1;
        while (end < sorted.size() && sorted[end] == sorted[end - 1] + 1) ++end;
        text += (text.empty() ? "" : ", ") + std::to_string(sorted[i]);
        if (end - i > 1) text += "-" + std::to_string(sorted[end - 1]);
        i = end;
    }
    return text;
}

}  // namespace

std::string names_of(const std::vector<const ProcessRecord*>& processes) {
    std::set<unsigned> ranks;
    for (const ProcessRecord* process : processes)
        if (process->rank) ranks.insert(*process->rank);
    if (ranks.size() == 1) return "rank " + std::to_string(*ranks.begin());
    if (!ranks.empty()) return "ranks " + ranges_of({ranks.begin(), ranks.end()});
    if (processes.size() == 1) return processes.front()->name();
    return std::to_string(processes.size()) + " processes";
}

std::vector<NotUsed> find_unused(const std::vector<ProcessRecord>& processes, bool plug_in,
                                 int status) {
    const bool talk = std::ranges::any_of(
        processes, [](const ProcessRecord& process) { return !process.peers.empty(); });
    std::map<Reason, std::vector<const ProcessRecord*>> by_reason;
    for (const ProcessRecord& process : processes)
        if (const auto reason = reason_of(process, talk)) by_reason[*reason].push_back(&process);
    // A launcher may have ended processes before they could say why, when another one had.
    if (by_reason.size() > 1) by_reason.erase(kUnknown);
    std::vector<NotUsed> found;
    found.reserve(by_reason.size() + 1);
    for (const auto& [reason, who] : by_reason)
        found.push_back({names_of(who), reason.first, reason.second});
    const bool used = std::ranges::any_of(processes, &ProcessRecord::queried);
    if (!used && found.empty()) found.push_back(nobody(processes, plug_in, status));
    return found;
}

}  // namespace tern
