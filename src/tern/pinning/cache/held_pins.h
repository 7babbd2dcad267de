// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "tern/pinning/cache/pin_cache.h"

namespace tern {

// Finds pins that operations of one thread are using, or have used since the thread's last call of
// progress, without the lock of the cache. A held pin cannot be evicted, and stays registered until
// it is given back, even if its memory has gone. So pins that give rights to peers are not held
// longer than they are used. Data path.
class HeldPins {
  public:
    struct Place {
        Pin* pin = nullptr;
        uint32_t users = 0;
    };
    // What find() returns to one user.
    struct Use {
        Pin* pin = nullptr;
        Place* place = nullptr;  // null: the pin is not held beyond this use

        explicit operator bool() const { return pin != nullptr; }
    };

    explicit HeldPins(PinCache& cache) : cache_(cache) {}
    // Gives back all that is held, in use or not.
    ~HeldPins() {
        for (uint32_t i = 0; i < count_; ++i) cache_.release(held_[i]->pin);
    }
    HeldPins(const HeldPins&) = delete;
    HeldPins& operator=(const HeldPins&) = delete;

    // A pin that covers the range, which must end within the address space, and gives these rights.
    Use find(const void* address, size_t length, unsigned access) {
        const auto start = reinterpret_cast<uint64_t>(address);
        if (serves(*last_, start, length, access)) return use(*last_);
        const size_t first = place_of(start);
        for (size_t i = first; i < first + kTries; ++i)
            if (serves(places_[i], start, length, access)) return use(places_[i]);
        return find_in_cache(first, address, length, access);
    }
    void release(const Use& use) {
        if (use.place == nullptr) [[unlikely]]
            return cache_.release(use.pin);
        --use.place->users;
        --users_;
    }

    bool empty() const { return count_ == 0; }
    // Whether progress() would give everything back.
    bool idle() const { return count_ != 0 && users_ == 0; }
    // Gives pins back that are not in use, if none is or if the cache has changed.
    void progress() {
        if (count_ != 0 && (users_ == 0 || cache_.changes() != changes_)) [[unlikely]]
            give_back();
    }

  private:
    static constexpr unsigned kBits = 7;
    static constexpr unsigned kPage = 12;
    static constexpr size_t kTries = 4;
    static constexpr size_t kPlaces = (size_t{1} << kBits) + kTries - 1;

    // The first of the places where a pin may be held.
    static size_t place_of(uint64_t start) {
        return static_cast<size_t>((start >> kPage) * 0x9e3779b97f4a7c15 >> (64 - kBits));
    }
    bool serves(const Place& place, uint64_t start, size_t length, unsigned access) const {
        return place.pin != nullptr && place.pin->covers(start, start + length, access) &&
               cache_.is_current(*place.pin);
    }
    Use use(Place& place) {
        ++place.users;
        ++users_;
        last_ = &place;
        return {place.pin, &place};
    }
    // Asks the cache, and holds the pin in a place without users: if possible, in an empty one.
    [[gnu::noinline]] Use find_in_cache(size_t first, const void* address, size_t length,
                                        unsigned access) {
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
    [[gnu::noinline]] void give_back() {
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

    PinCache& cache_;
    std::array<Place, kPlaces> places_{};
    std::array<Place*, kPlaces> held_{};  // the places that have pins
    uint32_t count_ = 0;                  // of them
    uint32_t users_ = 0;
    Place* last_ = places_.data();
    uint64_t changes_ = 0;  // of the cache, when pins were given back
};

}  // namespace tern
