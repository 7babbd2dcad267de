// SPDX-License-Identifier: BSD-3-Clause
#include "bench/softhca-bench/row.h"

#include <algorithm>

namespace softhca::bench {

void set_text(char* field, size_t size, std::string_view text) {
    const size_t length = std::min(text.size(), size - 1);
    std::copy_n(text.data(), length, field);
    field[length] = '\0';
}

Row make_row(std::string_view label, std::string_view unit, const Samples& samples) {
    Row row;
    set_text(row.label, sizeof row.label, label);
    set_text(row.unit, sizeof row.unit, unit);
    row.value = summarize(samples);
    return row;
}

}  // namespace softhca::bench
