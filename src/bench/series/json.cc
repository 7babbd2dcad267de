// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/measure/clock.h"
#include "bench/series/figure.h"

namespace bench {
namespace {

using Json = nlohmann::ordered_json;

// Whole numbers are written without a fraction. JSON has neither NaN nor infinity.
void add(Json* object, const char* key, double number) {
    constexpr double kExact = 0x1p53;
    if (!std::isfinite(number)) return;
    if (number == std::floor(number) && std::abs(number) < kExact) {
        (*object)[key] = static_cast<int64_t>(number);
    } else {
        (*object)[key] = number;
    }
}

Json object_of(const Figure& figure) {
    Json object = {{"test", figure.test}};
    add(&object, "x", figure.x);
    object["x_text"] = figure.x_text;
    object["name"] = figure.name;
    object["unit"] = figure.unit;
    add(&object, "median", figure.value.median);
    if (figure.value.count > 1) {
        add(&object, "p10", figure.value.p10);
        add(&object, "p90", figure.value.p90);
        add(&object, "min", figure.value.min);
        object["samples"] = figure.value.count;
    }
    if (figure.has_target()) {
        add(&object, figure.at_most ? "at_most" : "at_least", figure.target);
        object["met"] = figure.met();
    }
    add(&object, "paper", figure.reference);
    add(&object, "model", figure.model);
    add(&object, "deviation", figure.deviation());
    add(&object, "machine", figure.machine);
    add(&object, "late_share", figure.late_share);
    add(&object, "cpu_share", figure.cpu_share);
    object["doubts"] = figure.doubts;
    return object;
}

}  // namespace

std::string as_json(const Facts& facts, const std::vector<Figure>& figures) {
    Json result = Json::object();
    for (const auto& [key, text] : facts) result[key] = text;
    result["figures"] = Json::array();
    for (const Figure& figure : figures) result["figures"].push_back(object_of(figure));
    // Texts come from the environment, too: bytes that are not UTF-8 are replaced.
    return result.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

void write_file(const std::string& name, const std::string& text) {
    FILE* const file = std::fopen(name.c_str(), "we");
    if (file == nullptr) throw call_failed(name);
    const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    if (std::fclose(file) != 0 || !written) throw call_failed(name);
}

}  // namespace bench
