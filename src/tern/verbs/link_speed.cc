// SPDX-License-Identifier: BSD-3-Clause
#include "tern/verbs/link_speed.h"

namespace tern::verbs {

namespace {

struct Lane {
    uint32_t code;
    double gbits;  // per second, net of the encoding
};

// Ascending in both members.
constexpr Lane kLanes[] = {
    {1, 2.5 * 8 / 10},         // SDR
    {2, 5. * 8 / 10},          // DDR
    {4, 10. * 8 / 10},         // QDR
    {8, 10.3125 * 64 / 66},    // FDR10
    {16, 14.0625 * 64 / 66},   // FDR
    {32, 25.78125 * 64 / 66},  // EDR
    {64, 50},                  // HDR; from here on net of forward error correction
    {128, 100},                // NDR
    {256, 200},                // XDR
};
constexpr uint32_t kEdr = 32;

struct Width {
    uint32_t code;
    int lanes;
};
constexpr Width kWidths[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};

}  // namespace

LinkSpeed link_speed(uint32_t speed, uint32_t width) {
    const uint32_t assumed = speed != 0 ? speed : kEdr;
    LinkSpeed result{.known = false};
    double gbits = 0;
    for (const Lane& lane : kLanes) {
        if (lane.code > assumed) break;
        gbits = lane.gbits;
        result.known = lane.code == speed;
    }
    int lanes = 0;
    for (const Width& known : kWidths)
        if (known.code == width) lanes = known.lanes;
    if (lanes == 0) {
        lanes = 1;
        result.known = false;
    }
    result.bandwidth = gbits * lanes * 1e9 / 8;
    return result;
}

}  // namespace tern::verbs
