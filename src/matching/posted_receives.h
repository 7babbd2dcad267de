// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>

namespace tern {

// A receive that waits for its message, as PostedReceives links it.
struct PostedReceive {
    static constexpr uint64_t kFullMask = ~uint64_t{0};

    uint64_t tag = 0;
    uint64_t mask = 0;   // bits of the tag that count; anything but kFullMask is a wildcard
    uint64_t order = 0;  // earlier ones have smaller numbers
    bool posted = false;

    // Of those with the same full tag, in a ring; or of the wildcards.
    PostedReceive* next = nullptr;
    PostedReceive* previous = nullptr;
    // The first of a tag only: the first of another tag in the same bucket.
    PostedReceive* chain = nullptr;
    bool first = false;

    bool matches(uint64_t other) const { return ((tag ^ other) & mask) == 0; }
};

// Receives that are posted and not matched. A message takes the first one, in the order in which
// they were posted, whose tag it has in all bits of the mask. Full tags are found by hash, at a
// cost that does not depend on how many there are, of this tag or of others; wildcards are looked
// through one after the other. The objects are the caller's. No allocation after construction.
class PostedReceives {
  public:
    // `expected`: how many are posted at a time; more only cost time.
    explicit PostedReceives(uint32_t expected);

    void post(PostedReceive& receive, uint64_t tag, uint64_t mask);
    // Takes out the receive of a message; null if there is none.
    PostedReceive* match(uint64_t tag);
    // Takes out a receive that is posted.
    void remove(PostedReceive& receive);

    // The first wildcard that a message of this tag could match; null if there is none.
    const PostedReceive* wildcard(uint64_t tag) const;
    // The first with this full tag, and the one behind it; null if there is none.
    PostedReceive* first(uint64_t tag) const { return find(tag); }
    static PostedReceive* next(const PostedReceive& receive) {
        return receive.next->first ? nullptr : receive.next;
    }
    uint32_t size() const { return size_; }

  private:
    PostedReceive*& bucket(uint64_t tag) const;
    PostedReceive* find(uint64_t tag) const;
    void remove_full(PostedReceive& receive);
    void remove_wildcard(PostedReceive& receive);

    std::unique_ptr<PostedReceive*[]> buckets_;
    unsigned shift_;
    PostedReceive* first_wildcard_ = nullptr;
    PostedReceive* last_wildcard_ = nullptr;
    uint64_t order_ = 0;
    uint32_t size_ = 0;
};

}  // namespace tern
