// SPDX-License-Identifier: BSD-3-Clause
// Neighbours in a grid of ranks. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace bench::sim {

// Edges of a grid of that many ranks that differ as little as possible, the longest first.
inline std::vector<uint32_t> edges_of(uint32_t ranks, uint32_t dimensions) {
    std::vector<uint32_t> edges;
    for (uint32_t left = dimensions; left > 1; --left) {
        // The least factor that is not below the root: what remains has no longer edges.
        uint32_t edge = 1;
        const auto power = [left](uint64_t base) {
            uint64_t value = 1;
            for (uint32_t i = 0; i < left; ++i) value *= base;
            return value;
        };
        while (power(edge) < ranks || ranks % edge != 0) ++edge;
        edges.push_back(edge);
        ranks /= edge;
    }
    edges.push_back(ranks);
    return edges;
}

// Those of a rank, in both directions of each dimension; the grid has no border. Where an edge has
// two ranks, one of them is the neighbour in both directions; where it has one, there is none.
inline std::vector<uint32_t> neighbours(uint32_t rank, const std::vector<uint32_t>& edges) {
    std::vector<uint32_t> found;
    uint32_t stride = 1;
    for (const uint32_t edge : edges) {
        const uint32_t at = rank / stride % edge;
        const uint32_t line = rank - at * stride;  // where the rank's line begins
        if (edge > 1) {
            found.push_back(line + (at + 1) % edge * stride);
            found.push_back(line + (at + edge - 1) % edge * stride);
        }
        stride *= edge;
    }
    return found;
}

}  // namespace bench::sim
