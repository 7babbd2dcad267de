// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tern {

// Finds the number of a tuple by peer and key. The key is the bits of a tag that are in the peer's
// mask. All tuples of a peer have the same mask and different keys. Numbers are below `most`. No
// allocation after construction.
class TupleIndex {
  public:
    static constexpr uint16_t kNone = 0xffff;

    explicit TupleIndex(uint32_t most)
        : shift_(64 - static_cast<int>(std::bit_width(std::max(2 * most, 2u)))),
          heads_(size_t{1} << (64 - shift_), kNone),
          nodes_(most) {}

    // Data path.
    uint16_t find(uint32_t peer, uint64_t tag) const {
        uint16_t number = heads_[bucket(peer, tag)];
        while (number != kNone && !nodes_[number].is(peer, tag)) number = nodes_[number].next;
        return number;
    }
    void insert(uint32_t peer, uint64_t tag, uint64_t mask, uint16_t number) {
        if ((common_ & mask) != common_) hash_by(common_ & mask);
        nodes_[number] = {tag, mask, peer, kNone};
        link(number);
        ++count_;
    }
    void erase(uint16_t number) {
        uint16_t* at = &heads_[bucket(nodes_[number].peer, nodes_[number].tag)];
        while (*at != number) at = &nodes_[*at].next;
        *at = nodes_[number].next;
        if (--count_ == 0) common_ = ~uint64_t{0};
    }
    bool empty() const { return count_ == 0; }

  private:
    struct Node {
        uint64_t tag = 0;
        uint64_t mask = 0;
        uint32_t peer = 0;
        uint16_t next = kNone;

        bool is(uint32_t other_peer, uint64_t other) const {
            return peer == other_peer && ((tag ^ other) & mask) == 0;
        }
    };

    size_t bucket(uint32_t peer, uint64_t tag) const {
        return ((tag & common_) + peer * 0xd1b54a32d192ed03) * 0x9e3779b97f4a7c15 >> shift_;
    }
    void link(uint16_t number) {
        uint16_t& head = heads_[bucket(nodes_[number].peer, nodes_[number].tag)];
        nodes_[number].next = head;
        head = number;
    }
    // Rehashes all tuples. Peers have different masks as a rule only for a moment.
    void hash_by(uint64_t common) {
        uint16_t all = kNone;
        for (uint16_t& head : heads_)
            while (head != kNone) {
                const uint16_t number = head;
                head = nodes_[number].next;
                nodes_[number].next = all;
                all = number;
            }
        common_ = common;
        while (all != kNone) {
            const uint16_t number = all;
            all = nodes_[number].next;
            link(number);
        }
    }

    int shift_;
    uint64_t common_ = ~uint64_t{0};  // bits that all masks have; tags are hashed by these
    uint32_t count_ = 0;
    std::vector<uint16_t> heads_;
    std::vector<Node> nodes_;
};

}  // namespace tern
