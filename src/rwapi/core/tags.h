// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace rwapi {

// Tags, which distinguish the ids of operations of contexts. Contexts that exist at the same time
// have different tags. A tag that is used again continues with higher generations than it had, so
// that ids of an earlier context are recognised.
class Tags {
  public:
    static constexpr unsigned kBits = 10;
    // 0 is no tag, so that no id is 0.
    static constexpr uint16_t kLast = (1u << kBits) - 1;

    struct Lease {
        uint16_t tag;
        uint64_t used;  // the highest generation of the ids
    };

    // The tag that has been free for longest. Nothing: all are in use.
    std::optional<Lease> allocate() {
        if (tags_.size() < kLast) {
            tags_.push_back({.in_use = true});
            return Lease{static_cast<uint16_t>(tags_.size()), {}};
        }
        Tag* oldest = nullptr;
        for (Tag& tag : tags_) {
            if (!tag.in_use && (oldest == nullptr || tag.released < oldest->released))
                oldest = &tag;
        }
        if (oldest == nullptr) return std::nullopt;
        oldest->in_use = true;
        return Lease{static_cast<uint16_t>(oldest - tags_.data() + 1), oldest->used};
    }

    void release(uint16_t tag, uint64_t used) {
        Tag& released = tags_[tag - 1];
        released = {false, ++releases_, used};
    }

  private:
    struct Tag {
        bool in_use = false;
        uint64_t released = 0;  // the number of its release
        uint64_t used = 0;
    };

    std::vector<Tag> tags_;
    uint64_t releases_ = 0;
};

}  // namespace rwapi
