// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <deque>
#include <limits>
#include <string>

#include "bench/paper-tables/tables.h"
#include "bench/report/text.h"
#include "tern/rendezvous/chunk_source.h"
#include "tern/rendezvous/cost_model.h"
#include "tern/rendezvous/ring_reader.h"

namespace paper_tables {
namespace {

using tern::ChunkSource;
using tern::CostModel;
using tern::RingReader;
using tern::SubBlocks;

constexpr uint32_t kRingBytes = 256 << 10;  // UCX_TERN_RNDV_WINDOW
constexpr uint32_t kRingSlots = kRingBytes / SubBlocks::kSlot;
constexpr uint32_t kBuffers = 3;  // rndv_buffers of base/tunables.h
constexpr uint32_t kFirst = 12 << 10;
constexpr double kQ = 1.5;
constexpr double kGiga = 1e9;

// One message of the raw protocol from one process to another. Both begin at time 0, when they know
// each other. The processors copy and post, one thing after the other; the wire has one write at a
// time. Copies do not slow down while the network uses the memory.
class RawTransfer {
  public:
    // `early`: C_0 is copied while a rendezvous is under way, which itself does not count.
    RawTransfer(const CostModel& model, uint64_t length, uint32_t first_bytes, double q, bool early)
        : costs_(model.costs().network),
          per_byte_(1 / model.copy_bandwidth(length)),
          limits_{.first_bytes = first_bytes,
                  .q = q,
                  .most = tern::ScheduleLimits::most_of(kRingSlots, kBuffers)},
          source_(length, kRingSlots, kRingSlots, limits_),
          reader_(length, kRingSlots, kGeneration, false, kRingSlots / (kBuffers + 1)),
          ring_(uint64_t{kRingSlots} * SubBlocks::kSlot / sizeof(uint64_t)) {
        if (early) copy_early(length);
        if (!source_.add({.upto = length})) throw report::Failure("the message is refused");
        reader_.add({.upto = length});
    }

    // The time until the last byte is in the receiver's buffer.
    double run() {
        ChunkSource::Chunk chunk;
        while (!reader_.complete()) {
            if (source_.next(std::numeric_limits<uint64_t>::max(), chunk)) {
                send(chunk);
            } else {
                receive();
            }
        }
        if (!source_.all_posted() || received_ != source_.length())
            throw report::Failure("not all has arrived");
        return receiver_;
    }
    uint64_t writes() const { return writes_; }

  private:
    struct Arrival {
        double time;
        uint64_t index;
    };
    static constexpr uint64_t kGeneration = 1;

    void copy_early(uint64_t length) {
        const tern::EarlyChunk chunk = tern::EarlyChunk::of(length, limits_);
        source_.set_early_chunk(chunk);
        const uint64_t bytes = SubBlocks::offset(length, chunk.blocks);
        sender_ = std::max(0.0, static_cast<double>(bytes) * per_byte_ - 2 * costs_.latency);
    }
    void send(const ChunkSource::Chunk& chunk) {
        const auto bytes_of = [&](uint32_t block) {
            return block == 0 ? chunk.first : SubBlocks::kSubBlock;
        };
        for (uint32_t block = chunk.ready; block < chunk.blocks; ++block)
            sender_ += bytes_of(block) * per_byte_;
        double at = std::max(sender_, writes_ == 0 ? 0 : wire_free_ + costs_.gap);
        for (uint32_t block = 0; block < chunk.blocks; ++block) {
            at += (bytes_of(block) + SubBlocks::kFlag) / costs_.bandwidth;
            arrivals_.push_back({at + costs_.latency, chunk.index + block});
        }
        wire_free_ = at;
        sender_ += costs_.overhead;
        ++writes_;
        source_.posted(chunk);
    }
    // The receiver takes the next sub-block. Its acknowledgement is the sender's leave to go on.
    void receive() {
        if (arrivals_.empty()) throw report::Failure("sender and receiver wait for each other");
        const Arrival arrival = arrivals_.front();
        arrivals_.pop_front();
        std::byte* const ring = reinterpret_cast<std::byte*>(ring_.data());
        ring_[(arrival.index % kRingSlots * SubBlocks::kSlot + SubBlocks::kSubBlock) /
              sizeof(uint64_t)] = tern::flag_of(kGeneration, arrival.index);
        RingReader::Block block;
        if (!reader_.next(ring, block) || block.offset != received_)
            throw report::Failure("a sub-block is not read as it was sent");
        receiver_ = std::max(receiver_, arrival.time) + block.bytes * per_byte_;
        received_ += block.bytes;
        reader_.taken();
        if (!reader_.ack_due()) return;
        receiver_ += costs_.overhead;
        reader_.acked();
        if (!source_.acknowledged(reader_.count())) throw report::Failure("wrong acknowledgement");
        // Only a sender that has no room waits for it.
        sender_ = std::max(sender_, receiver_ + costs_.latency);
    }

    const tern::NetworkCosts costs_;
    const double per_byte_;  // seconds to copy
    const tern::ScheduleLimits limits_;
    ChunkSource source_;
    RingReader reader_;
    std::vector<uint64_t> ring_;
    std::deque<Arrival> arrivals_;
    double sender_ = 0;  // when the processors are free
    double receiver_ = 0;
    double wire_free_ = 0;
    uint64_t received_ = 0;
    uint64_t writes_ = 0;
};

// The figures of a cluster.
class Cluster {
  public:
    Cluster(std::string name, std::vector<report::Figure>* figures)
        : name_(std::move(name)), model_(*tern::find_costs(name_)), figures_(figures) {}

    void add_protocols(uint64_t length) {
        RawTransfer transfer(model_, length, kFirst, kQ, false);
        const double raw = model_.raw(length);
        const double staged = transfer.run();
        const double early = RawTransfer(model_, length, kFirst, kQ, true).run();
        const std::string test = "bandwidth of the raw protocol, " + name_;
        const auto bandwidth = [&](const char* protocol, double seconds) {
            add(test, length, protocol, "GB/s", static_cast<double>(length) / seconds / kGiga);
        };
        bandwidth("superpipeline", staged);
        bandwidth("RDMA write", raw);
        bandwidth("register, model", model_.naive_registration(length));
        bandwidth("copy, model", model_.naive_copy(length));
        bandwidth("fixed chunks, model", model_.pipeline(length));
        const std::string over = "time over that of an RDMA write, " + name_;
        add(over, length, "superpipeline", "%", 100 * (staged / raw - 1));
        add(over, length, "superpipeline, C_0 during a rendezvous", "%", 100 * (early / raw - 1));
        add("writes of a message, " + name_, length, "superpipeline", "",
            static_cast<double>(transfer.writes()));
        add("writes of a message, " + name_, length, "best fixed chunks, model", "",
            model_.pipeline_gaps(length, model_.optimal_chunk(length)));
    }

    // How much longer a message takes than with the best of these first chunks and ratios.
    void add_sweep(uint64_t length) {
        struct Point {
            std::string name;
            double time;
        };
        std::vector<Point> points;
        for (const uint32_t first : {4, 8, 12, 16, 24, 32, 48}) {
            for (const char* q : {"1", "1.25", "1.5", "1.75", "2", "2.5", "3"}) {
                points.push_back(
                    {"C_0 = " + std::to_string(first) + " KiB, q = " + q,
                     RawTransfer(model_, length, first << 10, std::stod(q), false).run()});
            }
        }
        const double best = std::ranges::min_element(points, {}, &Point::time)->time;
        for (const Point& point : points)
            add("time over the best of the sweep, " + name_, length, point.name, "%",
                100 * (point.time / best - 1));
    }

  private:
    void add(const std::string& test, uint64_t length, const std::string& name,
             const std::string& unit, double value) {
        figures_->push_back(report::exact_figure(test, static_cast<double>(length),
                                                 report::size_text(static_cast<uint32_t>(length)),
                                                 name, unit, value));
    }

    const std::string name_;
    const CostModel model_;
    std::vector<report::Figure>* const figures_;
};

}  // namespace

std::vector<report::Figure> run_superpipeline() {
    std::vector<report::Figure> figures;
    for (const char* name : {"graphene", "infini"}) {
        Cluster cluster(name, &figures);
        for (const uint64_t kib : {16, 32, 64, 128, 256, 1024, 4096, 16384})
            cluster.add_protocols(kib << 10);
        for (const uint64_t kib : {64, 256, 1024, 16384}) cluster.add_sweep(kib << 10);
    }
    return figures;
}

}  // namespace paper_tables
