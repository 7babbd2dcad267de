// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "rwapi/core/handles.h"

namespace rwapi {

// What identifies a context of this process to its peers, and what it offers them. It does not
// change.
struct Self {
    uint32_t rank;
    uint32_t size;         // of the job
    uint64_t incarnation;  // a random number; 0: there are none
    uint32_t slots;        // notification slots
    uint32_t credit;       // small messages that one peer may have under way
};

constexpr uint64_t kCheckMask = (1u << 20) - 1;

// The incarnation of a process's context with this number. 20 bits are the number's, so that no
// address of a context passes the check of another one of the process, which often begins with the
// same regions; the rest is random. `process` is the process's own random number.
constexpr uint64_t make_incarnation(uint64_t random, uint64_t process, uint64_t number) {
    return (random & ~kCheckMask) | ((process + number) & kCheckMask);
}

// A network address. Word 0 names the region: node (20 bits), generation (24), index
// (20). Word 1 has a check (20 bits) and the offset (44). The check is a hash of word 0, combined
// with the lowest bits of the owner's incarnation by exclusive or. A damaged address, or one of
// another process, passes the check with a probability of one in a million. The check does not
// cover the offset, which users change by rwapi_net_add, and does not stop forgers.
struct NetAddress {
    static constexpr uint32_t kMaxNode = (1u << 20) - 1;
    static constexpr uint64_t kMaxOffset = (uint64_t{1} << 44) - 1;

    uint32_t node;
    uint32_t generation;
    uint32_t index;
    uint64_t offset;

    static constexpr uint64_t check(uint64_t word, uint64_t incarnation) {
        word *= 0x9e3779b97f4a7c15ull;
        word ^= word >> 29;
        word *= 0xbf58476d1ce4e5b9ull;
        return word >> 44 ^ (incarnation & kCheckMask);
    }
    constexpr uint64_t name() const {
        return uint64_t{node} << 44 | uint64_t{generation} << 20 | index;
    }
    constexpr rwapi_net pack(uint64_t incarnation) const {
        return {{name(), check(name(), incarnation) << 44 | offset}};
    }

    // By the region's handle at its owner, and that handle.
    static constexpr NetAddress of_region(uint32_t node, uint64_t handle) {
        return {node, Handle::generation_of(handle), Handle::index_of(handle), 0};
    }
    constexpr uint64_t region() const { return Handle::pack(index, generation); }

    // The address of the region's begin.
    constexpr rwapi_net begin(uint64_t incarnation) const {
        return NetAddress{node, generation, index, 0}.pack(incarnation);
    }

    // The fields of an address, which need not be valid.
    static constexpr NetAddress unpack(const rwapi_net& net) {
        NetAddress address = of_name(net.word[0]);
        address.offset = net.word[1] & kMaxOffset;
        return address;
    }
    // Whether the context of this incarnation has made the address.
    static constexpr bool made_by(uint64_t incarnation, const rwapi_net& net) {
        return check(net.word[0], incarnation) == net.word[1] >> 44 &&
               of_name(net.word[0]).generation != 0;
    }
    // Where an offset from the address is in its region; behind every region if it does not fit.
    static constexpr uint64_t offset_of(const rwapi_net& net, uint64_t offset) {
        const uint64_t begin = net.word[1] & kMaxOffset;
        return offset > kMaxOffset ? UINT64_MAX : begin + offset;
    }
    static constexpr NetAddress of_name(uint64_t name) {
        return {static_cast<uint32_t>(name >> 44),
                static_cast<uint32_t>(name >> 20) & Handle::kMaxGeneration,
                static_cast<uint32_t>(name) & Handle::kMaxIndex, 0};
    }
};

// Whether `length` bytes at `offset` lie within a region of `region` bytes.
constexpr bool within(uint64_t offset, uint64_t length, uint64_t region) {
    return length <= region && offset <= region - length;
}

}  // namespace rwapi
