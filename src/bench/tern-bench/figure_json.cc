// SPDX-License-Identifier: BSD-3-Clause
#include "bench/measure/json.h"
#include "bench/tern-bench/figure.h"

namespace bench {
namespace {

std::string object(const Figure& figure) {
    JsonObject result;
    result.add("test", figure.test);
    result.add("x", figure.x);
    result.add("x_text", figure.x_text);
    result.add("name", figure.name);
    result.add("unit", figure.unit);
    result.add("median", figure.value.median);
    if (figure.value.count > 1) {
        result.add("p10", figure.value.p10);
        result.add("p90", figure.value.p90);
        result.add("min", figure.value.min);
        result.add("samples", static_cast<double>(figure.value.count));
    }
    if (figure.has_target()) {
        result.add(figure.at_most ? "at_most" : "at_least", figure.target);
        result.add("met", figure.met());
    }
    result.add("paper", figure.reference);
    result.add("late_share", figure.late_share);
    result.add("cpu_share", figure.cpu_share);
    std::string doubts;
    for (const std::string& doubt : figure.doubts) {
        doubts += (doubts.empty() ? "" : ", ") + quoted_json(doubt);
    }
    result.add_raw("doubts", "[" + doubts + "]");
    return result.take();
}

}  // namespace

std::string as_json(const Facts& facts, const std::vector<Figure>& figures) {
    JsonObject result;
    for (const auto& [key, text] : facts) result.add(key, text);
    JsonList list;
    for (const Figure& figure : figures) list.add_raw(object(figure));
    result.add_raw("figures", list.take());
    return result.take() + "\n";
}

}  // namespace bench
