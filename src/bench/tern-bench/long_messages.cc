// SPDX-License-Identifier: BSD-3-Clause
// The bandwidth of long tagged messages, as in figures 2, 6 and 7 of the superpipeline paper, and
// the gain from pinning memory while earlier parts are being sent, as in figure 7 of the pinning
// paper.
#include <algorithm>

#include "bench/series/series.h"
#include "bench/tern-bench/arms.h"
#include "bench/tern-bench/costs.h"
#include "bench/tern-bench/long_item.h"
#include "rendezvous/policy.h"

namespace bench {
namespace {

// Targets, all of them lower limits, as ratios of bandwidths.
constexpr uint32_t kMiddle = 16 << 10;
constexpr uint32_t kLong = 64 << 10;
constexpr double kMiddleToWrite = 0.85;
constexpr double kLongToWrite = 0.95;
constexpr double kLongToVerbs = 2;
constexpr double kFreshToVerbs = 0.95;
constexpr double kReusedToCached = 0.98;
constexpr double kReusedToDirect = 0.95;
constexpr double kFirstToBest = 0.95;

constexpr const char* kFresh = "fresh buffers";
constexpr const char* kReused = "reused buffers";
constexpr const char* kFirst = "first message of reused buffers";
constexpr const char* kPinned = "pinned buffers";

constexpr const char* kBandwidthNotes =
    "write: RDMA write between registered buffers, polled in memory. rc_v: with its registration "
    "cache, rc_v direct:\n"
    "without (UCX_IB_REG_METHODS=direct), rc_v rndv: with it, and never copying from 16 KiB on "
    "(UCX_RNDV_THRESH), where\n"
    "by itself it copies messages of some 100 KiB. register: both sides register for each message, "
    "at the same time, then\n"
    "an RDMA write. copy: into registered memory, one RDMA write, out of it. model: what the cost "
    "model says, without the\n"
    "rendezvous that messages of UCP have and writes have not, and with it (+r). `?`: see behind "
    "the line; `<`: less than\n"
    "the target.\n";
constexpr const char* kPinningNotes =
    "before: both sides pin all of a message's memory, and then it is sent (UCX_TERN_RNDV_SCHEME="
    "zcopy, UCX_TERN_RNDV_PIN_OVERLAP=n).\n"
    "overlapped: piece by piece, while what is pinned is on the wire. Both with a buffer of its "
    "own for each message.\n"
    "cached: always the same buffer. rc_v direct: UCX without its registration cache. write: RDMA "
    "write between\n"
    "registered buffers. model: with the rendezvous.\n";

// Common parts of the two commands.
class LongSeries {
  protected:
    LongSeries(const Options& options, const Setup& setup)
        : options_(options),
          sizes_(long_sizes(options)),
          costs_(measure_costs(options, setup).costs),
          series_(setup, options.quick ? 2 : options.rounds, options.quick ? 1 : 2) {}
    ~LongSeries() = default;

    Series::Item item(const char* test, uint32_t size, const std::string& name, const Arm& arm,
                      Buffers buffers) {
        return long_item(series_, options_, test, size, name, arm, buffers);
    }

    // Runs the measurement. The model's figures follow the last measured figure of each test and
    // size.
    template <typename IsLast, typename AddModel>
    Result run(const char* notes, IsLast&& is_last, AddModel&& add_model) {
        Result result;
        for (Figure& figure : series_.run()) {
            const bool last = !figure.is_ratio() && is_last(figure);
            const std::string test = figure.test;
            const double size = figure.x;
            const std::string size_text = figure.x_text;
            result.figures.push_back(std::move(figure));
            if (!last) continue;
            add_model(test, static_cast<uint64_t>(size), [&](const char* name, double seconds) {
                result.figures.push_back(
                    exact_figure(test, size, size_text, name, "GB/s", size / seconds / 1e9));
            });
        }
        result.notes = std::string(notes) + "model: " + costs_text(costs_);
        result.matrix = true;
        return result;
    }
    double rendezvous_time() const { return 2 * costs_.network.latency; }

    const Options& options_;
    const std::vector<uint32_t> sizes_;
    const tern::Costs costs_;
    Series series_;
};

class BandwidthSeries : LongSeries {
  public:
    BandwidthSeries(const Options& options, const Setup& setup) : LongSeries(options, setup) {
        const std::string tls = options.transport == "rc_verbs" ? "rc_v" : options.transport;
        const char* memory = shared_memory_differs(setup) ? "shared" : "private";
        arms_[kTern] = {tls, ucp_arm(tls, tls + ",self")};
        arms_[kCached] = {"rc_v", ucp_arm("rc_v", "rc_v,self")};
        arms_[kDirect] = {"rc_v direct", uncached(ucp_arm("rc_v", "rc_v,self"))};
        arms_[kRendezvous] = {"rc_v rndv", rendezvous(ucp_arm("rc_v", "rc_v,self"))};
        arms_[kWrite] = {"write", large_arm("write", memory)};
        arms_[kRegister] = {"register", large_arm("register", "private")};
        arms_[kCopy] = {"copy", large_arm("copy", memory)};
        for (const uint32_t size : sizes_) add_fresh(size);
        for (const uint32_t size : sizes_) add_reused(size);
        for (const uint32_t size : sizes_) add_first(size);
    }

    Result run() {
        const tern::Policy policy(costs_, {});
        const tern::CostModel& model = policy.model();
        return LongSeries::run(
            kBandwidthNotes,
            [](const Figure& figure) {
                return figure.name == (figure.test == kFirst ? "rc_v rndv" : "copy");
            },
            [&](const std::string& test, uint64_t length, const auto& add) {
                const double staged = model.superpipeline(length, policy.staging(length));
                if (test != kFirst) {
                    add("model write", model.raw(length));
                    add("model superpipeline", staged);
                }
                add("model superpipeline+r", staged + rendezvous_time());
                if (test == kFirst) return;
                add("model register", model.naive_registration(length));
                add("model copy", model.naive_copy(length));
            });
    }

  private:
    enum Who { kTern, kCached, kDirect, kRendezvous, kWrite, kRegister, kCopy, kAll };
    struct Contender {
        std::string name;
        Arm arm;
    };

    void add_fresh(uint32_t size) {
        const Series::Item* items[kAll] = {};
        for (int who = 0; who < kAll; ++who) {
            items[who] =
                &series_.add(item(kFresh, size, arms_[who].name, arms_[who].arm, Buffers::kFresh));
        }
        const double to_write = size >= kLong     ? kLongToWrite
                                : size >= kMiddle ? kMiddleToWrite
                                                  : kNone;
        // The cost of registration is visible only where messages are not copied.
        const double to_rendezvous =
            size >= kLong && size < 2 * kLong ? kLongToVerbs : kFreshToVerbs;
        series_.compare(*items[kTern], *items[kWrite], to_write, false);
        series_.compare(*items[kTern], *items[kCached], kFreshToVerbs, false);
        series_.compare(*items[kTern], *items[kDirect], kFreshToVerbs, false);
        series_.compare(*items[kTern], *items[kRendezvous], to_rendezvous, false);
    }
    void add_reused(uint32_t size) {
        for (const Contender& who : arms_) {
            Series::Item one = item(kReused, size, who.name, who.arm, Buffers::kReused);
            one.order.count += options_.quick ? 1 : kSettling + 1;
            reused_.push_back(&series_.add(std::move(one)));
        }
        Series::Item* const* items = &reused_[reused_.size() - kAll];
        series_.compare(*items[kTern], *items[kWrite]);
        series_.compare(*items[kTern], *items[kCached], kReusedToCached, false);
        series_.compare(*items[kTern], *items[kDirect], kReusedToDirect, false);
        series_.compare(*items[kTern], *items[kRendezvous], kReusedToCached, false);
    }
    void add_first(uint32_t size) {
        for (int who = 0; who <= kRendezvous; ++who) {
            Series::Item one = item(kFirst, size, arms_[who].name, arms_[who].arm, Buffers::kFresh);
            one.follows = true;
            const size_t index = first_++ / (kRendezvous + 1) * kAll + static_cast<size_t>(who);
            Series::Item& first = series_.add(std::move(one));
            reused_[index]->first = &first;
            if (who == kTern)
                series_.compare(first, *reused_[index], kFirstToBest, false, "first / later");
        }
    }

    Contender arms_[kAll];
    std::vector<Series::Item*> reused_;
    size_t first_ = 0;
};

class PinningSeries : LongSeries {
  public:
    PinningSeries(const Options& options, const Setup& setup) : LongSeries(options, setup) {
        const Arm overlapped = with(rendezvous(ucp_arm("tern", "tern,self")), " zcopy",
                                    {{"UCX_TERN_RNDV_SCHEME", "zcopy"}});
        const Arm before = with(overlapped, " before", {{"UCX_TERN_RNDV_PIN_OVERLAP", "n"}});
        const Arm direct = uncached(ucp_arm("rc_v", "rc_v,self"));
        const Arm write = large_arm("write", shared_memory_differs(setup) ? "shared" : "private");
        for (const uint32_t size : sizes_) {
            const auto add = [&](const char* name, const Arm& arm,
                                 Buffers buffers) -> const Series::Item& {
                return series_.add(item(kPinned, size, name, arm, buffers));
            };
            const Series::Item& first = add("before", before, Buffers::kFresh);
            const Series::Item& second = add("overlapped", overlapped, Buffers::kFresh);
            const Series::Item& cached = add("cached", overlapped, Buffers::kReused);
            add("rc_v direct", direct, Buffers::kFresh);
            const Series::Item& limit = add("write", write, Buffers::kFresh);
            series_.compare(second, first);
            series_.compare(cached, first);
            series_.compare(second, limit);
        }
    }

    Result run() {
        const tern::CostModel model(costs_);
        return LongSeries::run(
            kPinningNotes, [](const Figure& figure) { return figure.name == "write"; },
            [&](const std::string&, uint64_t length, const auto& add) {
                add("model before", model.naive_registration(length) + rendezvous_time());
                add("model overlapped",
                    model.pinned_behind_wire(length, model.best_piece(length)) + rendezvous_time());
            });
    }
};

}  // namespace

Result run_bandwidth(const Options& options, const Setup& setup) {
    return BandwidthSeries(options, setup).run();
}

Result run_pinning(const Options& options, const Setup& setup) {
    return PinningSeries(options, setup).run();
}

}  // namespace bench
