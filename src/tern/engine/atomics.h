// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tern/connection/cookie.h"
#include "tern/engine/channel.h"
#include "tern/verbs/memory.h"

namespace tern {

// Atomic operations under way: where the device puts the old values, and the users' cookies. Data
// path, except for grow(), which registers a page.
class Atomics {
  public:
    struct Operation {
        uint64_t* word = nullptr;    // registered; the device writes it
        uint32_t lkey = 0;           // of `word`
        uint64_t* result = nullptr;  // the user's; may be null
        void* cookie = nullptr;      // the user's; may be null
        Channel* channel = nullptr;
    };

    explicit Atomics(ibv_pd* pd) : pd_(pd) {}

    // Null: there is none now.
    Operation* take(Channel& channel, uint64_t* result, void* cookie) {
        if (!has_room()) [[unlikely]]
            return nullptr;
        Operation* operation = free_.back();
        free_.pop_back();
        operation->result = result;
        operation->cookie = cookie;
        operation->channel = &channel;
        return operation;
    }
    // Whether take() would return one. May register memory.
    bool has_room() { return !free_.empty() || grow(); }
    void posted() { ++under_way_; }
    // For an operation that could not be posted.
    void give(Operation& operation) { free_.push_back(&operation); }

    // For the operation's work request.
    static void* cookie_of(Operation& operation) {
        return make_cookie(CookieKind::kAtomic, &operation);
    }
    static bool is_cookie(const void* cookie) { return kind_of(cookie) == CookieKind::kAtomic; }
    // Ends the operation: decrements its channel's `replies`, and stores the result if `good`.
    // Returns the user's cookie.
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

    // False: there are enough, or no memory.
    bool grow() noexcept;

    ibv_pd* pd_;
    std::vector<Page> pages_;
    std::vector<Operation*> free_;
    uint32_t under_way_ = 0;
};

}  // namespace tern
