// SPDX-License-Identifier: BSD-3-Clause
// Limits of the device that are the same for every personality.
#pragma once

#include "softhca/core/handles.h"
#include "softhca/fabric/layout.h"
#include "softhca/fabric/process_memory.h"

namespace softhca::limits {

constexpr uint32_t kObjects = kMaxObjects - 1;
constexpr uint32_t kKeys = kMaxKeys - 1;
constexpr uint32_t kDeviceMemory = 256 << 10;       // bytes of each device, for each process
constexpr uint32_t kDeviceMemoryUnit = 4;           // divides offsets and lengths
constexpr uint32_t kAttachments = kMaxAttachments;  // to multicast groups, of each process
constexpr uint32_t kCompletionVectors = 2;   // which all come at once, whatever the processor
constexpr uint32_t kDomains = kMaxKeys - 1;  // protection domains of each device, for each process
constexpr uint32_t kAddressHandles = 1u << 20;  // likewise

}  // namespace softhca::limits
