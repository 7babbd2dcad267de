// SPDX-License-Identifier: BSD-3-Clause
// Each half of a transfer with a peer that lies. The sender gets parts and acknowledgements: it
// writes into the parts that were lent, each byte once, and into the ring. The receiver gets flags,
// notifications and ends: it reads in the ring only, and takes each byte once.
#include <vector>

#include "fuzz.h"
#include "tern/rendezvous/chunk_source.h"
#include "tern/rendezvous/messages.h"
#include "tern/rendezvous/ring_reader.h"

using namespace tern;
using fuzz::require;

namespace {

constexpr uint64_t kMostBytes = 64 * SubBlocks::kSubBlock;

void expect_parts(fuzz::Input& input) {
    const uint64_t length = 1 + input.number() % kMostBytes;
    const uint32_t slots = input.below(9);  // as the peer says
    const uint32_t staging = 1 + input.below(8);
    const ScheduleLimits limits{.first_bytes = input.take<uint16_t>(),
                                .q = 1 + input.below(200) / 100.0,
                                .most = ScheduleLimits::most_of(std::min(slots, staging), 3)};
    ChunkSource sender(length, slots, staging, limits);
    if (input.chance(2))
        sender.set_early_chunk({1 + input.below(staging), 1 + input.take<uint16_t>() % 4096u});
    std::vector<Part> parts;
    uint64_t sent = 0;
    uint32_t acknowledged = 0;
    while (!input.empty()) {
        switch (input.below(4)) {
            case 0: {
                const WirePart wire{input.chance(3) ? length : input.number(), input.number() << 20,
                                    input.below(8), input.below(2)};
                // As OutgoingTransfers does.
                if (!wire.valid() || (!wire.part().placed && slots == 0)) return;
                if (!sender.add(wire.part())) return;
                parts.push_back(wire.part());
                break;
            }
            case 1: {
                const uint32_t count = acknowledged + input.below(6);
                const uint64_t staged = sender.staged();
                const bool right = count <= staged;
                require(sender.acknowledged(count) == right, "a wrong count of what was taken");
                if (!right) return;
                acknowledged = count;
                break;
            }
            default: {
                ChunkSource::Chunk chunk;
                const uint64_t most = 1 + input.number();
                if (!sender.next(most, chunk)) break;
                uint64_t begin = 0;
                size_t i = 0;
                while (i < parts.size() && parts[i].upto <= chunk.offset) begin = parts[i++].upto;
                require(i < parts.size() && chunk.offset == sent && chunk.bytes != 0,
                        "a write that nobody asked for");
                const Part& part = parts[i];
                require(chunk.bytes <= part.upto - chunk.offset, "a write beyond its part");
                require(chunk.placed == part.placed, "a write by another way");
                if (chunk.placed) {
                    require(chunk.address == part.address + (chunk.offset - begin) &&
                                chunk.rkey == part.rkey && chunk.bytes <= most,
                            "a write to another place");
                } else {
                    require(chunk.index % slots + chunk.blocks <= slots, "around the ring's end");
                    require(chunk.index % staging + chunk.blocks <= staging,
                            "around the end of staging memory");
                    require(chunk.index + chunk.blocks - acknowledged <= std::min(slots, staging),
                            "more is under way than there is room");
                    require(chunk.ready <= chunk.blocks && chunk.first != 0 &&
                                chunk.first <= SubBlocks::kSubBlock,
                            "a chunk that cannot be");
                }
                sent += chunk.bytes;
                sender.posted(chunk);
                require(sender.sent() == sent && sent <= length, "more is sent than there is");
            }
        }
    }
}

void expect_ring(fuzz::Input& input) {
    const uint64_t length = 1 + input.number() % kMostBytes;
    const uint32_t slots = 1 + input.below(8);
    const uint64_t generation = input.below(256);
    const bool notified = input.chance(2);
    RingReader receiver(length, slots, generation, notified, input.below(8));
    std::vector<uint64_t> memory(size_t{slots} * SubBlocks::kSlot / sizeof(uint64_t));
    auto* const ring = reinterpret_cast<std::byte*>(memory.data());
    std::vector<Part> parts;
    uint64_t taken = 0;
    uint64_t blocks = 0;
    bool finished = false;
    while (!input.empty()) {
        switch (input.below(6)) {
            case 0: {  // this side chooses, so the parts are valid
                if (receiver.parts_end() == length || parts.size() > 16) break;
                const uint64_t left = length - receiver.parts_end();
                parts.push_back({.upto = receiver.parts_end() + 1 + input.number() % left,
                                 .placed = input.chance(3)});
                receiver.add(parts.back());
                break;
            }
            case 1: {
                const uint64_t flag = input.chance(4)
                                          ? input.number()
                                          : flag_of(generation, blocks + input.below(slots + 1));
                memcpy(ring + input.below(slots) * SubBlocks::kSlot + SubBlocks::kSubBlock, &flag,
                       sizeof flag);
                break;
            }
            case 2:
                if (!receiver.arrived(input.chance(8) ? static_cast<uint32_t>(input.number())
                                                      : input.below(4)))
                    return;
                break;
            case 3: {
                const bool may = !finished && receiver.parts_end() == length;
                if (!receiver.finished()) break;
                require(may, "an end is believed that cannot be");
                finished = true;
                break;
            }
            default: {
                RingReader::Block block;
                if (!receiver.next(ring, block)) break;
                while (!parts.empty() && parts.front().placed) {
                    taken = parts.front().upto;
                    parts.erase(parts.begin());
                }
                require(!parts.empty() && block.offset == taken && block.bytes != 0 &&
                            block.bytes <= parts.front().upto - taken,
                        "other bytes than those that are next");
                require(block.at + block.bytes <= memory.size() * sizeof(uint64_t),
                        "bytes outside the ring");
                taken += block.bytes;
                if (taken == parts.front().upto) parts.erase(parts.begin());
                ++blocks;
                receiver.taken();
                if (receiver.ack_due()) receiver.acked();
                if (input.chance(4) && receiver.ack_owed()) receiver.waited();
            }
        }
        require(receiver.count() == static_cast<uint32_t>(blocks), "a wrong count");
        if (!receiver.complete()) continue;
        for (const Part& part : parts) require(part.placed, "complete, but bytes are missing");
    }
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    fuzz::Input input(data, size);
    if (input.chance(2))
        expect_parts(input);
    else
        expect_ring(input);
    return 0;
}
