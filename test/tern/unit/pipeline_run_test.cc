// SPDX-License-Identifier: BSD-3-Clause
// The closed forms of the cost model against a simulation of the schedule.
#include "pipeline_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "schedules.h"

namespace tern {
namespace {

struct Case {
    CostModel model;
    uint64_t length;
    Staging staging;
    ScheduleLimits limits;

    std::string wrong(const char* what, double model_time, double time) const {
        const double off = time / model_time - 1;
        // The run has whole sub-blocks in place of real numbers. The last chunk has any size up to
        // q times the one before, so up to q / (1 + q) of the message; if chunks grow faster than
        // copies allow, the end waits for the copy of that chunk.
        const double copy = 1 / model.copy_bandwidth(length);
        const double wire = 1 / model.costs().network.bandwidth;
        double rounding = 2 * 4096 * std::max(copy, wire) + model.costs().network.gap;
        if (staging.q > model.ratio(length))
            rounding +=
                std::min(staging.most, static_cast<double>(length) * staging.q / (1 + staging.q)) *
                copy;
        if (std::abs(off) < 0.03 || std::abs(time - model_time) < rounding) return {};
        return std::string(what) + " of " + std::to_string(length) + " bytes, B_copy / B_net " +
               std::to_string(model.ratio(length)) + ", q " + std::to_string(staging.q) +
               ", at most " + std::to_string(limits.most) + ": " + std::to_string(time * 1e6) +
               " us, by the model " + std::to_string(model_time * 1e6);
    }
};

// Networks of 1 to 30 GB/s, copies of 1 to 60 GB/s.
Case any_case(Random& random) {
    const auto real = [&](uint64_t from, uint64_t to) {
        return static_cast<double>(random.between(from, to));
    };
    Costs costs;
    costs.network = {real(500, 5000) * 1e-9, real(10, 300) * 1e8, real(0, 300) * 1e-9, 0};
    costs.network.overhead = costs.network.gap * real(0, 100) / 100;
    costs.copy = {real(100, 600) * 1e8, real(10, 100) * 1e8, real(0, 1'000'000)};
    costs.registration = {real(0, 100) * 1e-6, real(50, 500) * 1e8};
    Case it = {CostModel(costs), random() >> random.between(37, 50), {}, {}};
    it.length += 4096;
    const double qs[] = {0.5, 1, 1.25, 1.5, 2, 4};
    it.limits = {.first_bytes = 4096 * static_cast<uint32_t>(random.between(1, 8)),
                 .q = qs[random.below(6)],
                 .most = static_cast<uint32_t>(random.between(8, 256)),
                 .least = 0};
    it.staging.first = it.limits.first_bytes;
    it.staging.q = it.limits.q;
    it.staging.most = it.limits.most * 4096.0;
    return it;
}

TEST(PipelineRun, TakesAsLongAsTheModelSays) {
    each_schedule(3000, [](Random random) -> std::string {
        const Case it = any_case(random);
        PipelineRun run(it.model, it.length);
        run.stage(it.length, it.limits);
        return it.wrong("superpipeline", it.model.superpipeline(it.length, it.staging), run.time());
    });
}

// Chunks that grow faster than copies allow delay the wire until they reach the longest length.
TEST(PipelineRun, GrowingTooFastCostsWhatTheModelSays) {
    Costs costs = *find_costs("graphene");
    costs.copy.cache = 0;
    const CostModel model(costs);
    // 4, 16, 64, 256, 256 ... sub-blocks
    const Staging steep = {.first = 4 * 4096, .q = 4, .most = 256 * 4096};
    for (const uint64_t length : {4u << 20, 8u << 20, 64u << 20}) {
        PipelineRun run(model, length);
        run.stage(length, {.first_bytes = 4 * 4096, .q = 4, .most = 256});
        const double time = model.superpipeline(length, steep);
        EXPECT_NEAR(time / run.time(), 1, 0.01) << length;
        EXPECT_GT(time, model.superpipeline(length, {.q = 1.3, .most = 256 * 4096}) + 300e-6);
    }
}

TEST(PipelineRun, HasAsManyGapsAsTheModelSays) {
    each_schedule(1000, [](Random random) -> std::string {
        const Case it = any_case(random);
        PipelineRun run(it.model, it.length);
        run.stage(it.length, it.limits);
        const double gaps = CostModel::superpipeline_gaps(it.length, it.staging);
        // Chunks are rounded down, which matters most for short ones.
        if (run.gaps() > gaps * 0.95 - 1 && run.gaps() < gaps * 1.15 + 3) return {};
        return std::to_string(run.gaps()) + " gaps, by the model " + std::to_string(gaps);
    });
}

TEST(PipelineRun, PinningBehindTheWire) {
    each_schedule(3000, [](Random random) -> std::string {
        const Case it = any_case(random);
        const uint64_t piece =
            random.chance(50) ? it.model.best_piece(it.length) : 4096 * random.between(16, 1000);
        PipelineRun run(it.model, it.length);
        run.place(it.length, piece);
        return it.wrong("pinning", it.model.pinned_behind_wire(it.length, piece), run.time());
    });
}

}  // namespace
}  // namespace tern
