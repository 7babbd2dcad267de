// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "rwapi/engine/connector.h"
#include "rwapi/engine/operations.h"
#include "rwapi/engine/posting.h"
#include "rwapi/engine/small_messages.h"

namespace rwapi {

// Posts the operations of each peer in order, through the stages of operation.h. If the peer is
// ready and no operation waits, an operation is posted in the call that begins it. Otherwise it
// waits in the peer's list for progress.
class Sequencer {
  public:
    Sequencer(Peers& peers, Connector& connector, Operations& operations, const Posting& posting,
              RemoteRegions& remotes, SmallMessages& small)
        : peers_(peers),
          connector_(connector),
          operations_(operations),
          posting_(posting),
          remotes_(remotes),
          small_(small) {}

    // Begins an operation. Returns its id, 0 if it is complete, or its error.
    rwapi_id start(Operation& operation);
    // Posts what waits. Returns whether operations are left, for which there is no room or no key.
    bool post_waiting(Peer& peer);

  private:
    enum class Step : uint8_t { kBlocked, kOver };

    Step advance(Operation& operation);
    ucs_status_t post_stage(Operation& operation);
    ucs_status_t post_data(Operation& operation);
    ucs_status_t post_data_stage(Operation& operation);
    ucs_status_t post_order_stage(Operation& operation);
    Step resolve(Operation& operation);
    Step resolve_pieces(Operation& operation);
    Step resolve(Operation& operation, Operation::Target& target, uint64_t length);
    Step leave(Operation& operation);
    Step fail(Operation& operation, ucs_status_t status);

    Peers& peers_;
    Connector& connector_;
    Operations& operations_;
    const Posting& posting_;
    RemoteRegions& remotes_;
    SmallMessages& small_;
};

}  // namespace rwapi
