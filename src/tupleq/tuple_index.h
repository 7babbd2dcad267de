// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tern {

// Finds the number of a tuple by peer and tag. Numbers are those of a table with room for `most`;
// nothing is allocated later.
class TupleIndex {
  public:
    static constexpr uint16_t kNone = 0xffff;

    explicit TupleIndex(uint32_t most)
        : shift_(64 - std::bit_width(std::max(2 * most, 2u))),
          heads_(size_t{1} << (64 - shift_), kNone),
          nodes_(most) {}

    // Data path.
    uint16_t find(uint32_t peer, uint64_t tag) const {
        uint16_t number = heads_[bucket(peer, tag)];
        while (number != kNone && (nodes_[number].tag != tag || nodes_[number].peer != peer))
            number = nodes_[number].next;
        return number;
    }
    void insert(uint32_t peer, uint64_t tag, uint16_t number) {
        uint16_t& head = heads_[bucket(peer, tag)];
        nodes_[number] = {tag, peer, head};
        head = number;
    }
    void erase(uint16_t number) {
        uint16_t* link = &heads_[bucket(nodes_[number].peer, nodes_[number].tag)];
        while (*link != number) link = &nodes_[*link].next;
        *link = nodes_[number].next;
    }

  private:
    struct Node {
        uint64_t tag = 0;
        uint32_t peer = 0;
        uint16_t next = kNone;
    };

    size_t bucket(uint32_t peer, uint64_t tag) const {
        return (tag + peer * 0xd1b54a32d192ed03) * 0x9e3779b97f4a7c15 >> shift_;
    }

    int shift_;
    std::vector<uint16_t> heads_;
    std::vector<Node> nodes_;
};

}  // namespace tern
