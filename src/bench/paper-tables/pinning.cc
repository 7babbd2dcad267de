// SPDX-License-Identifier: BSD-3-Clause
#include <string>

#include "bench/paper-tables/tables.h"
#include "bench/report/text.h"
#include "tern/rendezvous/cost_model.h"

namespace paper_tables {
namespace {

// Table 1 of the pinning paper: pinning and unpinning.
constexpr struct {
    const char* name;
    double base_us;
    double ns_per_page;
} kProcessors[] = {{"Opteron 265", 4.2, 720},
                   {"Opteron 8347", 2.2, 330},
                   {"Xeon E5435", 2.3, 250},
                   {"Xeon E5460", 1.3, 150}};
// Its network: 10G Ethernet, with a round trip of 10 to 20 us.
constexpr double kEthernetLatency = 7.5e-6;
constexpr double kEthernetBandwidth = 1.25e9;

tern::Costs costs_of(double base_us, double ns_per_page) {
    tern::Costs costs;
    costs.network.latency = kEthernetLatency;
    costs.network.bandwidth = kEthernetBandwidth;
    costs.registration.latency = base_us / 1e6;
    costs.registration.bandwidth = tern::CostModel::kPage * 1e9 / ns_per_page;
    return costs;
}

}  // namespace

std::vector<report::Figure> run_pinning() {
    std::vector<report::Figure> figures;
    for (const bool behind_wire : {false, true}) {
        const char* const test = behind_wire
                                     ? "throughput lost if pieces are pinned behind the wire"
                                     : "throughput lost by pinning for each message";
        for (const uint64_t kib : {64, 256, 1024, 4096, 16384}) {
            const uint64_t length = kib << 10;
            for (const auto& [name, base_us, ns_per_page] : kProcessors) {
                const tern::CostModel model(costs_of(base_us, ns_per_page));
                const double time = behind_wire
                                        ? model.pinned_behind_wire(length, model.best_piece(length))
                                        : model.naive_registration(length);
                figures.push_back(
                    report::exact_figure(test, static_cast<double>(length),
                                         report::size_text(static_cast<uint32_t>(length)), name,
                                         "%", 100 * (1 - model.raw(length) / time)));
            }
        }
    }
    return figures;
}

}  // namespace paper_tables
