// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <cstring>

#include "fastpath/block_writer.h"

namespace tern {

// Ids of the frames of kind kControl. Those here manage the block that the receiver of a direction
// grants to its sender. `Reader` below is that receiver, `writer` that sender.
enum class ControlId : uint32_t {
    kCredit =
        0,  // either way: nothing but the credit in the word. The only one that may be in a block
    kGrant = 1,       // reader to writer: a BlockGrant
    kRevoke = 2,      // reader to writer: release the block
    kRelease = 3,     // writer to reader: a Release; nothing comes through the block any more
    kNotifyWord = 4,  // writer to reader: a NotifyAddress; not before it has been granted a block
    kFirstTransfer = 8,  // this and those above are the rendezvous's
    kFirstTag = 16,      // this and all above are of tagged messages
};

// The payloads, little endian as everything on the wire.
struct BlockGrant {
    // Write with immediate data: the reader does not poll its memory.
    static constexpr uint32_t kNotify = 1;

    uint64_t address = 0;  // of the block's low end
    uint32_t rkey = 0;
    uint32_t size = 0;  // bytes, a multiple of 8
    uint32_t most = 0;  // bytes: the largest block worth wishing for
    uint32_t flags = 0;

    bool valid() const {
        return address != 0 && address % Word::kUnit == 0 && size % Word::kUnit == 0 &&
               size >= BlockWriter::kMinBlock && size <= BlockWriter::kMaxBlock &&
               (flags & ~kNotify) == 0;
    }
};

struct Release {
    uint32_t wish = 0;  // bytes the next block should have, 0 for none
    uint32_t reserved = 0;
};

// The word that says whether writes into blocks are to be notified of: 4 bytes that the reader
// writes to when it goes to sleep.
struct NotifyAddress {
    uint64_t address = 0;
    uint32_t rkey = 0;
    uint32_t reserved = 0;

    bool valid() const { return address != 0 && address % sizeof(uint32_t) == 0 && reserved == 0; }
};

static_assert(sizeof(BlockGrant) == 24 && sizeof(Release) == 8 && sizeof(NotifyAddress) == 16);

inline constexpr uint32_t kMaxControl = 80;  // bytes of payload, of the longest control frame

}  // namespace tern
