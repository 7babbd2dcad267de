// SPDX-License-Identifier: BSD-3-Clause
// Files that tern-bench compare and report read: one is refused with a text, or its texts and the
// table have no control characters.
#include <algorithm>
#include <optional>

#include "bench/results/compare.h"
#include "bench/results/stored.h"
#include "fuzz.h"

namespace {

std::optional<bench::StoredResult> read(std::string_view text) {
    try {
        return bench::parse_result("file.json", std::string(text));
    } catch (const report::Failure&) {
        return {};
    }
}

void expect_harmless(const std::string& text) {
    tern::fuzz::require(
        std::ranges::none_of(
            text, [](unsigned char byte) { return (byte < ' ' && byte != '\n') || byte == 0x7f; }),
        "a terminal would obey");
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    // Two files are separated by a zero.
    const size_t end = std::min(text.find('\0'), text.size());
    const auto before = read(text.substr(0, end));
    const auto after = end < text.size() ? read(text.substr(end + 1)) : before;
    if (before)
        for (const bench::StoredFigure& figure : before->figures)
            expect_harmless(figure.test + figure.name + figure.unit + figure.x_text);
    if (before && after) {
        const bench::Comparison comparison = bench::compare(*before, *after);
        tern::fuzz::require(comparison.changed <= comparison.compared, "more changes than figures");
        expect_harmless(comparison.text);
    }
    return 0;
}
