// SPDX-License-Identifier: BSD-3-Clause
// Bytes that are written to their final place: both sides pin their buffers piece by piece, each
// piece while the one before it is on the wire.
#pragma once

#include <cstdint>

#include "tern/rendezvous/accounts.h"
#include "tern/rendezvous/superpipeline.h"

namespace tern {

// Pins buffers piece by piece, from the beginning on, as the transfer's decision says.
class PiecewisePins : protected RendezvousPart {
  public:
    explicit PiecewisePins(const RendezvousPart& part) : RendezvousPart(part) {}

    // The bytes of the next piece.
    uint64_t next_piece(const Transfer& transfer) const;
    // Whether the next piece may be registered in this call of progress.
    bool may_pin(const Transfer& transfer) const {
        return budget_.may_register(next_piece(transfer));
    }
    // Takes the next piece if it is pinned. Only of buffers that are used again.
    bool find(Transfer& transfer, unsigned access);
    // Pins the next piece. False: it cannot be pinned.
    bool pin(Transfer& transfer, unsigned access);

  private:
    static void make_room(Transfer& transfer, uint64_t piece);
    void take(Transfer& transfer, uint64_t piece, Pin* pin);
};

// Pins the buffers of incoming transfers, and makes placed parts of what is pinned.
class IncomingPins : public PiecewisePins {
  public:
    using PiecewisePins::PiecewisePins;

    // Gives all pieces back.
    void release_all(Incoming& transfer);
    // Pins the next placed part while the one before is on the wire, and sends it to the sender.
    // Parts that are pinned already are sent without delay: the sender may not poll when the wire
    // has nothing to do. Returns how many were sent.
    unsigned announce(Incoming& transfer);
    // The next part that is pinned; there must be one.
    static Part pinned_part(Incoming& transfer);

  private:
    // The next part of the message: pinned, or else all the rest through the ring.
    Part next_part(Incoming& transfer);
};

// Posts the writes of outgoing transfers to their final place, one chunk at a time.
class PlacedWrites : PiecewisePins {
  public:
    PlacedWrites(const RendezvousPart& part, StagedWrites& staging)
        : PiecewisePins(part), staging_(staging) {}

    // The receiver is pinning the first part, which ends at `upto`. Meanwhile this side pins the
    // bytes of that part. False: there is no such part.
    bool prepare(Outgoing& transfer, uint64_t upto);
    // Whether the transfer sends memory of a device, for which it then holds a pin.
    bool is_of_device(Outgoing& transfer);
    // Writes the chunk, or a shorter one, from the user's memory if it is pinned, else from staging
    // memory. False: not now.
    bool post(Outgoing& transfer, ChunkSource::Chunk& chunk);
    // Pins the next piece while the wire is busy with the one before, and the receiver pins too.
    unsigned pin_ahead(Outgoing& transfer);

  private:
    void choose_source(Outgoing& transfer, const ChunkSource::Chunk& chunk);
    const Pin* pin_of(Outgoing& transfer, ChunkSource::Chunk& chunk);
    bool pin_next(Outgoing& transfer);
    bool post_in_place(Outgoing& transfer, const ChunkSource::Chunk& chunk, const Pin& pin);
    bool post_copied(Outgoing& transfer, ChunkSource::Chunk& chunk);
    void write(Outgoing& transfer, const ChunkSource::Chunk& chunk, const std::byte* from,
               uint32_t lkey, Outgoing::Write& write);

    StagedWrites& staging_;
};

}  // namespace tern
