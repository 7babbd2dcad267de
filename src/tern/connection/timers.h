// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/assert.h"
#include "common/make_room.h"
#include "tern/base/tunables.h"
#include "tern/connection/connection_table.h"

namespace tern {

// When a connector needs a call of progress even if no packet comes, and whether it needs one soon,
// because a packet is expected or a connection is over. Pure: times are the caller's, in
// nanoseconds.
class Alarm {
  public:
    // Progress is needed at `time`, or before.
    void set(uint64_t time) {
        deadline_ = std::min(deadline_, time);
        decide();
    }
    // Progress for a handshake or a probe, whose packets are expected soon, is needed at `time`.
    void wake_at(uint64_t time) {
        expect_packets();
        set(time);
    }
    // Packets are expected in the next calls of progress.
    void expect_packets() {
        expecting_ = kExpectingCalls;
        decide();
    }
    // Whether there are connections that are over.
    void set_ended(bool any) {
        ended_ = any;
        decide();
    }
    // What the alarm was set for has happened: deadline() may be too early, until clear().
    void happened() { stale_ = true; }
    bool stale() const { return stale_; }
    // All deadlines are found anew.
    void clear() {
        deadline_ = UINT64_MAX;
        stale_ = false;
        decide();
    }
    // A call of progress begins.
    void on_progress() {
        if (expecting_ != 0) --expecting_;
        decide();
    }

    // UINT64_MAX: there is none.
    uint64_t deadline() const { return deadline_; }
    // Whether progress is needed soon. Data path: whoever changes what this depends on decides it.
    bool urgent() const { return urgent_; }

  private:
    void decide() { urgent_ = ended_ || (expecting_ != 0 && deadline_ != UINT64_MAX); }

    uint64_t deadline_ = UINT64_MAX;
    bool stale_ = false;
    uint32_t expecting_ = 0;  // calls of progress that are left of kExpectingCalls
    bool ended_ = false;      // of set_ended()
    bool urgent_ = false;
};

// When each connection is to be looked at: a heap, so that no call goes through all connections.
// One time counts for each connection, Connection::due; entries with another time are left over,
// and are dropped when they come to the top. Pure: times are the caller's, in nanoseconds.
class Timers {
  public:
    Timers(const ConnectionTable& table, Alarm& alarm) : table_(table), alarm_(alarm) {}

    // To be called before a connection is added to the table, so that set() does not allocate.
    void make_room() { base::make_room(heap_, 2 * (size_t{table_.size()} + 1)); }

    // The connection is to be looked at when `time` comes, or before; UINT64_MAX: it need not be.
    // Wakes the alarm.
    void set(Connection& connection, uint64_t time) {
        if (time == UINT64_MAX) return cancel(connection);
        alarm_.wake_at(time);
        if (time >= connection.due) return;
        if (heap_.size() == heap_.capacity()) drop_left_over();
        connection.due = time;
        heap_.push_back({time, connection.tag});
        std::push_heap(heap_.begin(), heap_.end(), later);
    }
    static void cancel(Connection& connection) { connection.due = UINT64_MAX; }

    // The earliest time; UINT64_MAX: there is none.
    uint64_t next() {
        while (!heap_.empty() && find(heap_.front()) == nullptr) pop();
        return heap_.empty() ? UINT64_MAX : heap_.front().time;
    }
    // A connection whose time has come, which is cancelled. Null: there is none.
    Connection* take(uint64_t now) {
        if (next() > now || heap_.empty()) return nullptr;
        Connection* const connection = find(heap_.front());
        pop();
        cancel(*connection);
        return connection;
    }
    // Entries, those left over too.
    size_t size() const { return heap_.size(); }

  private:
    struct Entry {
        uint64_t time;
        uint64_t tag;  // of the connection
    };

    static bool later(const Entry& a, const Entry& b) { return a.time > b.time; }
    // Null: the entry is left over.
    Connection* find(const Entry& entry) const {
        Connection* const connection = table_.find_send(entry.tag);
        return connection != nullptr && connection->due == entry.time ? connection : nullptr;
    }
    void pop() {
        std::pop_heap(heap_.begin(), heap_.end(), later);
        heap_.pop_back();
    }
    // Leaves an entry for each connection at most, so the heap is at most half full.
    void drop_left_over() {
        std::erase_if(heap_, [&](const Entry& entry) { return find(entry) == nullptr; });
        std::make_heap(heap_.begin(), heap_.end(), later);
    }

    const ConnectionTable& table_;
    Alarm& alarm_;
    std::vector<Entry> heap_;
};

}  // namespace tern
