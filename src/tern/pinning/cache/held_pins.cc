// SPDX-License-Identifier: BSD-3-Clause
#include "tern/pinning/cache/held_pins.h"

#include <utility>

namespace tern {

HeldPins::~HeldPins() {
    for (uint32_t i = 0; i < count_; ++i) cache_.release(held_[i]->pin);
}

// Asks the cache, and holds the pin in a place without users: if possible, in an empty one.
[[gnu::noinline]] HeldPins::Use HeldPins::find_in_cache(size_t first, const void* address,
                                                        size_t length, unsigned access) {
    Pin* const pin = cache_.find(address, length, access);
    if (pin == nullptr) return {};
    if ((pin->access() & kRemoteAll) != 0) return {pin, nullptr};
    Place* place = nullptr;
    for (size_t i = first; i < first + kTries; ++i)
        if (places_[i].users == 0 && (place == nullptr || place->pin != nullptr))
            place = &places_[i];
    if (place == nullptr) return {pin, nullptr};
    if (place->pin != nullptr)
        cache_.release(place->pin);
    else
        held_[count_++] = place;
    place->pin = pin;
    return use(*place);
}

[[gnu::noinline]] void HeldPins::give_back() {
    changes_ = cache_.changes();
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count_; ++i) {
        if (held_[i]->users != 0)
            held_[kept++] = held_[i];
        else
            cache_.release(std::exchange(held_[i]->pin, nullptr));
    }
    count_ = kept;
}

}  // namespace tern
