// SPDX-License-Identifier: BSD-3-Clause
// Long tagged messages, as in figures 2, 6 and 7 of the superpipeline paper.
#include <algorithm>

#include "bench/tern-bench/arms.h"
#include "bench/tern-bench/command.h"
#include "bench/tern-bench/costs.h"
#include "bench/tern-bench/series.h"
#include "bench/tern-bench/sizes.h"
#include "rendezvous/policy.h"

namespace bench {
namespace {

// Targets, at least. Of fresh buffers, the part of a RDMA write's bandwidth, and what registration
// costs others.
constexpr uint32_t kMiddle = 16 << 10;
constexpr uint32_t kLong = 64 << 10;
constexpr double kMiddleToWrite = 0.85;
constexpr double kLongToWrite = 0.95;
constexpr double kLongToVerbs = 2;
constexpr double kFreshToVerbs = 0.95;
constexpr double kReusedToCached = 0.98;
constexpr double kReusedToDirect = 0.95;
constexpr double kFirstToBest = 0.95;

constexpr uint64_t kBytes = 16 << 20;  // of an order, each way
constexpr uint64_t kFewest = 4;
constexpr uint64_t kMost = 30;
constexpr uint64_t kSettling =
    8;  // more of a reused buffer: what comes back may be pinned by and by

constexpr const char* kFresh = "fresh buffers";
constexpr const char* kReused = "reused buffers";
constexpr const char* kFirst = "first message of reused buffers";

constexpr const char* kNotes =
    "write: RDMA write between registered buffers, polled in memory. rc_v: with its registration "
    "cache, rc_v direct:\n"
    "without (UCX_IB_REG_METHODS=direct), rc_v rndv: with it, and never copying from 16 KiB on "
    "(UCX_RNDV_THRESH), where\n"
    "by itself it copies messages of some 100 KiB. register: both sides register for each message, "
    "at the "
    "same time, then an RDMA\n"
    "write. copy: into registered memory, one RDMA write, out of it. model: what the cost model "
    "says, without the rendezvous\n"
    "that messages of UCP have and writes have not, and with it (+r). `?`: see behind the line; "
    "`<`: less than the target.\n";

class BandwidthSeries {
  public:
    BandwidthSeries(const Options& options, const Setup& setup)
        : options_(options),
          differs_(shared_memory_differs(setup)),
          sizes_(long_sizes(options)),
          costs_(measure_costs(options, setup).costs),
          series_(setup, options.quick ? 2 : options.rounds, options.quick ? 1 : 2) {
        const std::string tls = options.transport == "rc_verbs" ? "rc_v" : options.transport;
        arms_[kTern] = {tls, ucp_arm(tls, tls + ",self")};
        arms_[kCached] = {"rc_v", ucp_arm("rc_v", "rc_v,self")};
        arms_[kDirect] = {"rc_v direct", uncached(ucp_arm("rc_v", "rc_v,self"))};
        arms_[kRendezvous] = {"rc_v rndv", rendezvous(ucp_arm("rc_v", "rc_v,self"))};
        arms_[kWrite] = {"write", large_arm("write", differs_ ? "shared" : "private")};
        arms_[kRegister] = {"register", large_arm("register", "private")};
        arms_[kCopy] = {"copy", large_arm("copy", differs_ ? "shared" : "private")};
        for (const uint32_t size : sizes_) add_fresh(size);
        for (const uint32_t size : sizes_) add_reused(size);
        for (const uint32_t size : sizes_) add_first(size);
    }

    Result run() {
        Result result;
        for (Figure& figure : series_.run()) {
            const bool last = is_last(figure);
            const std::string test = figure.test;
            const double size = figure.x;
            result.figures.push_back(std::move(figure));
            if (last) add_model(test, size, &result.figures);
        }
        result.x_label = "message size, bytes";
        result.notes = kNotes + ("model: " + costs_text(costs_));
        result.matrix = true;
        return result;
    }

  private:
    enum Who { kTern, kCached, kDirect, kRendezvous, kWrite, kRegister, kCopy, kAll };
    struct Contender {
        std::string name;
        Arm arm;
    };

    uint64_t trips(uint32_t size) const {
        return options_.quick ? kFewest - 1 : std::clamp(kBytes / size, kFewest, kMost);
    }

    Series::Item make(const char* test, uint32_t size, const Contender& who) {
        Series::Item item;
        item.test = test;
        item.size = size;
        item.name = who.name;
        item.arm = series_.add_arm(who.arm);
        item.unit = "GB/s";
        item.rate = true;
        const bool messages = who.arm.layer == Layer::kUcp;
        item.order = {messages ? Order::Kind::kMessages : Order::Kind::kWrites, size, trips(size),
                      1, Buffers::kFresh};
        return item;
    }
    void add_fresh(uint32_t size) {
        const Series::Item* items[kAll] = {};
        for (int who = 0; who < kAll; ++who)
            items[who] = &series_.add(make(kFresh, size, arms_[who]));
        const double to_write = size >= kLong     ? kLongToWrite
                                : size >= kMiddle ? kMiddleToWrite
                                                  : kNone;
        // What registration costs shows where nothing is copied.
        const double to_rendezvous =
            size >= kLong && size < 2 * kLong ? kLongToVerbs : kFreshToVerbs;
        series_.compare(*items[kTern], *items[kWrite], to_write, false);
        series_.compare(*items[kTern], *items[kCached], kFreshToVerbs, false);
        series_.compare(*items[kTern], *items[kDirect], kFreshToVerbs, false);
        series_.compare(*items[kTern], *items[kRendezvous], to_rendezvous, false);
    }
    void add_reused(uint32_t size) {
        for (int who = 0; who < kAll; ++who) {
            Series::Item item = make(kReused, size, arms_[who]);
            item.order.buffers = Buffers::kReused;
            if (!options_.quick) item.order.count += kSettling;
            ++item.order.count;
            reused_.push_back(&series_.add(std::move(item)));
        }
        Series::Item* const* items = &reused_[reused_.size() - kAll];
        series_.compare(*items[kTern], *items[kWrite]);
        series_.compare(*items[kTern], *items[kCached], kReusedToCached, false);
        series_.compare(*items[kTern], *items[kDirect], kReusedToDirect, false);
        series_.compare(*items[kTern], *items[kRendezvous], kReusedToCached, false);
    }
    void add_first(uint32_t size) {
        for (int who = 0; who <= kRendezvous; ++who) {
            Series::Item item = make(kFirst, size, arms_[who]);
            item.follows = true;
            const size_t index = first_++ / (kRendezvous + 1) * kAll + static_cast<size_t>(who);
            Series::Item& first = series_.add(std::move(item));
            reused_[index]->first = &first;
            if (who == kTern)
                series_.compare(first, *reused_[index], kFirstToBest, false, "first / later");
        }
    }

    // Of its test and size: models come behind the last contender's figure, before the ratios.
    static bool is_last(const Figure& figure) {
        return !figure.is_ratio() && figure.name == (figure.test == kFirst ? "rc_v rndv" : "copy");
    }
    void add_model(const std::string& test, double size, std::vector<Figure>* figures) const {
        const tern::Policy policy(costs_, {});
        const tern::CostModel& model = policy.model();
        const auto length = static_cast<uint64_t>(size);
        const auto add = [&](const char* name, double seconds) {
            figures->push_back(exact_figure(test, size, size_text(static_cast<uint32_t>(size)),
                                            name, "GB/s", size / seconds / 1e9));
        };
        const double staged = model.superpipeline(length, policy.staging(length));
        const double rendezvous = 2 * costs_.network.latency;
        if (test == kFirst) {
            add("model superpipeline+r", staged + rendezvous);
            return;
        }
        add("model write", model.raw(length));
        add("model superpipeline", staged);
        add("model superpipeline+r", staged + rendezvous);
        add("model register", model.naive_registration(length));
        add("model copy", model.naive_copy(length));
    }

    const Options& options_;
    const bool differs_;
    const std::vector<uint32_t> sizes_;
    const tern::Costs costs_;
    Series series_;
    Contender arms_[kAll];
    std::vector<Series::Item*> reused_;
    size_t first_ = 0;
};

}  // namespace

Result run_bandwidth(const Options& options, const Setup& setup) {
    return BandwidthSeries(options, setup).run();
}

}  // namespace bench
