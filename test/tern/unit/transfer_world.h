// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/random.h"
#include "tern/rendezvous/chunk_source.h"
#include "tern/rendezvous/ring_reader.h"

namespace tern::test {

// The properties of a transfer.
struct TransferCase {
    uint64_t length = 0;
    uint32_t slots = 1;          // of the window
    uint32_t staging_slots = 1;  // of the sender's memory
    uint32_t buffers = 3;
    uint64_t most = UINT64_MAX;  // most bytes of a direct write
    bool notified = false;
    bool copied = false;      // direct parts are copied to staging memory, too
    std::vector<Part> parts;  // any_case() fills in the addresses
    EarlyChunk head;          // the early copy

    std::string describe() const;
};

// Random lengths, rings and parts; sometimes a message that no machine could hold.
TransferCase any_case(Random& random);

// A sender and a receiver with everything between them, at random speeds: the device reads staging
// memory late, sub-blocks appear one by one, and control frames wait. Each sub-block carries its
// identity, so a loss, a duplicate or an overwrite is detected.
class TransferWorld {
  public:
    explicit TransferWorld(Random random) : random_(random) {}

    // Runs one transfer, in the window that earlier ones have used. Returns an error; empty: none.
    std::string run(const TransferCase& what);

  private:
    struct Write {
        ChunkSource::Chunk chunk;
        uint32_t placed = 0;  // sub-blocks
        bool finish = false;  // not a write, but the frame that says that all is written
    };
    struct Control {
        std::optional<Part> part;
        uint32_t count = 0;  // an acknowledgement
        bool end = false;
    };
    enum class Action : uint8_t {
        kTellPart,  // the receiver
        kTake,
        kAck,
        kPost,  // the sender
        kFinish,
        kPlace,    // the wire
        kControl,  // the way back to the sender
        kKinds,
    };

    bool can(Action action);
    void act(Action action);
    bool can_post(ChunkSource::Chunk& chunk);
    void post();
    void place();
    void place_block(const Write& write, uint32_t block);
    void take();
    void deliver();
    void arrived(uint64_t begin, uint64_t end);
    void wrong(const std::string& text) {
        if (wrong_.empty()) wrong_ = text;
    }

    Random random_;
    uint64_t generation_ = 0;
    std::vector<std::byte> window_;  // as large as the largest window so far
    TransferCase case_;
    std::optional<ChunkSource> sender_;
    std::optional<RingReader> receiver_;
    std::vector<uint64_t> staging_;  // number of the sub-block in each slot
    std::deque<Write> wire_;
    std::deque<Control> controls_;
    std::map<uint64_t, uint64_t> arrived_;  // begin and end of the ranges that have come
    uint64_t posted_ = 0;                   // sub-blocks
    uint64_t taken_ = 0;
    uint64_t ready_ = 0;    // sub-blocks of the early copy that were used
    size_t announced_ = 0;  // parts
    size_t under_way_ = 0;  // direct writes from staging memory
    bool finished_ = false;
    bool end_sent_ = false;
    bool ended_ = false;
    std::string wrong_;
};

}  // namespace tern::test
