// SPDX-License-Identifier: BSD-3-Clause
#include "tern/engine/fast_path.h"

#include "tern/engine/poller.h"
#include "tern/engine/resources.h"

namespace tern {

FastPath::FastPath(const EngineParts& parts)
    : max_inline_(parts.resources.max_inline),
      pool_(parts.resources.pool),
      requests_(parts.requests),
      blocks_(parts.peer_blocks),
      early_(parts.early),
      room_(parts.room),
      batches_(parts.poller.batches()) {
    cold_.request.opcode = IBV_WR_SEND;
    cold_.piece.addr = address_of(cold_.frame);
}

}  // namespace tern
