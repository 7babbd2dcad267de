// SPDX-License-Identifier: BSD-3-Clause
// What it brings to pin memory while it is being sent, as in figure 7 of the pinning paper.
#include <algorithm>

#include "bench/tern-bench/arms.h"
#include "bench/tern-bench/command.h"
#include "bench/tern-bench/costs.h"
#include "bench/tern-bench/series.h"
#include "bench/tern-bench/sizes.h"
#include "rendezvous/policy.h"

namespace bench {
namespace {

constexpr const char* kTest = "pinned buffers";
constexpr uint64_t kBytes = 16 << 20;  // of an order, each way
constexpr uint64_t kFewest = 4;
constexpr uint64_t kMost = 30;

constexpr const char* kNotes =
    "before: both sides pin all of a message's memory, and then it is sent (UCX_TERN_RNDV_SCHEME="
    "zcopy, UCX_TERN_RNDV_PIN_OVERLAP=n).\n"
    "overlapped: piece by piece, while what is pinned is on the wire. Both with a buffer of its "
    "own for each message.\n"
    "cached: always the same buffer. rc_v direct: UCX without its registration cache. write: RDMA "
    "write between\n"
    "registered buffers. model: with the rendezvous.\n";

class PinningSeries {
  public:
    PinningSeries(const Options& options, const Setup& setup)
        : options_(options),
          sizes_(long_sizes(options)),
          costs_(measure_costs(options, setup).costs),
          series_(setup, options.quick ? 2 : options.rounds, options.quick ? 1 : 2) {
        const Arm overlapped = with(rendezvous(ucp_arm("tern", "tern,self")), " zcopy",
                                    {{"UCX_TERN_RNDV_SCHEME", "zcopy"}});
        const Arm before = with(overlapped, " before", {{"UCX_TERN_RNDV_PIN_OVERLAP", "n"}});
        const Arm direct = uncached(ucp_arm("rc_v", "rc_v,self"));
        const Arm write = large_arm("write", shared_memory_differs(setup) ? "shared" : "private");
        for (const uint32_t size : sizes_) {
            const Series::Item& first = add(size, "before", before, Buffers::kFresh);
            const Series::Item& second = add(size, "overlapped", overlapped, Buffers::kFresh);
            const Series::Item& cached = add(size, "cached", overlapped, Buffers::kReused);
            add(size, "rc_v direct", direct, Buffers::kFresh);
            const Series::Item& limit = add(size, "write", write, Buffers::kFresh);
            series_.compare(second, first);
            series_.compare(cached, first);
            series_.compare(second, limit);
        }
    }

    Result run() {
        Result result;
        for (Figure& figure : series_.run()) {
            const bool last = !figure.is_ratio() && figure.name == "write";
            const double size = figure.x;
            result.figures.push_back(std::move(figure));
            if (last) add_model(size, &result.figures);
        }
        result.x_label = "message size, bytes";
        result.notes = kNotes + ("model: " + costs_text(costs_));
        result.matrix = true;
        return result;
    }

  private:
    const Series::Item& add(uint32_t size, const char* name, const Arm& arm, Buffers buffers) {
        Series::Item item;
        item.test = kTest;
        item.size = size;
        item.name = name;
        item.arm = series_.add_arm(arm);
        item.unit = "GB/s";
        item.rate = true;
        const uint64_t trips =
            options_.quick ? kFewest - 1 : std::clamp(kBytes / size, kFewest, kMost);
        const bool messages = arm.layer == Layer::kUcp;
        item.order = {messages ? Order::Kind::kMessages : Order::Kind::kWrites, size, trips, 1,
                      buffers};
        return series_.add(std::move(item));
    }

    void add_model(double size, std::vector<Figure>* figures) const {
        const tern::CostModel model(costs_);
        const auto length = static_cast<uint64_t>(size);
        const auto add = [&](const char* name, double seconds) {
            figures->push_back(exact_figure(kTest, size, size_text(static_cast<uint32_t>(size)),
                                            name, "GB/s", size / seconds / 1e9));
        };
        const double rendezvous = 2 * costs_.network.latency;
        add("model before", model.naive_registration(length) + rendezvous);
        add("model overlapped",
            model.pinned_behind_wire(length, model.best_piece(length)) + rendezvous);
    }

    const Options& options_;
    const std::vector<uint32_t> sizes_;
    const tern::Costs costs_;
    Series series_;
};

}  // namespace

Result run_pinning(const Options& options, const Setup& setup) {
    return PinningSeries(options, setup).run();
}

}  // namespace bench
