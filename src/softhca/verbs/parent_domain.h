// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/wqe.h"
#include "verbs/objects.h"

namespace softhca {

/// Where queue pairs of a domain get the memory of their send queues from: the program's allocators
/// if it is a parent domain that has some. The domain must outlive them.
QueueAllocator queue_allocator(PdObject& pd);

}  // namespace softhca
