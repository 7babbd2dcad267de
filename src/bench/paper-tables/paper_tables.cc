// SPDX-License-Identifier: BSD-3-Clause
// The `paper-tables` command, which is not installed: figures of two papers by the transport's own
// code, in simulated time.
//
//   superpipeline  A. Denis, section 5 and figure 6: the protocol without a rendezvous, and how
//                  much it depends on C_0 and q. ChunkSource, Schedule and RingReader move
//                  messages, on the costs of the profiles of the clusters' names.
//   pinning        B. Goglin, table 1 and section 4: what pinning costs a message on its
//                  processors, and what is left of that behind the wire, by the cost model.
#include <algorithm>
#include <cstdio>
#include <deque>
#include <limits>
#include <string>

#include "bench/report/figure.h"
#include "tern/rendezvous/chunk_source.h"
#include "tern/rendezvous/cost_model.h"
#include "tern/rendezvous/ring_reader.h"

namespace paper_tables {
namespace {

using report::Figure;
using tern::CostModel;
using tern::SubBlocks;

constexpr uint32_t kRingSlots = (256 << 10) / SubBlocks::kSlot;  // UCX_TERN_RNDV_WINDOW
constexpr uint32_t kBuffers = 3;                                 // rndv_buffers of base/tunables.h
constexpr uint32_t kFirst = 12 << 10;
constexpr double kQ = 1.5;

struct Transfer {
    double seconds;  // until the last byte is in the receiver's buffer
    uint64_t writes;
};

// One message from one process to another. Both begin at time 0, when they know each other. The
// processors copy and post, one thing after the other; the wire has one write at a time. Copies do
// not slow down while the network uses the memory. `early`: C_0 is copied while a rendezvous is
// under way, which itself does not count.
Transfer transfer(const CostModel& model, uint64_t length, uint32_t first_bytes, double q,
                  bool early = false) {
    const tern::NetworkCosts& costs = model.costs().network;
    const double per_byte = 1 / model.copy_bandwidth(length);
    const tern::ScheduleLimits limits = {
        .first_bytes = first_bytes,
        .q = q,
        .most = tern::ScheduleLimits::most_of(kRingSlots, kBuffers)};
    tern::ChunkSource source(length, kRingSlots, kRingSlots, limits);
    tern::RingReader reader(length, kRingSlots, 1, true, kRingSlots / (kBuffers + 1));
    double sender = 0, receiver = 0, wire = 0;  // when the processors and the wire are free
    uint64_t writes = 0;
    std::deque<double> arrivals;  // of sub-blocks
    if (early) {
        const tern::EarlyChunk chunk = tern::EarlyChunk::of(length, limits);
        source.set_early_chunk(chunk);
        const auto bytes = static_cast<double>(SubBlocks::offset(length, chunk.blocks));
        sender = std::max(0.0, bytes * per_byte - 2 * costs.latency);
    }
    (void)source.add({.upto = length});
    reader.add({.upto = length});
    const auto send = [&](const tern::ChunkSource::Chunk& chunk) {
        const auto bytes_of = [&](uint32_t block) {
            return block == 0 ? chunk.first : SubBlocks::kSubBlock;
        };
        for (uint32_t block = chunk.ready; block < chunk.blocks; ++block)
            sender += bytes_of(block) * per_byte;
        double at = std::max(sender, writes == 0 ? 0 : wire + costs.gap);
        for (uint32_t block = 0; block < chunk.blocks; ++block) {
            at += (bytes_of(block) + SubBlocks::kFlag) / costs.bandwidth;
            arrivals.push_back(at + costs.latency);
        }
        wire = at;
        sender += costs.overhead;
        ++writes;
        source.posted(chunk);
    };
    // The receiver takes the next sub-block. Its acknowledgement is the sender's leave to go on,
    // for which only a sender without room waits.
    const auto receive = [&] {
        tern::RingReader::Block block;
        if (arrivals.empty() || !reader.arrived(1) || !reader.next(nullptr, block))
            throw report::Failure("sender and receiver wait for each other");
        receiver = std::max(receiver, arrivals.front()) + block.bytes * per_byte;
        arrivals.pop_front();
        reader.taken();
        if (!reader.ack_due()) return;
        receiver += costs.overhead;
        reader.acked();
        (void)source.acknowledged(reader.count());
        sender = std::max(sender, receiver + costs.latency);
    };
    tern::ChunkSource::Chunk chunk;
    while (!reader.complete())
        source.next(std::numeric_limits<uint64_t>::max(), chunk) ? send(chunk) : receive();
    return {receiver, writes};
}

std::vector<Figure> superpipeline() {
    std::vector<Figure> figures;
    for (const std::string cluster : {"graphene", "infini"}) {
        const CostModel model(*tern::find_costs(cluster));
        const auto add = [&](const std::string& test, uint64_t length, const std::string& name,
                             const char* unit, double value) {
            figures.push_back(
                report::exact_figure(test + ", " + cluster, length, name, unit, value));
        };
        for (const uint64_t kib : {16, 32, 64, 128, 256, 1024, 4096, 16384}) {
            const uint64_t length = kib << 10;
            const double raw = model.raw(length);
            const auto [staged, writes] = transfer(model, length, kFirst, kQ);
            const double early = transfer(model, length, kFirst, kQ, true).seconds;
            const auto bandwidth = [&](const char* name, double seconds) {
                add("bandwidth of the raw protocol", length, name, "GB/s",
                    static_cast<double>(length) / seconds / 1e9);
            };
            bandwidth("superpipeline", staged);
            bandwidth("RDMA write", raw);
            bandwidth("register, model", model.naive_registration(length));
            bandwidth("copy, model", model.naive_copy(length));
            bandwidth("fixed chunks, model", model.pipeline(length));
            const char* const over = "time over that of an RDMA write";
            add(over, length, "superpipeline", "%", 100 * (staged / raw - 1));
            add(over, length, "superpipeline, C_0 during a rendezvous", "%",
                100 * (early / raw - 1));
            add("writes of a message", length, "superpipeline", "", static_cast<double>(writes));
            add("writes of a message", length, "best fixed chunks, model", "",
                model.pipeline_gaps(length, model.optimal_chunk(length)));
        }
        // How much longer a message takes than with the best of these first chunks and ratios.
        for (const uint64_t kib : {64, 256, 1024, 16384}) {
            std::vector<std::pair<std::string, double>> times;
            for (const uint32_t first : {4, 8, 12, 16, 24, 32, 48})
                for (const char* q : {"1", "1.25", "1.5", "1.75", "2", "2.5", "3"})
                    times.emplace_back(
                        "C_0 = " + std::to_string(first) + " KiB, q = " + q,
                        transfer(model, kib << 10, first << 10, std::stod(q)).seconds);
            const double best =
                std::ranges::min_element(times, {}, [](auto& one) { return one.second; })->second;
            for (const auto& [name, time] : times)
                add("time over the best of the sweep", kib << 10, name, "%",
                    100 * (time / best - 1));
        }
    }
    return figures;
}

// Table 1: pinning and unpinning.
constexpr struct {
    const char* name;
    double base_us;
    double ns_per_page;
} kProcessors[] = {{"Opteron 265", 4.2, 720},
                   {"Opteron 8347", 2.2, 330},
                   {"Xeon E5435", 2.3, 250},
                   {"Xeon E5460", 1.3, 150}};

std::vector<Figure> pinning() {
    std::vector<Figure> figures;
    for (const bool behind_wire : {false, true}) {
        for (const uint64_t kib : {64, 256, 1024, 4096, 16384}) {
            for (const auto& [name, base_us, ns_per_page] : kProcessors) {
                // The network is 10G Ethernet, with a round trip of 10 to 20 us.
                tern::Costs costs;
                costs.network.latency = 7.5e-6;
                costs.network.bandwidth = 1.25e9;
                costs.registration.latency = base_us / 1e6;
                costs.registration.bandwidth = CostModel::kPage * 1e9 / ns_per_page;
                const CostModel model(costs);
                const uint64_t length = kib << 10;
                const double time = behind_wire
                                        ? model.pinned_behind_wire(length, model.best_piece(length))
                                        : model.naive_registration(length);
                figures.push_back(report::exact_figure(
                    behind_wire ? "throughput lost if pieces are pinned behind the wire"
                                : "throughput lost by pinning for each message",
                    length, name, "%", 100 * (1 - model.raw(length) / time)));
            }
        }
    }
    return figures;
}

}  // namespace
}  // namespace paper_tables

// Prints a table, and writes it as JSON to FILE.
int main(int argc, char** argv) {
    const std::string table = argc > 1 ? argv[1] : "";
    if (argc > 3 || (table != "superpipeline" && table != "pinning")) {
        std::fputs("usage: paper-tables superpipeline|pinning [FILE]\n", stderr);
        return 2;
    }
    const auto figures =
        table == "pinning" ? paper_tables::pinning() : paper_tables::superpipeline();
    std::fputs(report::as_table(figures).c_str(), stdout);
    if (argc > 2) report::write_file(argv[2], report::as_json({{"command", table}}, figures));
    return 0;
}
