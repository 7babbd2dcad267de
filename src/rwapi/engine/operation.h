// SPDX-License-Identifier: BSD-3-Clause
// An operation: a put, get, atomic operation, small message, flush or fence that could not be
// posted in its call, or whose completion comes later.
//
// | stage     | meaning                                 | leaves it by                | for    |
// |-----------|-----------------------------------------|-----------------------------|--------|
// | kData     | data are not posted, or not all of them | Sequencer: the last is      | kOrder,|
// |           |                                         | posted                      | kPosted|
// | kOrder    | data are posted; a fence or flush must  | Sequencer: fence posted     | kNotify|
// |           | follow before the notification          | Sequencer: flush posted     | kFlush |
// | kFlush    | that flush is under way                 | its completion              | kNotify|
// | kNotify   | the notification is to be sent          | Sequencer: it is posted     | kPosted|
// | kPosted   | UCT has all of it                       | its completion: the end     |        |
//
// An operation without notification (a fence, for example) goes from kOrder or kFlush to kPosted.
// Until kPosted, an operation is in its peer's list `waiting`; afterwards in `under_way`, if a
// completion is to come, or it has ended. An error ends the operation in every stage.
#pragma once

#include <uct/api/uct.h>

#include <cstddef>
#include <cstdint>

#include "common/assert.h"
#include "rwapi/core/messages.h"
#include "rwapi/include/rwapi.h"

namespace rwapi {

class Operations;
struct OwnRegion;
struct Peer;
struct Piece;
struct RemoteRegion;

enum class Task : uint8_t {
    kPut,
    kGet,
    kFetchAdd,
    kCompareSwap,
    kSmall,
    kFlush,
    kFence,
    kFlushAll
};

// An atomic operation. Its local memory is that of the result, and its notification has what it
// compares with (place) and what it adds or stores (value).
constexpr bool is_atomic(Task task) {
    return task == Task::kFetchAdd || task == Task::kCompareSwap;
}

enum class Stage : uint8_t { kData, kOrder, kFlush, kNotify, kPosted };

struct Operation {
    struct Target {
        RemoteRegion* region;  // null: the region `name`, whose key has not been received
        uint64_t name;
        uint64_t offset;
    };
    struct Local {
        std::byte* memory;
        size_t length;
        size_t posted;        // of the length
        OwnRegion* region;    // null: the user has not registered the memory
        uct_mem_h temporary;  // registration for this operation
    };

    struct Whole {
        Operation* parent;  // the kFlushAll of which this is a part
        uint32_t parts;     // of a kFlushAll: those that have not ended, and 1 while more may begin
    };
    struct Pieces {      // of many; see pieces.h
        Piece* first;    // null: it has no others
        Piece* current;  // that of `target` and `local`
    };

    uct_completion_t completion;  // first: UCT passes its address
    Operations* owner;
    Peer* peer;
    Operation* next;  // in one of the peer's lists
    Operation* previous;
    Whole whole;
    Target target;
    Local local;
    Pieces pieces;
    Notification notification;
    rwapi_small small;
    int status;  // RWAPI_OK or the first error
    Task task;
    Stage stage;
    NotificationKind kind;
    bool outstanding;  // UCT will call `completion`
    bool in_call;      // in the call that began it, which returns its error
    bool has_id;       // the user has its id
    bool abandoned;    // has ended with its peer, before UCT has called `completion`

    // Whether a message or word follows what it orders.
    bool is_notified() const { return kind != NotificationKind::kNone || task == Task::kSmall; }
};

// A list of operations. An operation is in one list at most.
class OperationList {
  public:
    Operation* first() const { return first_; }
    bool empty() const { return first_ == nullptr; }
    void append(Operation* operation) {
        TERN_ASSERT(operation->next == nullptr && operation->previous == nullptr);
        operation->previous = last_;
        (last_ != nullptr ? last_->next : first_) = operation;
        last_ = operation;
    }
    void remove(Operation* operation) {
        TERN_ASSERT(operation->previous != nullptr || operation == first_);
        TERN_ASSERT(operation->next != nullptr || operation == last_);
        (operation->previous != nullptr ? operation->previous->next : first_) = operation->next;
        (operation->next != nullptr ? operation->next->previous : last_) = operation->previous;
        operation->next = operation->previous = nullptr;
    }

  private:
    Operation* first_ = nullptr;
    Operation* last_ = nullptr;
};

}  // namespace rwapi
