// SPDX-License-Identifier: BSD-3-Clause
// How much of a message a processor can leave to the network, as in figure 5 of the TupleQ paper.
#include <array>

#include "tools/tern_bench/arms.h"
#include "tools/tern_bench/command.h"
#include "tools/tern_bench/series.h"

namespace tern::bench {
namespace {

constexpr double kAvailable = 0.95;
constexpr uint64_t kMessages = 40;  // of an order; half of them without work

constexpr const char* kNotes =
    "The Sandia method: post, work, wait; twice as much work as the message takes without.\n"
    "availability: 1 - overhead / time without work. overhead: time of the processor that is not "
    "work. arrived: messages\n"
    "that were there although the process did nothing but look into its memory (receiver), or that "
    "the receiver had\n"
    "although the sender did nothing (sender). The device has a thread of its own, which takes its "
    "time from the same\n"
    "processors; availability counts that as overhead, arrived does not.\n"
    "tern: UCX_TERN_TM_ENABLE=n. matcher: =y, UCX_TM_THRESH=8. rc_v get, put: UCX_RNDV_SCHEME. "
    "All: UCX_RNDV_THRESH=16k.\n";

Arm with(Arm arm, const char* name, const char* variable, const char* value) {
    arm.name += std::string(" ") + name;
    arm.environment.emplace_back(variable, value);
    return arm;
}

class OverlapSeries {
  public:
    OverlapSeries(const Options& options, const Setup& setup)
        : options_(options),
          series_(setup, options.quick ? 1 : options.rounds, options.quick ? 1 : 2) {
        const Arm tern = threaded(rendezvous(ucp_arm("tern", "tern,self")));
        const Arm verbs = threaded(rendezvous(ucp_arm("rc_v", "rc_v,self")));
        arms_ = {{{"matcher", with(with(tern, "matcher", "UCX_TERN_TM_ENABLE", "y"), "all",
                                   "UCX_TM_THRESH", "8")},
                  {"tern", tern},
                  {"rc_v get", with(verbs, "get", "UCX_RNDV_SCHEME", "get_zcopy")},
                  {"rc_v put", with(verbs, "put", "UCX_RNDV_SCHEME", "put_zcopy")}}};
        const std::vector<uint32_t> sizes =
            options.quick ? std::vector<uint32_t>{8, 64 << 10}
                          : std::vector<uint32_t>{8,        64,       512,       2 << 10, 8 << 10,
                                                  16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20};
        for (const bool sender : {false, true}) {
            for (const uint32_t size : sizes)
                add("arrived", "%", Order::Kind::kArrivals, size, sender);
            for (const uint32_t size : sizes)
                add("availability", "", Order::Kind::kAvailability, size, sender);
            for (const uint32_t size : sizes)
                add("overhead", "us", Order::Kind::kOverhead, size, sender);
        }
    }

    Result run() {
        Result result;
        result.figures = series_.run();
        for (Figure& figure : result.figures) {
            if (figure.name != "matcher" || !figure.test.starts_with("availability")) continue;
            figure.target = kAvailable;
            figure.at_most = false;
        }
        result.x_label = "message size, bytes";
        result.notes = kNotes;
        result.matrix = true;
        return result;
    }

  private:
    static Arm threaded(Arm arm) {
        return with(std::move(arm), "thread", "SOFTHCA_EXECUTOR", "thread");
    }

    void add(const char* what, const char* unit, Order::Kind kind, uint32_t size, bool sender) {
        for (const auto& [name, arm] : arms_) {
            Series::Item item;
            item.test = std::string(what) + (sender ? " of the sender" : " of the receiver");
            item.size = size;
            item.name = name;
            item.arm = series_.add_arm(arm);
            item.unit = unit;
            item.order = {kind, size, options_.quick ? 4 : kMessages, 1, Buffers::kReused, sender};
            series_.add(std::move(item));
        }
    }

    struct Contender {
        std::string name;
        Arm arm;
    };

    const Options& options_;
    Series series_;
    std::array<Contender, 4> arms_;
};

}  // namespace

Result run_overlap(const Options& options, const Setup& setup) {
    return OverlapSeries(options, setup).run();
}

}  // namespace tern::bench
