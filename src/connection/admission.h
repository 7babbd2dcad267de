// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "connection/acceptor.h"
#include "connection/connection_table.h"
#include "connection/send_queues.h"

namespace tern {

class ConnectorOwner;

// Whether this side has room for one more connection: a row of the table, and places in the
// completion queue. Keeps rows for connections accepted in the background, whose peers are told
// beforehand. Control path.
class Admission {
  public:
    Admission(Acceptor& acceptor, const ConnectionTable& table, ConnectorOwner& owner,
              const SendQueues& queues)
        : acceptor_(acceptor), table_(table), owner_(owner), queues_(queues) {}

    bool table_is_full() const { return table_.room() <= Acceptor::kMost; }
    // Places of the next connection's send queue. `busy`: a short one does not suffice.
    uint32_t places_of_next(bool busy) const {
        return queues_.places_of_next(table_.places(), busy);
    }
    // Makes room in the completion queue for a connection with so many places. False and errno:
    // impossible.
    bool reserve_completions(uint32_t places);
    // Lets the background thread accept connections, or not. To be called when the table changes.
    void update() {
        acceptor_.allow(!table_is_full() && !starved_, queues_.long_queues_left(table_.places()));
    }
    // A peer is refused for lack of room. The first one is reported to the owner.
    void on_refused(const PeerAddress& peer, const std::string& why);

  private:
    Acceptor& acceptor_;
    const ConnectionTable& table_;
    ConnectorOwner& owner_;
    SendQueues queues_;
    bool starved_ = false;  // the last reserve_completions() has failed
    bool reported_ = false;
};

}  // namespace tern
