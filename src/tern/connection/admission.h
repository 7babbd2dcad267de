// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "tern/connection/acceptor.h"
#include "tern/connection/connection_table.h"
#include "tern/connection/send_queue.h"

namespace tern {

class ConnectorOwner;

// Whether this side has room for one more connection: a row of the table, places in the
// completion queue, and a queue pair. Keeps rows for connections accepted in the background, whose
// peers are told beforehand. Control path.
class Admission {
  public:
    Admission(Acceptor& acceptor, const ConnectionTable& table, ConnectorOwner& owner,
              const SendQueues& queues)
        : acceptor_(acceptor), table_(table), owner_(owner), queues_(queues) {}

    // There is room for nobody any more.
    void close() {
        closed_ = true;
        update();
    }
    bool closed() const { return closed_; }
    bool table_is_full() const { return table_.room() <= Acceptor::kMost; }
    // Places of the next connection's send queue.
    uint32_t places_of_next() const { return queues_.places_of_next(table_.places()); }
    // Makes room in the completion queue for a connection whose send queue has `places`. False and
    // errno: impossible.
    bool reserve_completions(uint32_t places);
    // Lets the background thread accept connections, or not. To be called when the table changes.
    void update() {
        acceptor_.allow(!closed_ && !starved_ && !table_is_full(),
                        queues_.long_queues_left(table_.places()));
    }
    // The device has room for one more, or not: then the background thread accepts none.
    void set_starved(bool starved) {
        starved_ = starved;
        update();
    }
    // A connection waits for room. The first one is reported to the owner.
    void on_wait(const PeerAddress& peer, const std::string& why);

  private:
    Acceptor& acceptor_;
    const ConnectionTable& table_;
    ConnectorOwner& owner_;
    SendQueues queues_;
    bool closed_ = false;
    bool starved_ = false;  // of set_starved()
    bool reported_ = false;
};

}  // namespace tern
