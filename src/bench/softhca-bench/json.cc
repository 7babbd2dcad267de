// SPDX-License-Identifier: BSD-3-Clause
// The result as JSON.
#include "bench/measure/json.h"
#include "bench/softhca-bench/output.h"

namespace softhca::bench {
namespace {

std::string object(const Row& row) {
    JsonObject result;
    result.add("section", row.section);
    result.add("device", row.device);
    result.add("label", row.label);
    result.add("unit", row.unit);
    result.add("median", row.value.median);
    result.add("min", row.value.min);
    result.add("p10", row.value.p10);
    result.add("p90", row.value.p90);
    result.add("samples", static_cast<double>(row.value.count));
    result.add("target", row.target);
    result.add("ratio", row.ratio);
    result.add("ratio_target", row.ratio_target);
    result.add("model", row.model);
    if (is_set(row.model)) result.add("deviation", row.deviation());
    result.add("machine", row.machine);
    result.add("late_share", row.late_share);
    if (is_set(row.model)) {
        result.add("late", row.late());
        result.add("machine_bound", row.machine_bound());
    }
    return result.take();
}

}  // namespace

std::string as_json(const std::vector<std::pair<std::string, std::string>>& facts,
                    const std::vector<Row>& rows) {
    JsonObject result;
    for (const auto& [key, text] : facts) result.add(key, text);
    JsonList list;
    for (const Row& row : rows) list.add_raw(object(row));
    result.add_raw("rows", list.take());
    return result.take() + "\n";
}

}  // namespace softhca::bench
