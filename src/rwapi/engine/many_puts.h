// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>

#include "rwapi/engine/notifications.h"
#include "rwapi/engine/pieces.h"
#include "rwapi/engine/sequencer.h"

namespace rwapi {

// The notification of a put of many pieces.
struct Notify {
    NotificationKind kind = NotificationKind::kNone;
    uint64_t place = 0;
    uint64_t value = 0;
};

// Begins puts of many pieces to one node. All of a put is checked before anything is sent.
// Functions return an id, 0 for what is complete, or an error. has_id: the user gets the id.
class ManyPuts {
  public:
    // The objects of the engine that such a put uses.
    struct Parts {
        const Self& self;
        SleepingThread& sleeper;
        Peers& peers;
        Connector& connector;
        Regions& regions;
        RemoteRegions& remotes;
        Notifications& notifications;
        const Posting& posting;
        Operations& operations;
        Sequencer& sequencer;
    };
    explicit ManyPuts(const Parts& parts)
        : self_(parts.self),
          sleeper_(parts.sleeper),
          peers_(parts.peers),
          connector_(parts.connector),
          regions_(parts.regions),
          remotes_(parts.remotes),
          notifications_(parts.notifications),
          posting_(parts.posting),
          operations_(parts.operations),
          sequencer_(parts.sequencer) {}

    // At least one element.
    rwapi_id put_list(std::span<const rwapi_element> elements, const Notify& notify, bool has_id);
    // `first` is the first of the blocks. Their extents do not overflow.
    rwapi_id put_blocks(const rwapi_net& net, const Transfer& first, const rwapi_blocks& blocks,
                        const Notify& notify, bool has_id);

  private:
    class Pieces;

    int check(const rwapi_net& net, Piece& piece, const Notify& notify);
    rwapi_id begin(Pieces& pieces, const Notify& notify, bool has_id);
    int prepare(Piece& piece);
    void copy_locally(const Piece& piece);

    const Self self_;
    SleepingThread& sleeper_;
    Peers& peers_;
    Connector& connector_;
    Regions& regions_;
    RemoteRegions& remotes_;
    Notifications& notifications_;
    const Posting& posting_;
    Operations& operations_;
    Sequencer& sequencer_;
};

}  // namespace rwapi
