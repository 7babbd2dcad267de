// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "connection/acceptor.h"
#include "connection/connection_table.h"

namespace tern {

class ConnectorOwner;

// Whether this side has room for one more connection: a row of the table, and places in the
// completion queue. Keeps rows for connections accepted in the background, whose peers are told
// beforehand. Control path.
class Admission {
  public:
    // `sends`: places of a connection's send queue.
    Admission(Acceptor& acceptor, const ConnectionTable& table, ConnectorOwner& owner,
              uint32_t sends)
        : acceptor_(acceptor), table_(table), owner_(owner), sends_(sends) {}

    bool table_is_full() const { return table_.room() <= Acceptor::kMost; }
    // Makes room in the completion queue. False and errno: impossible.
    bool reserve_completions();
    // Lets the background thread accept connections, or not. To be called when the table changes.
    void update() { acceptor_.allow(!table_is_full() && !starved_); }
    // A peer is refused for lack of room. The first one is reported to the owner.
    void on_refused(const PeerAddress& peer, const std::string& why);

  private:
    Acceptor& acceptor_;
    const ConnectionTable& table_;
    ConnectorOwner& owner_;
    uint32_t sends_;
    bool starved_ = false;  // the last reserve_completions() has failed
    bool reported_ = false;
};

}  // namespace tern
