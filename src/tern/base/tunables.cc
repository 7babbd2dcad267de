// SPDX-License-Identifier: BSD-3-Clause
#include "tern/base/tunables.h"

#include <cstdlib>
#include <variant>

#include "tern/base/named_values.h"

namespace tern {

namespace {

constexpr struct {
    std::string_view name;
    std::variant<uint32_t Tunables::*, double Tunables::*> member;
    double least, most;
} kNames[] = {
    {"tx_min_inline", &Tunables::tx_min_inline, 0, 1024},
    {"hot_window", &Tunables::hot_window, 1, UINT32_MAX},
    {"hot_keep", &Tunables::hot_keep, 0, UINT32_MAX},
    {"block_min", &Tunables::block_min, 512, 262144},
    {"batch_poll", &Tunables::batch_poll, 0, 1},
    {"batch_after", &Tunables::batch_after, 0, 64},
    {"put_repeat", &Tunables::put_repeat, 0, 1},
    {"pin_quarantine", &Tunables::pin_quarantine, 0, 1000000},
    {"connect_retry", &Tunables::connect_retry, 1, UINT32_MAX},
    {"rndv_windows", &Tunables::rndv_windows, 1, 65536},
    {"rndv_buffers", &Tunables::rndv_buffers, 1, 64},
    {"rndv_chunk_first", &Tunables::rndv_chunk_first, 1, 1073741824},
    {"rndv_chunk_growth", &Tunables::rndv_chunk_growth, 1, 1000},
    {"rndv_pin_overlap", &Tunables::rndv_pin_overlap, 0, 1},
    {"tm_list_size", &Tunables::tm_list_size, 1, 1048576},
    {"tm_depth", &Tunables::tm_depth, 1, 1024},
    {"tm_tuple_after", &Tunables::tm_tuple_after, 1, UINT32_MAX},
};

}  // namespace

bool read_tunables(Tunables& tunables, std::string& why) {
    const char* const list = ::getenv("TERN_TUNABLES");
    if (list == nullptr) return true;
    const std::string_view wrong =
        base::read_named_values(list, [&](std::string_view name, const std::string& text) {
            char* end = nullptr;
            const double value = std::strtod(text.c_str(), &end);
            if (end == text.c_str() || *end != '\0') return false;
            for (const auto& known : kNames) {
                if (known.name != name || !(value >= known.least && value <= known.most)) continue;
                std::visit(
                    [&]<class T>(T Tunables::*member) { tunables.*member = static_cast<T>(value); },
                    known.member);
                return true;
            }
            return false;
        });
    if (!wrong.empty()) why = "TERN_TUNABLES has " + std::string(wrong);
    return wrong.empty();
}

}  // namespace tern
