// SPDX-License-Identifier: BSD-3-Clause
#include "text.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <system_error>

namespace softhca {
namespace {

constexpr double kMaxDecimal = 1e12;
constexpr double kMaxTimeNs = 1e12;

struct Unit {
    std::string_view suffix;
    double ns;
};

constexpr Unit kTimeUnits[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};

bool is_letter(char c) {
    return std::isalpha(static_cast<unsigned char>(c)) != 0;
}

template <typename Number, typename... Format>
std::optional<Number> parse_all(std::string_view text, Format... format) {
    Number value{};
    const char* end = text.data() + text.size();
    const auto result = std::from_chars(text.data(), end, value, format...);
    if (text.empty() || result.ec != std::errc{} || result.ptr != end) return std::nullopt;
    return value;
}

}  // namespace

std::optional<uint64_t> parse_number(std::string_view text) {
    if (text.starts_with("0x") || text.starts_with("0X"))
        return parse_all<uint64_t>(text.substr(2), 16);
    return parse_all<uint64_t>(text, 10);
}

std::optional<int32_t> parse_signed(std::string_view text) {
    return parse_all<int32_t>(text);
}

std::optional<uint64_t> parse_bytes(std::string_view text) {
    constexpr std::string_view kSuffixes = "KMG";
    const size_t suffix = text.empty() ? std::string_view::npos : kSuffixes.find(text.back());
    const size_t shift = suffix == std::string_view::npos ? 0 : 10 * (suffix + 1);
    if (shift != 0) text.remove_suffix(1);
    const auto value = parse_number(text);
    if (!value || *value > UINT64_MAX >> shift) return std::nullopt;
    return *value << shift;
}

std::optional<double> parse_decimal(std::string_view text) {
    const auto value = parse_all<double>(text);
    if (!value || !std::isfinite(*value) || std::signbit(*value) || *value > kMaxDecimal)
        return std::nullopt;
    return value;
}

std::optional<uint64_t> parse_time_ns(std::string_view text) {
    size_t digits = text.size();
    while (digits > 0 && is_letter(text[digits - 1])) --digits;
    const auto value = parse_decimal(text.substr(0, digits));
    const std::string_view suffix = digits == text.size() ? "us" : text.substr(digits);
    for (const Unit& unit : kTimeUnits) {
        if (!value || suffix != unit.suffix) continue;
        const double ns = *value * unit.ns;
        if (ns > kMaxTimeNs) return std::nullopt;
        return static_cast<uint64_t>(std::llround(ns));
    }
    return std::nullopt;
}

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view kBlanks = " \t\r";
    const auto begin = text.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::string time_text(uint64_t ns) {
    const Unit* best = &kTimeUnits[0];
    for (const Unit& unit : kTimeUnits)
        if (static_cast<double>(ns) >= unit.ns) best = &unit;
    return decimal_text(static_cast<double>(ns) / best->ns).append(best->suffix);
}

std::string decimal_text(double value) {
    char buffer[32];
    const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
    return {buffer, result.ptr};
}

ListEntry entry_of(std::string_view text) {
    const size_t equals = text.find('=');
    const bool has_value = equals != std::string_view::npos;
    return {trimmed(text.substr(0, equals)), has_value ? trimmed(text.substr(equals + 1)) : "",
            has_value};
}

std::optional<std::string> for_each_entry(
    std::string_view list,
    const std::function<std::optional<std::string>(const ListEntry&)>& visit) {
    while (!list.empty()) {
        const size_t comma = list.find(',');
        const std::string_view entry = trimmed(list.substr(0, comma));
        list = comma == std::string_view::npos ? std::string_view{} : list.substr(comma + 1);
        if (entry.empty()) continue;
        if (auto error = visit(entry_of(entry))) return error;
    }
    return std::nullopt;
}

}  // namespace softhca
