// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <unordered_set>

#include "tern/connection/address.h"

namespace tern {

// Whether a port of Ethernet has a way to ports of other IPv4 subnets: routers may connect them, or
// the rails of a machine may be isolated. Addresses do not tell, so the device is asked, which asks
// the kernel. Control path. Without routers, by the user's word, other subnets are out of reach.
class Routes {
  public:
    // `to` is an address that the port's own address says nothing against. May wait for a router to
    // answer, for a second at most.
    bool reach(ibv_pd* pd, const verbs::Port& port, const PortAddress& to);

    // The number of leading bits that name the subnet of an address of this machine; 24 if it is
    // none, as that of another network namespace.
    static unsigned subnet_bits(uint32_t address);

  private:
    unsigned bits_ = 0;                     // 0: not looked up yet
    std::unordered_set<uint32_t> reached_;  // subnets
};

}  // namespace tern
