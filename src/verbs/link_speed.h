// SPDX-License-Identifier: BSD-3-Clause
// What the numbers for speed and width of a link stand for. Pure.
#pragma once

#include <cstdint>

namespace tern::verbs {

struct LinkSpeed {
    double bandwidth = 0;  // bytes per second, less the encoding of the link
    bool known = true;     // false: the numbers are none that were known; `bandwidth` is a guess
};

// The speed of a port in the coding of ibv_port_attr::active_speed. Those that do not fit into its
// 8 bits (XDR is 256) stand in active_speed_ex, which rdma-core has from version 57 on; it is 0
// where active_speed says it all.
template <typename Attributes>
uint32_t speed_code(const Attributes& attributes) {
    if constexpr (requires { attributes.active_speed_ex; })
        if (attributes.active_speed_ex != 0) return attributes.active_speed_ex;
    return attributes.active_speed;
}

// `speed`: of a lane, as speed_code has it; `width`: as in ibv_port_attr::active_width. A speed
// that is not known is taken for the fastest of the known ones below it, and none at all for EDR.
LinkSpeed link_speed(uint32_t speed, uint32_t width);

}  // namespace tern::verbs
