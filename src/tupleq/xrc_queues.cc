// SPDX-License-Identifier: BSD-3-Clause
#include "tupleq/xrc_queues.h"

namespace tern {

bool XrcQueues::open(uint32_t index) {
    Queue& queue = queues_[index];
    if (queue.srq) return true;
    queue.srq = verbs::create_xrc_receives(pd_, domain_, cq_, depth_);
    if (queue.srq) queue.number = verbs::xrc_number(queue.srq.get());
    if (queue.number == 0) queue.srq.reset();
    return queue.srq != nullptr;
}

}  // namespace tern
