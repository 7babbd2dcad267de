// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

#include "tern/verbs/port.h"

namespace tern::verbs {

namespace {

// Domain, bus, device and function; `0` in kShape stands for a hexadecimal digit.
bool is_pci_address(std::string_view name) {
    constexpr std::string_view kShape = "0000:00:00.0";
    return name.size() == kShape.size() &&
           std::equal(name.begin(), name.end(), kShape.begin(), [](char is, char shape) {
               return shape == '0' ? std::isxdigit(static_cast<unsigned char>(is)) != 0
                                   : is == shape;
           });
}

}  // namespace

std::string bus_address(const std::string& sysfs_path) {
    std::error_code error;
    const auto device =
        std::filesystem::canonical(std::filesystem::path(sysfs_path) / "device", error);
    if (error) return {};
    // The folder of a sub-function is in the folder of its PCI device.
    for (const auto& folder : {device, device.parent_path()})
        if (is_pci_address(folder.filename().native())) return folder.filename();
    return {};
}

}  // namespace tern::verbs
