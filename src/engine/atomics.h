// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "connection/cookie.h"
#include "engine/channel.h"
#include "verbs/memory.h"

namespace tern {

// Atomic operations under way: where the device leaves what it found, and who is to be told. Data
// path, but for the memory, of which a page is registered when it is needed.
class Atomics {
  public:
    struct Operation {
        uint64_t* word = nullptr;    // the device's, registered
        uint32_t lkey = 0;           // of that
        uint64_t* result = nullptr;  // the user's; null: nobody wants it
        void* cookie = nullptr;      // the user's, to be told; null: nobody is
        Channel* channel = nullptr;
    };

    explicit Atomics(ibv_pd* pd) : pd_(pd) {}

    // One that is not under way; null: there is none now.
    Operation* take(Channel& channel, uint64_t* result, void* cookie);
    // It has been posted.
    void posted() { ++under_way_; }
    // It has not.
    void give(Operation& operation) { free_.push_back(&operation); }

    // As the cookie of its work request.
    static void* cookie_of(Operation& operation) {
        return make_cookie(CookieKind::kAtomic, &operation);
    }
    static bool is_cookie(const void* cookie) { return kind_of(cookie) == CookieKind::kAtomic; }
    // It is over; the user's cookie, or null.
    void* done(void* cookie, bool good);

    uint32_t under_way() const { return under_way_; }
    uint64_t registered_bytes() const { return pages_.size() * kPage; }

  private:
    static constexpr size_t kPage = 4096;
    static constexpr size_t kMostPages = 16;

    struct Page {
        verbs::RegisteredMemory words;
        std::unique_ptr<Operation[]> operations;
    };

    bool grow();

    ibv_pd* pd_;
    std::vector<Page> pages_;
    std::vector<Operation*> free_;
    uint32_t under_way_ = 0;
};

}  // namespace tern
