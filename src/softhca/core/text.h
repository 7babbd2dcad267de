// SPDX-License-Identifier: BSD-3-Clause
// Parsers for settings: numbers, times and comma lists. All reject trailing text and overflow. And
// texts of the same kinds.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace softhca {

// A number, decimal, or hexadecimal after 0x.
std::optional<uint64_t> parse_number(std::string_view text);
// A decimal number that may be negative.
std::optional<int32_t> parse_signed(std::string_view text);
// A number of bytes; the suffixes K, M and G count in powers of 1024.
std::optional<uint64_t> parse_bytes(std::string_view text);
// A decimal fraction, not negative, at most 1e12.
std::optional<double> parse_decimal(std::string_view text);
// A time in ns, rounded, at most 1000 s: a decimal fraction with suffix ns, us, ms or s; without
// suffix in us.
std::optional<uint64_t> parse_time_ns(std::string_view text);

// Without the blanks around it.
std::string_view trimmed(std::string_view text);

// The shortest text that parse_time_ns() reads back as `ns`.
std::string time_text(uint64_t ns);
// The shortest text that parse_decimal() reads back as `value`.
std::string decimal_text(double value);

// The items of a range, separated by ", ": texts, or what `text` makes of them, for example
// &T::name.
template <typename Range, typename Text = std::identity>
std::string joined(const Range& items, Text&& text = {}) {
    std::string all;
    for (const auto& item : items) {
        if (!all.empty()) all += ", ";
        all += std::invoke(text, item);
    }
    return all;
}

// An entry KEY=VALUE. Without '=', `value` is empty and has_value false.
struct ListEntry {
    std::string_view key;
    std::string_view value;
    bool has_value;
};
// Without the blanks around entry, key and value.
ListEntry entry_of(std::string_view text);
// Calls `visit` for each entry of a comma list, but for empty ones. Stops at the first error text
// of `visit` and returns it.
std::optional<std::string> for_each_entry(
    std::string_view list,
    const std::function<std::optional<std::string>(const ListEntry&)>& visit);

}  // namespace softhca
