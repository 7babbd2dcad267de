// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "matching/key_mask.h"

namespace tern {

// A receive that waits for its message, as PostedReceives links it.
struct PostedReceive {
    static constexpr uint64_t kFullMask = KeyMask::kFull;

    uint64_t tag = 0;
    uint64_t mask = 0;   // bits of the tag that count
    uint64_t order = 0;  // earlier ones have smaller numbers
    bool posted = false;

    // Of those with the same key, in a ring; or of the wildcards.
    PostedReceive* next = nullptr;
    PostedReceive* previous = nullptr;
    // The first of a key only: the first of another key in the same bucket.
    PostedReceive* chain = nullptr;
    bool first = false;

    bool matches(uint64_t other) const { return ((tag ^ other) & mask) == 0; }
};

// Receives that are posted and not matched. A message takes the first one, in the order in which
// they were posted, whose tag it has in all bits of the mask. Receives with the key mask are found
// by hash, at a cost that does not depend on how many there are, of this key or of others; those
// with any other mask are wildcards, looked through one after the other. The objects are the
// caller's. No allocation after construction.
class PostedReceives {
  public:
    // `expected`: how many are posted at a time; more only cost time, and memory when the key mask
    // changes.
    explicit PostedReceives(uint32_t expected);

    void post(PostedReceive& receive, uint64_t tag, uint64_t mask);
    // Takes out the receive of a message; null if there is none.
    PostedReceive* match(uint64_t tag);
    // Takes out a receive that is posted.
    void remove(PostedReceive& receive);

    uint64_t key_mask() const { return key_mask_.value(); }
    bool is_keyed(const PostedReceive& receive) const { return receive.mask == key_mask(); }
    // What is posted has mostly another mask than the key mask: change_key() is worth its cost,
    // that of sorting all that is posted, unless somebody counts on the keys as they are.
    bool wants_other_key() const { return key_mask_.changes(); }
    void change_key();

    // The first wildcard that any message with the key of this tag could match; null if there is
    // none.
    const PostedReceive* wildcard(uint64_t tag) const;
    // The first with the key of this tag, and the one behind it; null if there is none.
    PostedReceive* first(uint64_t tag) const { return find(tag); }
    static PostedReceive* next(const PostedReceive& receive) {
        return receive.next->first ? nullptr : receive.next;
    }
    uint32_t size() const { return size_; }

  private:
    PostedReceive*& bucket(uint64_t tag) const;
    PostedReceive* find(uint64_t tag) const;
    void link(PostedReceive& receive);
    void remove_keyed(PostedReceive& receive);
    void remove_wildcard(PostedReceive& receive);

    KeyMask key_mask_;
    uint32_t buckets_count_;
    unsigned shift_;
    std::unique_ptr<PostedReceive*[]> buckets_;
    PostedReceive* first_wildcard_ = nullptr;
    PostedReceive* last_wildcard_ = nullptr;
    uint64_t order_ = 0;
    uint32_t size_ = 0;
    std::vector<PostedReceive*> all_;  // while the key mask changes
};

}  // namespace tern
