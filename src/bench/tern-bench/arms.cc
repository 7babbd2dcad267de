// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tern-bench/arms.h"

#include <cstdlib>
#include <string_view>

namespace bench {

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

Arm with(Arm arm, const std::string& name,
         const std::vector<std::pair<std::string, std::string>>& environment) {
    arm.name += name;
    arm.environment.insert(arm.environment.end(), environment.begin(), environment.end());
    return arm;
}

Arm in_private_memory(Arm arm) {
    return with(std::move(arm), ", private", {{"SOFTHCA_SHARED", "off"}});
}

Arm rendezvous(Arm arm) {
    return with(std::move(arm), " rndv", {{"UCX_RNDV_THRESH", "16384"}});
}

Arm uncached(Arm arm) {
    return with(std::move(arm), " direct", {{"UCX_IB_REG_METHODS", "direct"}});
}

}  // namespace bench
