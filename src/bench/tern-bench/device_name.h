// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

namespace bench {

// A port as UCX names it, "device:port"; port 1 if none is named.
struct DeviceName {
    DeviceName() = default;
    explicit DeviceName(const std::string& text) : device(text.substr(0, text.find(':'))) {
        if (const size_t colon = text.find(':'); colon != std::string::npos) {
            port = static_cast<uint8_t>(std::atoi(text.c_str() + colon + 1));
        }
    }
    std::string text() const { return device + ":" + std::to_string(port); }

    std::string device;
    uint8_t port = 1;
};

}  // namespace bench
