// SPDX-License-Identifier: BSD-3-Clause
// Small parsers for settings: numbers, times and comma lists. All reject trailing text and
// overflow.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace softhca {

/// A number in decimal, or in hexadecimal after 0x.
std::optional<uint64_t> parse_number(std::string_view text);
/// A number of bytes; suffix K, M or G counts in powers of 1024.
std::optional<uint64_t> parse_bytes(std::string_view text);
/// A decimal fraction, not negative, at most 1e12.
std::optional<double> parse_decimal(std::string_view text);
/// A time: decimal fraction with suffix ns, us, ms or s; us without one. In ns, rounded; at most
/// 1000 s.
std::optional<uint64_t> parse_time_ns(std::string_view text);

/// The shortest text that parse_time_ns() reads back as `ns`.
std::string time_text(uint64_t ns);
/// The shortest text that parse_decimal() reads back as `value`.
std::string decimal_text(double value);

/// Calls `visit(key, value)` for each entry of a comma list; the value is empty, and has_value
/// false, where there is no '='. Blanks around entries and empty entries are skipped. Stops at, and
/// returns, the first error text that `visit` returns.
struct ListEntry {
    std::string_view key;
    std::string_view value;
    bool has_value;
};
std::optional<std::string> for_each_entry(
    std::string_view list,
    const std::function<std::optional<std::string>(const ListEntry&)>& visit);

}  // namespace softhca
