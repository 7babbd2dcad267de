// SPDX-License-Identifier: BSD-3-Clause
// The result as JSON.
#include <cstdio>

#include "output.h"

namespace softhca::bench {
namespace {

std::string quoted(std::string_view text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') result += '\\';
        if (static_cast<unsigned char>(c) >= ' ') result += c;
    }
    return result + "\"";
}

/// One object; numbers that there are none of are left out.
class Object {
  public:
    void add(std::string_view key, std::string_view text) { member(key, quoted(text)); }
    void add(std::string_view key, double number) {
        if (!is_set(number)) return;
        char text[32];
        std::snprintf(text, sizeof text, "%.6g", number);
        member(key, text);
    }
    void member(std::string_view key, std::string_view value) {
        if (text_.size() > 1) text_ += ", ";
        text_.append(quoted(key)).append(": ").append(value);
    }
    std::string take() { return std::move(text_) + "}"; }

  private:
    std::string text_ = "{";
};

std::string object(const Row& row) {
    Object result;
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
        result.member("late", row.late() ? "true" : "false");
        result.member("machine_bound", row.machine_bound() ? "true" : "false");
    }
    return result.take();
}

}  // namespace

std::string as_json(const std::vector<std::pair<std::string, std::string>>& facts,
                    const std::vector<Row>& rows) {
    Object result;
    for (const auto& [key, text] : facts) result.add(key, text);
    std::string list = "[";
    for (const Row& row : rows) list.append(list.size() > 1 ? ",\n" : "\n").append(object(row));
    result.member("rows", list + "\n]");
    return result.take() + "\n";
}

}  // namespace softhca::bench
