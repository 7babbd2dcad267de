// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/assert.h"
#include "tern/connection/connection.h"
#include "tern/connection/cookie.h"

namespace tern {

// All connections of an interface, found by the number of their queue pair and by the id of a work
// request. Control path, except find() and find_send().
class ConnectionTable {
  public:
    ConnectionTable() : by_qp_num_(16) {}

    // The connection with this queue pair number; null if there is none. Data path.
    Connection* find(uint32_t qp_num) const {
        const Slot& slot = by_qp_num_[qp_num & (by_qp_num_.size() - 1)];
        if (slot.qp_num == qp_num) return slot.connection;
        return slot.connection == nullptr ? nullptr : find_further(qp_num);
    }
    // The connection of a send completion; null if it is destroyed. Data path.
    Connection* find_send(uint64_t id) const {
        const uint32_t index = work_request_id::index(id);
        Connection* connection = index < rows_.size() ? rows_[index].get() : nullptr;
        return connection != nullptr && connection->tag == work_request_id::tag(id) ? connection
                                                                                    : nullptr;
    }

    // The index of the next connection that is added.
    uint32_t next_index() const {
        return free_.empty() ? static_cast<uint32_t>(rows_.size()) : free_.back();
    }
    // Adds a connection that has been made with next_index(), and gives it a tag and its queue
    // pair.
    Connection& add(std::unique_ptr<Connection> connection, verbs::QueuePair qp);
    // Gives a queue pair to a connection that has none, and counts `places` more of send queues; or
    // takes the queue pair away.
    void give(Connection& connection, verbs::QueuePair qp, uint32_t places);
    verbs::QueuePair take(Connection& connection);
    // The connection is over: it stays until destroy(), and still counts in size().
    void end() {
        TERN_ASSERT(live_ != 0);
        --live_;
    }
    // The connection, which is over, is no longer found by its queue pair. Call this before the
    // queue pair goes.
    void unindex(const Connection& connection);
    // Destroys a connection that is over and not found any more.
    void destroy(Connection& connection);

    // Connections that are not over, now and at most so far.
    uint32_t live() const { return live_; }
    uint32_t most() const { return most_; }
    uint32_t size() const { return static_cast<uint32_t>(rows_.size() - free_.size()); }
    // Places in the send queues of all of them.
    uint32_t places() const { return places_; }
    // Connections that may still be added.
    uint32_t room() const { return work_request_id::kMaxConnections - size(); }

    // The end of a connection may add rows, so loops go by index. Null: a free row.
    size_t rows() const { return rows_.size(); }
    Connection* row(size_t i) const { return rows_[i].get(); }
    template <class Visit>
    void for_each(Visit&& visit) const {
        for (const auto& connection : rows_)
            if (connection) visit(*connection);
    }

  private:
    struct Slot {
        uint32_t qp_num = 0;
        Connection* connection = nullptr;
    };

    void index(Connection& connection);
    void reindex(size_t size);
    Connection* find_further(uint32_t qp_num) const;

    std::vector<std::unique_ptr<Connection>> rows_;
    std::vector<uint32_t> free_;   // rows
    std::vector<Slot> by_qp_num_;  // power of two in size, linear probing, never full
    uint32_t generation_ = 0;
    uint32_t live_ = 0;
    uint32_t most_ = 0;
    uint32_t places_ = 0;
};

}  // namespace tern
