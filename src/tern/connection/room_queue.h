// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/make_room.h"
#include "tern/base/shortage.h"
#include "tern/base/tunables.h"

namespace tern {

struct Connection;

// The connections that wait for room on this side's device, in their order. Only the first tries,
// and after a try in vain not at once again, however many wait. Pure: times are the caller's, in
// nanoseconds. Control path.
class RoomQueue {
  public:
    bool empty() const { return waiting_.empty(); }
    uint32_t size() const { return static_cast<uint32_t>(waiting_.size()); }
    // Null: none waits.
    Connection* first() const { return waiting_.empty() ? nullptr : waiting_.front(); }
    // To be called before a connection is made, so that add() does not allocate.
    void make_room(size_t connections) { base::make_room(waiting_, connections); }
    void add(Connection& connection) {
        if (!has(connection)) waiting_.push_back(&connection);
    }
    bool has(const Connection& connection) const {
        return std::find(waiting_.begin(), waiting_.end(), &connection) != waiting_.end();
    }
    void remove(const Connection& connection) { std::erase(waiting_, &connection); }

    // Whether the connection, or a new one (null), may try.
    bool may_try(const Connection* connection, uint64_t now) const {
        return waiting_.empty() || (waiting_.front() == connection && backoff_.over(now));
    }
    // When the first is to try.
    uint64_t next() const { return backoff_.next(); }
    // The device has no room.
    void failed(uint64_t now) { backoff_.refused(now); }
    // The device has made something, or something has gone.
    void freed() { backoff_.granted(); }

  private:
    std::vector<Connection*> waiting_;
    Backoff backoff_{kRoomRetry, 16};
};

}  // namespace tern
