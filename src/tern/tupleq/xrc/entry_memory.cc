// SPDX-License-Identifier: BSD-3-Clause
#include "tern/tupleq/xrc/entry_memory.h"

#include "common/assert.h"
#include "tern/base/tunables.h"

namespace tern {

EntryMemory::EntryMemory(PinCache& pins, Regions& regions, XrcQueues& queues, uint32_t tuples,
                         uint32_t depth)
    : pins_(pins),
      regions_(regions),
      queues_(queues),
      depth_(depth),
      entries_(size_t{tuples} * depth) {}

EntryMemory::~EntryMemory() {
    for (Memory& each : entries_) release(each);
}

// Null: the memory cannot be registered, or not now. Many long receives may be posted before one
// call of progress.
Pin* EntryMemory::pin(const TupleReceive& receive) {
    Pin* const pinned = pins_.find(receive.buffer, receive.room, kLocalWrite);
    if (pinned != nullptr) return pinned;
    any_waits_ = registered_now_ != 0 && registered_now_ + receive.room > kRenewedAtOnce;
    if (any_waits_) return nullptr;
    registered_now_ += receive.room;
    return pins_.pin(receive.buffer, receive.room, kLocalWrite);
}

bool EntryMemory::prepare(const TupleReceive& receive) {
    Memory memory;
    if (receive.room != 0) {
        memory.pin = pin(receive);
        if (any_waits_) return false;
        if (memory.pin != nullptr && receive.region.generation != 0) {
            memory.use = regions_.find(receive.region);
            if (memory.use == nullptr) release(memory);
        }
        if (memory.pin == nullptr) {
            ++unpinned_;
            return false;
        }
        memory.piece = {.addr = to_word(receive.buffer),
                        .length = static_cast<uint32_t>(receive.room),
                        .lkey = memory.pin->lkey()};
    }
    prepared_.push_back(memory);
    return true;
}

void EntryMemory::place(const TupleAction& action) {
    TERN_ASSERT(next_prepared_ < prepared_.size());
    Memory& memory = entry(action.tuple, action.place);
    TERN_ASSERT(memory.pin == nullptr && memory.use == nullptr);
    memory = prepared_[next_prepared_++];
    if (next_prepared_ == prepared_.size()) {
        prepared_.clear();
        next_prepared_ = 0;
    }
    lend(action.tuple, action.place, true);
}

// `writes`: a message may come for the entry.
void EntryMemory::lend(uint16_t number, uint32_t place, bool writes) {
    RegionUse* const use = entry(number, place).use;
    if (use == nullptr) return;
    Stoppable& queue = queues_.stopper(number);
    if (!use->enter()) [[unlikely]] {
        if (writes) queue.stop();
        return;
    }
    use->lend(queue, writes);
    use->leave();
}

void EntryMemory::lend_void(uint16_t number, const TupleReceiver& queue) {
    for (uint32_t i = 0; i < queue.void_entries(); ++i)
        lend(number, queue.place(queue.live() + i), false);
}

void EntryMemory::free_all(uint16_t queue) {
    for (uint32_t place = 0; place < depth_; ++place) free(queue, place);
}

void EntryMemory::release(Memory& memory) {
    if (memory.pin != nullptr) pins_.release(memory.pin);
    if (memory.use != nullptr) regions_.release(memory.use);
    memory = {};
}

}  // namespace tern
