// SPDX-License-Identifier: BSD-3-Clause
#include "bench/measure/json.h"

#include <cstdio>

#include "bench/measure/statistics.h"

namespace bench {

std::string quoted_json(std::string_view text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') result += '\\';
        if (static_cast<unsigned char>(c) >= ' ') result += c;
    }
    return result + "\"";
}

void JsonObject::add(std::string_view key, double number) {
    if (!is_set(number)) return;
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", number);
    add_raw(key, text);
}

void JsonObject::add_raw(std::string_view key, std::string_view value) {
    if (text_.size() > 1) text_ += ", ";
    text_.append(quoted_json(key)).append(": ").append(value);
}

}  // namespace bench
