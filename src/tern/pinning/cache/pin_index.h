// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <new>

#include "tern/pinning/cache/pin.h"

namespace tern {

// Pins by address. No pin covers the range of another, so their ends ascend as their starts do: of
// the pins that begin at or before an address, the last reaches farthest.
class PinIndex {
  public:
    Pin* find(uint64_t start, uint64_t end, unsigned access) const {
        const auto after = pins_.upper_bound(start);
        if (after == pins_.begin()) return nullptr;
        Pin* pin = std::prev(after)->second;
        return pin->covers(start, end, access) ? pin : nullptr;
    }

    // Calls `visit` for every pin that overlaps the range; `visit` may remove that pin.
    template <class Visit>
    void overlapping(uint64_t start, uint64_t end, Visit&& visit) {
        auto at = pins_.lower_bound(end);
        while (at != pins_.begin()) {
            const auto before = std::prev(at);
            Pin* pin = before->second;
            if (!pin->overlaps(start, end)) return;
            const bool first = before == pins_.begin();
            const uint64_t key = before->first;
            visit(pin);
            if (first) return;
            at = pins_.lower_bound(key);
        }
    }

    // Adds a pin. The caller must have removed the pins within its range. False: not added, because
    // another pin covers its range, or there is no memory.
    bool add(Pin* pin) {
        if (find(pin->start(), pin->end(), 0) != nullptr) return false;
        try {
            pins_.emplace(pin->start(), pin);
        } catch (const std::bad_alloc&) {
            return false;
        }
        pin->listed_.store(true, std::memory_order_relaxed);
        return true;
    }
    void remove(Pin* pin) {
        pins_.erase(pin->start());
        pin->listed_.store(false, std::memory_order_release);
    }

    size_t size() const { return pins_.size(); }

  private:
    std::map<uint64_t, Pin*> pins_;
};

}  // namespace tern
