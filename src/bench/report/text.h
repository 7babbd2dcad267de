// SPDX-License-Identifier: BSD-3-Clause
// Texts of numbers, text in columns, and the error of what cannot be measured or written.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace report {

// A measurement is impossible; the text gives the reason.
struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// The failure of a system or verbs call, with errno.
inline Failure call_failed(const std::string& what) {
    return Failure(what + ": " + std::strerror(errno));
}

// Numbers and short texts, as std::printf() formats them.
template <typename... Values>
std::string formatted(const char* format, Values... values) {
    char text[256];
    std::snprintf(text, sizeof text, format, values...);
    return text;
}

// A number with a sensible number of decimals. Empty for kNone.
std::string number_text(double value);
inline std::string percent_text(const char* format, double share) {
    return formatted(format, 100 * share);
}
// "8 B", "64 KiB", "1 MiB".
std::string size_text(uint32_t size);

// Text in aligned columns. The first line has the titles; a column with a title only is left out.
// `layout` gives the alignment of each column: 'l' or 'r'.
using Cells = std::vector<std::string>;
std::string in_columns(const std::vector<Cells>& lines, const std::string& layout);

}  // namespace report
