// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/base/settings.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "rwapi/base/log.h"

namespace rwapi {

bool read_setting(const char* name, uint64_t min, uint64_t max, uint64_t& value) {
    const char* given = std::getenv(name);
    if (given == nullptr) return true;
    const std::string_view text(given);
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < min || number > max) {
        log_error("%s=%s: choose a whole number from %llu to %llu", name, given,
                  static_cast<unsigned long long>(min), static_cast<unsigned long long>(max));
        return false;
    }
    value = number;
    return true;
}

}  // namespace rwapi
