// SPDX-License-Identifier: BSD-3-Clause
#include "tools/tern_bench/arms.h"

#include <cstdlib>
#include <string_view>

namespace tern::bench {

bool shared_memory_differs(const Setup& setup) {
    const char* value = std::getenv("SOFTHCA_SHARED");
    return setup.device.starts_with("softhca") &&
           (value == nullptr || std::string_view(value) != "off");
}

Arm raw_arm(const char* memory) {
    return {memory, Layer::kRaw, memory, false};
}

Arm large_arm(const char* protocol, const char* memory) {
    const std::string both = std::string(protocol) + " " + memory;
    return {both, Layer::kLarge, both, false};
}

Arm probe_arm(const char* memory) {
    return {"probe", Layer::kProbe, memory, false};
}

Arm uct_arm(const std::string& transport) {
    return {transport, Layer::kUct, transport, transport == "tern"};
}

Arm ucp_arm(const std::string& transport, const std::string& tls) {
    return {transport, Layer::kUcp, tls, transport == "tern"};
}

Arm in_private_memory(Arm arm) {
    arm.name += ", private";
    arm.environment.emplace_back("SOFTHCA_SHARED", "off");
    return arm;
}

Arm rendezvous(Arm arm) {
    arm.name += " rndv";
    arm.environment.emplace_back("UCX_RNDV_THRESH", "16384");
    return arm;
}

Arm uncached(Arm arm) {
    arm.name += " direct";
    arm.environment.emplace_back("UCX_IB_REG_METHODS", "direct");
    return arm;
}

}  // namespace tern::bench
