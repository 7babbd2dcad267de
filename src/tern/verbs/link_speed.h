// SPDX-License-Identifier: BSD-3-Clause
// Decodes the speed and width of a link. Pure.
#pragma once

#include <cstdint>

namespace tern::verbs {

struct LinkSpeed {
    double bandwidth = 0;  // bytes per second, net of the link's encoding
    bool known = true;     // false: a code is unknown, and `bandwidth` is a guess
};

// The code of a port's speed, as in ibv_port_attr::active_speed. Codes that do not fit into its 8
// bits (XDR is 256) are in active_speed_ex, which rdma-core has from version 57 on, and which is 0
// for all other speeds.
template <typename Attributes>
uint32_t speed_code(const Attributes& attributes) {
    if constexpr (requires { attributes.active_speed_ex; })
        if (attributes.active_speed_ex != 0) return attributes.active_speed_ex;
    return attributes.active_speed;
}

// `speed`: of a lane, from speed_code(); `width`: from ibv_port_attr::active_width. An unknown
// speed counts as the fastest known one below it, a speed of 0 as EDR, an unknown width as one
// lane.
LinkSpeed link_speed(uint32_t speed, uint32_t width);

}  // namespace tern::verbs
