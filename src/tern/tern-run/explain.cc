// SPDX-License-Identifier: BSD-3-Clause
#include "tern/tern-run/explain.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <system_error>

#include "tern/tern-run/environment.h"

namespace tern {
namespace {

constexpr size_t kMostRanks = 8;  // whose pairs are all shown
constexpr size_t kMostPairs = 8;  // shown of larger jobs
// from, to, device, requests, short messages, read, placed, staged, bytes of long messages
constexpr const char* kRow = "  %-10s %-10s %-14s %9s  %-9s %7s %7s %7s  %s\n";

// What went from one process to another.
struct Flow {
    std::string from;
    std::string to;
    std::set<std::string> devices;
    bool sender_told = false;    // so that `requests` and `hot` are known, ...
    bool receiver_told = false;  // ... or what follows them
    uint64_t requests = 0;
    bool hot = false;
    uint64_t staged = 0;
    uint64_t placed = 0;
    uint64_t read = 0;
    uint64_t bytes = 0;
};

std::string size_of(uint64_t bytes) {
    constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = static_cast<double>(bytes);
    size_t unit = 0;
    for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
    char text[32];
    std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
    return text;
}

class Report {
  public:
    Report(const std::vector<ProcessRecord>& processes, bool plug_in)
        : processes_(processes), plug_in_(plug_in) {
        for (const ProcessRecord& process : processes) {
            for (const std::string& id : process.interfaces) by_interface_[id] = &process;
            for (const auto& [name, value] : process.counters) {
                uint64_t& sum = sums_[name];
                sum = name.ends_with("_most") ? std::max(sum, value) : sum + value;
            }
            for (const auto& [name, value] : process.reasons) reasons_[name] += value;
        }
        for (const ProcessRecord& process : processes)
            for (const PeerRecord& peer : process.peers) add(process, peer);
    }

    void print_unused(int status) const {
        for (const NotUsed& each : find_unused(processes_, plug_in_, status))
            say("Tern was not used" + (each.who.empty() ? "" : " by " + each.who) + ": " + each.why,
                each.remedy);
        for (const ProcessRecord& process : processes_)
            if (process.closed < process.interfaces.size())
                say(process_name(process) + " has left no counters",
                    "it was killed, or has not closed UCX (MPI_Finalize)");
    }

    void print_use() const {
        if (!flows_.empty()) print_carried();
        print_lanes();
    }

  private:
    void print_carried() const {
        print_title();
        print_flows();
        print_short();
        print_long();
        print_memory();
        print_direct();
        print_fallbacks();
        print_others();
    }

    // A peer that has left no records here, on another machine for example, has only its address.
    std::string name_of(const PeerRecord& peer) {
        const auto found = by_interface_.find(peer.peer);
        if (found != by_interface_.end()) return found->second->name();
        const auto [entry, is_new] = strangers_.try_emplace(peer.peer, peer.address);
        if (is_new) stranger_names_[peer.peer] = "peer" + std::to_string(strangers_.size());
        return stranger_names_[peer.peer];
    }

    void add(const ProcessRecord& process, const PeerRecord& peer) {
        const std::string other = name_of(peer);
        Flow& out = flow(process.name(), other);
        out.devices.insert(peer.device);
        out.sender_told = true;
        out.requests += peer.requests;
        out.hot |= peer.hot;
        unordered_ |= !peer.polls_memory;
        Flow& in = flow(other, process.name());
        in.devices.insert(peer.device);
        in.receiver_told = true;
        in.staged += peer.staged;
        in.placed += peer.placed;
        in.read += peer.read;
        in.bytes += peer.bytes;
    }

    Flow& flow(const std::string& from, const std::string& to) {
        const auto found = std::ranges::find_if(
            flows_, [&](const Flow& each) { return each.from == from && each.to == to; });
        if (found != flows_.end()) return *found;
        return flows_.emplace_back(Flow{.from = from, .to = to});
    }

    static std::string process_name(const ProcessRecord& process) {
        return (process.rank ? "rank " : "") + process.name();
    }

    static void say(const std::string& text, const std::string& remedy = {}) {
        std::fprintf(stderr, "tern-run: %s%s%s\n", text.c_str(), remedy.empty() ? "" : "; ",
                     remedy.c_str());
    }
    static void item(const char* name, const std::string& text) {
        std::fprintf(stderr, "  %-15s %s\n", name, text.c_str());
    }

    uint64_t sum(const char* name) const {
        const auto found = sums_.find(name);
        return found != sums_.end() ? found->second : 0;
    }
    std::string count(const char* name) const { return std::to_string(sum(name)); }

    size_t participants() const {
        return static_cast<size_t>(std::ranges::count_if(
            processes_, [](const ProcessRecord& process) { return !process.peers.empty(); }));
    }

    void print_title() const {
        std::set<std::string> hosts;
        for (const ProcessRecord& process : processes_)
            if (!process.peers.empty()) hosts.insert(process.host);
        say("Tern carried messages of " + std::to_string(participants()) +
            (participants() == 1 ? " process" : " processes") + " on " +
            std::to_string(hosts.size()) + (hosts.size() == 1 ? " machine" : " machines"));
    }

    void print_flows() const {
        std::vector<Flow> shown = flows_;
        const bool all = participants() <= kMostRanks;
        if (!all) {
            std::ranges::stable_sort(shown, std::ranges::greater(), [](const Flow& each) {
                return std::pair(each.bytes, each.requests);
            });
            shown.resize(std::min(shown.size(), kMostPairs));
        }
        std::fprintf(stderr, kRow, "from", "to", "device", "requests", "short", "read", "placed",
                     "staged", "long messages");
        for (const Flow& each : shown) {
            std::string devices;
            for (const std::string& device : each.devices)
                devices += (devices.empty() ? "" : ",") + device;
            const auto received = [&](uint64_t count) {
                return each.receiver_told ? std::to_string(count) : "?";
            };
            std::fprintf(stderr, kRow, each.from.c_str(), each.to.c_str(), devices.c_str(),
                         each.sender_told ? std::to_string(each.requests).c_str() : "?",
                         !each.sender_told ? "?"
                         : each.hot        ? "in blocks"
                                           : "by queue",
                         received(each.read).c_str(), received(each.placed).c_str(),
                         received(each.staged).c_str(),
                         !each.receiver_told ? "?"
                         : each.bytes == 0   ? "-"
                                             : size_of(each.bytes).c_str());
        }
        if (!all)
            std::fprintf(stderr, "  ... and %zu of %zu directions between processes not shown\n",
                         flows_.size() - shown.size(), flows_.size());
        if (!all) return;
        for (const auto& [id, name] : stranger_names_)
            item(name.c_str(), "is " + strangers_.at(id) + ", and has left no records here");
    }

    void print_short() const {
        item("short messages", count("sent_hot") + " into blocks, " + count("sent_cold") +
                                   " by the shared receive queue; " + count("promotions") +
                                   " blocks offered, " + count("demotions") +
                                   " taken back or replaced; most hot peers of a process: " +
                                   count("hot_peers_most"));
        const uint64_t one_sided = sum("put") + sum("get") + sum("atomic");
        if (one_sided != 0)
            item("one-sided", count("put") + " puts, " + count("get") + " gets, " +
                                  count("in_place") + " of these in place, " + count("atomic") +
                                  " atomics");
    }

    void print_long() const {
        std::string why;
        for (const auto& [reason, times] : reasons_)
            why += (why.empty() ? "" : ", ") + std::to_string(times) + " \"" + reason + "\"";
        if (!why.empty()) item("long messages", "travelled so because: " + why);
        const uint64_t staged = sum("rndv_staged_bytes");
        if (staged == 0 && sum("rndv_early_copies_made") == 0) return;
        item("copies", size_of(staged) + " through staging memory; " +
                           count("rndv_early_copies_used") + " of " +
                           count("rndv_early_copies_made") + " early copies used");
    }

    void print_memory() const {
        item("registrations", count("pin_registrations") + " of buffers, " + count("pin_hits") +
                                  " times found registered, at most " +
                                  size_of(sum("pinned_bytes_most")) + " pinned; " +
                                  size_of(sum("registered_bytes")) + " of Tern's own in all");
    }

    void print_direct() const {
        if (sum("tag_posted") == 0) return;
        item("direct messages", count("direct_received") + " direct, " + count("direct_not") +
                                    " of the same tags not; " + count("tag_matched") +
                                    " matched on arrival, " + count("tag_unexpected") +
                                    " came before their receives");
    }

    // One line for each thing that did not go its usual way.
    void print_fallbacks() const {
        if (unordered_)
            item("by queue", "a device promises no order of bytes: no blocks are polled there");
        if (sum("pin_failures") != 0)
            item("fell back", count("pin_failures") +
                                  " registrations failed, and messages were staged: raise the "
                                  "limit of locked memory (ulimit -l), or UCX_TERN_PIN_MAX");
        if (sum("rndv_refused") != 0)
            item("fell back", count("rndv_refused") + " transfers were refused; see the log");
        if (sum("rndv_ring_waits") != 0)
            item("waits",
                 count("rndv_ring_waits") + " for a ring: more long messages came at a time");
        if (sum("credit_stalls") != 0)
            item("waits", count("credit_stalls") +
                              " for room in a block: receivers were slower than senders");
        if (sum("queue_stalls") != 0)
            item("waits",
                 count("queue_stalls") + " for room in a send queue (UCX_TERN_TX_QUEUE_LEN)");
    }

    // The transports that UCX has chosen for messages to other processes, whatever they carried.
    void print_lanes() const {
        std::map<std::string, std::vector<const ProcessRecord*>> by_text;
        for (const ProcessRecord& process : processes_)
            for (const std::string& text : process.lanes) {
                const std::string kinds = lanes_in(text);
                if (kinds.empty()) continue;
                std::vector<const ProcessRecord*>& who = by_text[kinds];
                if (who.empty() || who.back() != &process) who.push_back(&process);
            }
        if (flows_.empty() && !by_text.empty()) say("Tern carried no messages");
        for (const auto& [text, who] : by_text) item("lanes", names_of(who) + ": " + text);
    }

    // Without the number of the configuration, and empty if it is that of a process to itself.
    static std::string lanes_in(const std::string& text) {
        const size_t lists = text.find('(');
        if (lists == std::string::npos || text.find("self/") != std::string::npos) return "";
        const size_t start = text.rfind(' ', lists);
        return text.substr(start == std::string::npos ? 0 : start + 1);
    }

    void print_others() const {
        for (const ProcessRecord& process : processes_) {
            if (process.peers.empty() || !TransportList(process.transports).networks) continue;
            return item("others", "UCX_TLS=" + process.transports +
                                      " lets UCX use other transports too: what they carried is "
                                      "not in this report");
        }
    }

    const std::vector<ProcessRecord>& processes_;
    bool plug_in_;
    std::map<std::string, const ProcessRecord*> by_interface_;
    std::map<std::string, uint64_t> sums_;
    std::map<std::string, uint64_t> reasons_;
    std::vector<Flow> flows_;
    std::map<std::string, std::string> strangers_;  // addresses by identity
    std::map<std::string, std::string> stranger_names_;
    bool unordered_ = false;
};

}  // namespace

RecordFolder::RecordFolder(const std::string& name) : path_(name), temporary_(name.empty()) {
    std::error_code error;
    if (!temporary_) {
        std::filesystem::create_directories(name, error);
        path_ = std::filesystem::absolute(name, error).string();
        if (error) throw std::runtime_error(name + ": " + error.message());
        return;
    }
    path_ = (std::filesystem::temp_directory_path(error) / "tern-explain-XXXXXX").string();
    if (error || ::mkdtemp(path_.data()) == nullptr)
        throw std::runtime_error("cannot make a temporary folder: " +
                                 std::string(std::strerror(errno)));
}

RecordFolder::~RecordFolder() {
    std::error_code ignored;
    if (temporary_) std::filesystem::remove_all(path_, ignored);
}

void report_job(const std::vector<ProcessRecord>& processes, bool plug_in, int status,
                Extent extent) {
    const Report report(processes, plug_in);
    if (extent == Extent::kAll) report.print_use();
    report.print_unused(status);
}

}  // namespace tern
