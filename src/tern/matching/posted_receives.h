// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tern/matching/key_mask.h"

namespace tern {

// A receive that waits for its message, with its links in PostedReceives.
struct PostedReceive {
    static constexpr uint64_t kFullMask = KeyMask::kFull;

    uint64_t tag = 0;
    uint64_t mask = 0;   // bits of the tag that are compared
    uint64_t order = 0;  // of posting, ascending
    bool posted = false;

    // A ring of the receives with the same key, or the list of wildcards.
    PostedReceive* next = nullptr;
    PostedReceive* previous = nullptr;
    // If `first`: the first receive of another key in the same bucket.
    PostedReceive* chain = nullptr;
    bool first = false;  // of its key

    bool matches(uint64_t other) const { return ((tag ^ other) & mask) == 0; }
};

// Receives that are posted and not matched. A message takes the receive that was posted first among
// those whose tag equals its tag in all bits of the receive's mask. Receives with the key mask are
// found by hash, at a cost that does not depend on their number. Receives with any other mask are
// wildcards, searched one after the other. The caller owns the objects. Only change_key() may
// allocate memory after construction.
class PostedReceives {
  public:
    // `expected`: the number of receives posted at a time. More receives only cost time, and memory
    // when the key mask changes.
    explicit PostedReceives(uint32_t expected);

    void post(PostedReceive& receive, uint64_t tag, uint64_t mask);
    // Removes and returns the receive that a message with this tag takes. Null: there is none.
    PostedReceive* match(uint64_t tag);
    // `receive` must be posted.
    void remove(PostedReceive& receive);

    uint64_t key_mask() const { return key_mask_.value(); }
    bool is_keyed(const PostedReceive& receive) const { return receive.mask == key_mask(); }
    // Whether most receives are posted with a mask other than the key mask. change_key() is then
    // worth its cost, sorting all posted receives, unless the caller depends on the current keys.
    bool wants_other_key() const { return key_mask_.changes(); }
    void change_key();

    // The first wildcard that a message with the key of this tag could match. Null: there is none.
    const PostedReceive* wildcard(uint64_t tag) const;
    // The first receive with the key of this tag, and the next with the same key. Null: none.
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
    std::vector<PostedReceive*> all_;  // scratch space of change_key()
};

}  // namespace tern
