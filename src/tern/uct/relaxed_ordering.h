// SPDX-License-Identifier: BSD-3-Clause
// Whether memory that is read only after a completion is registered with relaxed ordering.
#pragma once

#include "tern/uct/ucx_headers.h"
#include "tern/verbs/port.h"

namespace tern {

// Settings UCX_TERN_NAME of a memory domain in whose place UCX_IB_NAME counts if they are not set:
// UCX's own transports have them too.
struct SharedMemoryConfig {
    int relaxed_ordering;
};
extern ucs_config_field_t shared_memory_config_table[];

// `setting`: SharedMemoryConfig::relaxed_ordering. Warns if the device refuses what the user
// demands.
bool relaxes_order(int setting, const verbs::Device& device);

}  // namespace tern
