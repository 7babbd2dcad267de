// SPDX-License-Identifier: BSD-3-Clause
#include "tern/connection/connection_table.h"

#include <algorithm>
#include <utility>

#include "common/make_room.h"

namespace tern {

Connection& ConnectionTable::add(std::unique_ptr<Connection> connection, verbs::QueuePair qp) {
    const uint32_t index = next_index();
    TERN_ASSERT(connection->index == index);
    // What allocates comes first: an exception leaves the table as it was.
    if ((size() + 1) * 2 > by_qp_num_.size()) reindex(by_qp_num_.size() * 2);
    if (free_.empty()) {
        base::make_room(free_, rows_.size() + 1);
        rows_.emplace_back();
    } else {
        free_.pop_back();
    }
    rows_[index] = std::move(connection);
    Connection& added = *rows_[index];
    added.tag = work_request_id::connection_tag(index, ++generation_);
    added.qp = std::move(qp);
    if (added.qp) this->index(added);
    most_ = std::max(most_, ++live_);
    places_ += added.sends.depth();
    return added;
}

void ConnectionTable::give(Connection& connection, verbs::QueuePair qp, uint32_t places) {
    connection.qp = std::move(qp);
    places_ += places;
    index(connection);
}

verbs::QueuePair ConnectionTable::take(Connection& connection) {
    unindex(connection);
    return std::move(connection.qp);
}

void ConnectionTable::destroy(Connection& connection) {
    const uint32_t index = connection.index;
    TERN_ASSERT(rows_[index].get() == &connection);
    free_.push_back(index);
    places_ -= connection.sends.depth();
    rows_[index].reset();
}

void ConnectionTable::index(Connection& connection) {
    const size_t mask = by_qp_num_.size() - 1;
    size_t at = connection.qp->qp_num & mask;
    while (by_qp_num_[at].connection != nullptr) at = (at + 1) & mask;
    by_qp_num_[at] = {connection.qp->qp_num, &connection};
}

// Moves each later entry of the run into the gap unless the gap precedes the entry's first place.
void ConnectionTable::unindex(const Connection& connection) {
    if (!connection.qp) return;
    const size_t mask = by_qp_num_.size() - 1;
    size_t gap = connection.qp->qp_num & mask;
    while (by_qp_num_[gap].connection != &connection) {
        TERN_ASSERT(by_qp_num_[gap].connection != nullptr);
        gap = (gap + 1) & mask;
    }
    for (size_t at = (gap + 1) & mask; by_qp_num_[at].connection != nullptr; at = (at + 1) & mask) {
        const size_t first = by_qp_num_[at].qp_num & mask;
        if (((at - first) & mask) < ((at - gap) & mask)) continue;
        by_qp_num_[gap] = by_qp_num_[at];
        gap = at;
    }
    by_qp_num_[gap] = {};
}

void ConnectionTable::reindex(size_t size) {
    by_qp_num_.assign(size, {});
    const size_t mask = size - 1;
    for (const auto& connection : rows_) {
        if (!connection || !connection->qp) continue;
        size_t at = connection->qp->qp_num & mask;
        while (by_qp_num_[at].connection != nullptr) at = (at + 1) & mask;
        by_qp_num_[at] = {connection->qp->qp_num, connection.get()};
    }
}

Connection* ConnectionTable::find_further(uint32_t qp_num) const {
    const size_t mask = by_qp_num_.size() - 1;
    for (size_t at = qp_num & mask; by_qp_num_[at].connection != nullptr; at = (at + 1) & mask)
        if (by_qp_num_[at].qp_num == qp_num) return by_qp_num_[at].connection;
    return nullptr;
}

}  // namespace tern
