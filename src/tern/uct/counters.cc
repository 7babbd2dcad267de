// SPDX-License-Identifier: BSD-3-Clause
#include <unistd.h>

#include <cerrno>
#include <string>

#include "tern/uct/explain.h"
#include "tern/uct/iface.h"
#include "tern/uct/matching.h"

namespace tern {

namespace {

std::string with_pid(std::string path) {
    if (const size_t at = path.find("%p"); at != std::string::npos)
        path.replace(at, 2, std::to_string(getpid()));
    return path;
}

// False: the file cannot be written. A single write keeps lines of several processes apart.
bool write_line(const std::string& path, const char* mode, const std::string& line) {
    FILE* file = path == "-" ? stderr : fopen(path.c_str(), mode);
    if (file == nullptr) {
        ucs_warn("tern: cannot write counters to %s: %s", path.c_str(), strerror(errno));
        return false;
    }
    (void)setvbuf(file, nullptr, _IOFBF, line.size() + 1);
    const bool written = fputs(line.c_str(), file) >= 0;
    return (file == stderr ? fflush(file) : fclose(file)) == 0 && written;
}

std::string identity(const PeerAddress& address) {
    return std::to_string(address.interface.qp_num) + "-" +
           std::to_string(address.interface.instance);
}

}  // namespace

std::string counters_of(const Engine& engine, const Rendezvous& rendezvous, const Atomics& atomics,
                        const PinCache& pins, const MatchingCounters& matching,
                        const char* device) {
    const Counters counters = engine.counters();
    const EngineUsage usage = engine.usage();
    const RendezvousCounters& moved = rendezvous.counters();
    const auto& [tags, placed, tuples, queues, direct_bytes] = matching;
    const PinCounters pinned = pins.counters();
    const struct {
        const char* name;
        uint64_t value;
    } rows[] = {
        {"queue_pairs", engine.connections()},
        {"queue_pairs_most", usage.connections_most},
        {"queue_pairs_ended", usage.connections_ended},
        {"send_queue_places", usage.send_queue_places},
        {"hot_peers", usage.hot_peers},
        {"hot_peers_most", counters.hot_peers_most},
        {"registered_bytes", usage.registered_bytes + rendezvous.registered_bytes() +
                                 atomics.registered_bytes() + direct_bytes},
        {"receive_buffers", usage.receive_buffers},
        {"receive_queue_bytes", usage.receive_queue_bytes},
        {"send_pool_bytes", usage.send_pool_bytes},
        {"block_bytes", counters.block_bytes},
        {"block_bytes_most", counters.block_bytes_most},
        {"sent_hot", counters.sent_hot},
        {"sent_cold", counters.sent_cold},
        {"batches", counters.batches},
        {"batched", counters.batched},
        {"put_repeated", counters.repeated},
        {"received_hot", counters.received_hot},
        {"received_cold", counters.received_cold},
        {"sent_control", counters.sent_control},
        {"received_control", counters.received_control},
        {"short", counters.shorts},
        {"bcopy", counters.bcopies},
        {"zcopy", counters.zcopies},
        {"put", counters.puts},
        {"get", counters.gets},
        {"in_place", counters.in_place},
        {"atomic", counters.atomics},
        {"promotions", counters.promotions},
        {"demotions", counters.demotions},
        {"credit_stalls", counters.credit_stalls},
        {"credit_words", counters.credit_words},
        {"cold_stalls", counters.cold_stalls},
        {"queue_stalls", counters.queue_stalls},
        {"packets_sent", counters.packets_sent},
        {"packets_received", counters.packets_received},
        {"packets_dropped", counters.packets_dropped},
        {"polls", counters.polls},
        {"sleeps", counters.sleeps},
        {"sleep_notify_requests", counters.notify_requests},
        {"sleep_notifications", counters.notifications},
        {"rndv_gets", moved.gets},
        {"rndv_puts", moved.puts},
        {"rndv_served", moved.served},
        {"rndv_refused", moved.refused},
        {"rndv_replies", moved.replies},
        {"rndv_superpipeline", moved.superpipeline},
        {"rndv_zero_copy", moved.zero_copy},
        {"rndv_staged_bytes", moved.staged_bytes},
        {"rndv_copied_bytes", moved.copied_bytes},
        {"rndv_gathered_bytes", moved.gathered_bytes},
        {"rndv_chunks", moved.chunks},
        {"rndv_ring_waits", moved.ring_waits},
        {"rndv_early_copies_made", moved.early_copies_made},
        {"rndv_early_copies_used", moved.early_copies_used},
        {"rndv_early_copies_dropped", moved.early_copies_dropped},
        {"rndv_fallbacks", moved.fallbacks},
        {"rndv_ring_bytes", rendezvous.registered_bytes()},
        {"pin_registrations", pinned.registrations},
        {"pin_hits", pinned.hits},
        {"pin_evictions", pinned.evictions},
        {"pin_invalidations", pinned.invalidations},
        {"pin_failures", pinned.failures},
        {"pinned_bytes", pinned.pinned_bytes},
        {"pinned_bytes_most", pinned.pinned_bytes_most},
        {"tag_posted", tags.posted},
        {"tag_wildcards", tags.wildcards},
        {"tag_refused", tags.refused},
        {"tag_canceled", tags.canceled},
        {"tag_matched", tags.matched},
        {"tag_unexpected", tags.unexpected},
        {"tag_truncated", tags.truncated},
        {"tag_rndv_matched", tags.rndv_matched},
        {"tag_rndv_unexpected", tags.rndv_unexpected},
        {"tag_software_matched", tags.software_matched},
        {"tag_software_unexpected", tags.software_unexpected},
        {"tag_eager_sent", tags.eager_sent},
        {"tag_rndv_sent", tags.rndv_sent},
        {"tag_rndv_canceled", tags.rndv_canceled},
        {"tag_software_sent", tags.software_sent},
        {"direct_sent", placed.sent},
        {"direct_sent_copied", placed.sent_copied},
        {"direct_sent_bytes", placed.sent_bytes},
        {"direct_received", tuples.direct},
        {"direct_received_bytes", placed.received_bytes},
        {"direct_not", tuples.ordinary},
        {"direct_grants", tuples.grants},
        {"direct_grants_void", tuples.void_grants},
        {"direct_drains", tuples.drains},
        {"direct_binds", tuples.binds},
        {"direct_unbinds", tuples.unbinds},
        {"direct_holds", tuples.holds},
        {"direct_pauses", placed.pauses},
        {"direct_queues", queues},
        {"direct_queues_most", placed.queues_most},
        {"direct_links", placed.links},
        {"direct_links_lost", placed.links_lost},
        {"direct_not_ready", placed.not_ready},
        {"direct_unpinned", placed.unpinned},
        {"direct_stopped", placed.stopped},
    };
    std::string line = "{\"pid\":" + std::to_string(getpid()) + ",\"device\":\"" + device + "\"";
    for (const auto& row : rows)
        line += std::string(",\"") + row.name + "\":" + std::to_string(row.value);
    line += "}\n";
    return line;
}

void append_counters(const std::string& path, const std::string& line) {
    (void)write_line(with_pid(path), "a", line);
}

std::string snapshot_path(const std::string& path, unsigned number) {
    return with_pid(path) + "." + std::to_string(getpid()) + "-" + std::to_string(number) +
           ".running";
}

void replace_snapshot(const std::string& path, const std::string& line) {
    const std::string fresh = path + ".new";
    if (write_line(fresh, "w", line)) (void)rename(fresh.c_str(), path.c_str());
}

void explain_interface(const std::string& device, const Engine& engine) {
    if (!explains()) return;
    ExplainRecord("interface")
        .add("program", program_invocation_short_name)
        .add("device", device)
        .add("id", identity(engine.address()))
        .write();
}

void explain_peer(const std::string& device, const PeerAddress& self, const Channel& channel) {
    const Channel::Tally& tally = channel.tally;
    ExplainRecord("peer")
        .add("device", device)
        .add("id", identity(self))
        .add("peer", identity(channel.peer))
        .add("address", channel.peer.on_path(0).to_string())
        .add("path", channel.peer.path)
        .add("requests", channel.sends.next())
        .add("blocks_taken", tally.blocks_taken)
        .add("blocks_offered", tally.blocks_offered)
        .add("polls_memory", channel.receiving.polls_memory)
        .add("staged", tally.staged)
        .add("placed", tally.placed)
        .add("read", tally.read)
        .add("bytes", tally.bytes)
        .write();
}

void explain_counters(const std::string& line, const Rendezvous& rendezvous) {
    if (!explains()) return;
    std::string reasons;
    const auto& counts = rendezvous.counters().reasons;
    for (size_t i = 0; i < counts.size(); ++i)
        if (counts[i] != 0)
            reasons += std::string(reasons.empty() ? "\"" : ",\"") +
                       text_of(static_cast<Reason>(i)) + "\":" + std::to_string(counts[i]);
    ExplainRecord("counters")
        .add_json("counters", line.substr(0, line.size() - 1))
        .add_json("reasons", "{" + reasons + "}")
        .write();
}

}  // namespace tern
