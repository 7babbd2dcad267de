// SPDX-License-Identifier: BSD-3-Clause
// The memory of receives whose completion has not been called.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace tern {

// The part of a receive that TagBuffers uses. A receive without memory is not added.
struct TagBuffer {
    const std::byte* at = nullptr;
    uint64_t wanted = 0;  // tag
    TagBuffer* next_of_bucket = nullptr;
};

// Finds receives with the same address and tag: at most one exists. No allocation after
// construction.
class TagBuffers {
  public:
    // `most`: receives at a time.
    explicit TagBuffers(uint32_t most)
        : shift_(64 - std::countr_zero(size_for(most))),
          buckets_(std::make_unique<TagBuffer*[]>(size_for(most))) {}

    // False: a receive with the same address and tag exists.
    bool add(TagBuffer& buffer) {
        if (buffer.at == nullptr) return true;
        TagBuffer*& bucket = bucket_of(buffer);
        for (const TagBuffer* other = bucket; other != nullptr; other = other->next_of_bucket)
            if (other->at == buffer.at && other->wanted == buffer.wanted) return false;
        buffer.next_of_bucket = bucket;
        bucket = &buffer;
        return true;
    }
    // `buffer` must have been added.
    void remove(TagBuffer& buffer) {
        if (buffer.at == nullptr) return;
        TagBuffer** link = &bucket_of(buffer);
        while (*link != &buffer) link = &(*link)->next_of_bucket;
        *link = buffer.next_of_bucket;
    }

  private:
    static constexpr uint64_t size_for(uint32_t most) {
        return std::bit_ceil(uint64_t{2} * most + 2);
    }
    TagBuffer*& bucket_of(const TagBuffer& buffer) const {
        constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;
        const uint64_t tag = buffer.wanted ^ buffer.wanted >> 32;
        return buckets_[((reinterpret_cast<uintptr_t>(buffer.at) ^ tag) * kGolden) >> shift_];
    }

    int shift_;
    std::unique_ptr<TagBuffer*[]> buckets_;
};

}  // namespace tern
