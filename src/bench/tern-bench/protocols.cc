// SPDX-License-Identifier: BSD-3-Clause
// What UCP's protocols choose for tagged messages over Tern, against each way by itself.
#include <utility>

#include "bench/tern-bench/long_item.h"

namespace bench {
namespace {

constexpr double kToOthers = 0.97;  // target: ratio of bandwidths, lower limit

constexpr const char* kNotes =
    "v1: UCP's older protocols (UCX_PROTO_ENABLE=n). v2: its newer ones, with its own estimates "
    "(UCX_TERN_PROTO=n).\n"
    "v2 tern: with those of Tern's plug-in. frames, superpipeline, zcopy: v2 tern with all "
    "messages "
    "sent in one way\n"
    "(UCX_RNDV_THRESH, UCX_TERN_RNDV_SCHEME): where two of them cross, UCP should change from one "
    "to the other.\n"
    "write: RDMA write between registered buffers, polled in memory. `?`: see behind the line; "
    "`<`: less than the target.\n";

Arm over_tern(const char* name, Environment environment) {
    environment.emplace_back("UCX_PROTO_ENABLE", name == std::string("v1") ? "n" : "y");
    Arm arm = with(ucp_arm("tern", "tern,self"), "", environment);
    arm.name = name;
    return arm;
}

}  // namespace

Result run_protocols(const Options& options, const Setup& setup) {
    enum Who { kV1, kV2, kV2Tern };
    const std::vector<Arm> arms = {
        over_tern("v1", {}),
        over_tern("v2", {{"UCX_TERN_PROTO", "n"}}),
        over_tern("v2 tern", {}),
        over_tern("frames", {{"UCX_RNDV_THRESH", "inf"}}),
        over_tern("superpipeline",
                  {{"UCX_RNDV_THRESH", "0"}, {"UCX_TERN_RNDV_SCHEME", "superpipeline"}}),
        over_tern("zcopy", {{"UCX_RNDV_THRESH", "0"}, {"UCX_TERN_RNDV_SCHEME", "zcopy"}}),
        large_arm("write", shared_memory_differs(setup) ? "shared" : "private"),
    };
    Series series(setup, options.quick ? 2 : options.rounds, options.quick ? 1 : 2);
    for (const Buffers buffers : {Buffers::kFresh, Buffers::kReused}) {
        const bool fresh = buffers == Buffers::kFresh;
        for (const uint32_t size : long_sizes(options)) {
            const Series::Item* items[kV2Tern + 1] = {};
            for (size_t i = 0; i < arms.size(); ++i) {
                Series::Item item =
                    long_item(series, options, fresh ? "fresh buffers" : "reused buffers", size,
                              arms[i].name, arms[i], buffers);
                if (!fresh) item.order.count += options.quick ? 1 : kSettling;
                const Series::Item& added = series.add(std::move(item));
                if (i <= kV2Tern) items[i] = &added;
            }
            series.compare(*items[kV2Tern], *items[kV1], kToOthers, false);
            series.compare(*items[kV2Tern], *items[kV2], kToOthers, false);
        }
    }
    return matrix_of(series.run(), kNotes);
}

}  // namespace bench
