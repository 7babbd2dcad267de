// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

#include "tern/connection/connection.h"
#include "tern/engine/backlog.h"
#include "tern/engine/idle_choice.h"
#include "tern/engine/writer_words.h"
#include "tern/veloblock/allowance.h"
#include "tern/veloblock/promotion.h"
#include "tern/veloblock/receive_path.h"
#include "tern/veloblock/repeats.h"
#include "tern/veloblock/send_path.h"
#include "tern/verbs/memory.h"

namespace tern {

class Batches;

// State of a channel that belongs to a layer above, which alone knows its type. It begins as zeros.
template <size_t kBytes>
class LayerState {
  public:
    template <class State>
    State& as() {
        return *std::launder(reinterpret_cast<State*>(bytes_of<State>(*this)));
    }
    template <class State>
    const State& as() const {
        return *std::launder(reinterpret_cast<const State*>(bytes_of<State>(*this)));
    }

  private:
    template <class State, class Self>
    static auto* bytes_of(Self& self) {
        static_assert(sizeof(State) <= kBytes && alignof(State) <= alignof(uint64_t) &&
                      std::is_trivially_copyable_v<State>);
        return self.bytes_;
    }

    alignas(uint64_t) std::byte bytes_[kBytes] = {};
};

// A connection with the state of both directions. Each part belongs to one object of the engine,
// which alone changes it unless the part says otherwise.
struct Channel final : Connection {
    using Connection::Connection;

    // Writing into the peer's block. Of PeerBlocks; FastPath advances `path` with each frame. What
    // a send in the usual case needs comes first: with the connection's first cache line, this is
    // all that such a send touches besides the credit for the peer, in `receiving`.
    struct alignas(64) Sending {
        uint64_t block_address = 0;  // of the peer's block
        // The notify word in use (writer_words.h); never null. While `path` is held, one that is
        // not kNever, so that no frame goes straight.
        const uint32_t* notify = &notify::kNever;
        uint32_t block_rkey = 0;
        bool stalled = false;  // a send found the block full, and none has entered it since
        // The peer's device has promised the order of the bytes of a write: it has polled a block.
        bool in_order = false;
        SendPath path;
        uint16_t refused = 0;          // sends since `stalled`
        bool listed_stalled = false;   // is in PeerBlocks' list
        bool asked_for_frame = false;  // a kCreditRequest was sent since `stalled`
        uint64_t silent_since = 0;     // when a long stall was first looked at; 0: not yet
        uint32_t last_bcopy = 0;       // length, to guess that of the next one
        uint32_t credit_taken = 0;     // the last value of its credit word
        allowance::Taken allowance;    // of cold messages
        bool waits = false;            // a send has found that there is none
        WriterWords::Words words;      // which the peer may write to, if any
        // For RepeatedPuts: the repeated messages, null until there is one, and whether the peer
        // has allowed no more of them for a while.
        std::unique_ptr<SentRepeats> repeats;
        bool no_repeats = false;
        // For OneSided: the number of the last put, and, while `path` is held, the number of the
        // put that frames in the block must not overtake, and the notify word of the block.
        uint32_t last_put = UINT32_MAX;
        uint32_t fenced_for = 0;
        const uint32_t* block_notify = &notify::kNever;
    };

    // Reading the own block, into which the peer writes. Of OfferedBlocks; sends take the credit
    // from `path`.
    struct alignas(64) Receiving {
        ReceivePath path;
        // Whether to poll memory for the peer's writes rather than the completion queue. Decided
        // when the connection comes up: the answer is the device's, and stays the same.
        bool polls_memory = false;
        // The peer has broken the protocol: what comes is dropped. Of the pollers.
        bool deaf = false;
        // The users have gone by force, and their transfers: frames of these are dropped.
        bool left = false;
        bool polled = false;      // the block is in PolledBlocks, ...
        uint32_t poll_index = 0;  // ... and this is its place there
        Promotion::Peer activity;
        ColdSenders::Peer cold;
        allowance::Given allowance;
        uint32_t emptied = 0;  // of ArrivalRound: the last round in which the block was seen empty
        uint32_t requested_bytes = 0;  // of the next block; 0: the first size
        uint32_t usual_bytes = 0;      // of its cold messages: their moving average
        verbs::RegisteredMemory block;
        std::unique_ptr<ReceivedRepeats> repeats;  // of CompletionPoller; null: the peer has none
        uint64_t words = 0;                        // address of the peer's words; 0: not known
        uint32_t words_rkey = 0;
        uint32_t last_credit = UINT32_MAX;     // the number of the last write of its credit word
        bool peer_wants_credit_frame = false;  // it sleeps, and a write does not wake it
    };

    // Messages that wait for each other, to go as one frame, which is accounted for as posted. Of
    // Batches, under its lock while it is open.
    struct alignas(64) Batch {
        bool open() const { return limit != nullptr; }
        std::byte* payload() const { return frame + sizeof(Word); }
        uint32_t length() const { return static_cast<uint32_t>(next - payload()); }

        std::byte* next = nullptr;   // the end of the payload
        std::byte* limit = nullptr;  // and its last place; null: none is open
        std::byte* frame = nullptr;  // a place for a cold word, the payload, a place for a tail
        BlockWriter::Growing plan;   // cold: only the most bytes
        bool in_block = false;
        bool refused = false;  // the device has refused the frame
        uint32_t lkey = 0;
        uint64_t word = 0;    // without the length
        uint32_t index = 0;   // among the open ones
        uint32_t number = 0;  // of the work request
        uint64_t polls = 0;   // of the process, when it posted the last mark
        uint64_t block_address = 0;
        uint32_t block_rkey = 0;
        const uint32_t* notify = nullptr;
        Batches* owner = nullptr;
    };

    // How the peer notifies this side, while it sleeps, of frames in the block. Of NotifyRequests.
    struct Notifying {
        uint16_t generation = 0;     // the last value written to the peer's notify word
        bool confirmed = false;      // the peer has notified with that value
        uint32_t last = UINT32_MAX;  // the number of that write (WorkRequests::write_word)
        bool always = false;         // the peer notifies without being asked
    };

    // Control frames to be sent as soon as the send queue has room. Of ControlFrames.
    enum Due : uint8_t {
        kCreditDue = 1,
        kOfferDue = 2,
        kRevokeDue = 4,
        kReleaseDue = 8,
        kWordsDue = 16,  // the address of Sending::words
        kCreditRequestDue = 32,
        kAllowanceDue = 64,
    };
    struct Control {
        uint8_t due = 0;      // set of Due
        bool listed = false;  // is in ControlFrames' list
    };

    // What the connection has been used for, to explain it at its end. Counted once for each block
    // and each long message.
    struct Tally {
        uint32_t blocks_taken = 0;    // from the peer, to write into
        uint32_t blocks_offered = 0;  // to the peer
        uint64_t staged = 0;          // long messages received, by scheme
        uint64_t placed = 0;
        uint64_t read = 0;
        uint64_t bytes = 0;  // of these
        bool told = false;
    };

    // Whether an operation is under way whose cookie `is` accepts.
    template <class Is>
    bool any_cookie(Is&& is) const {
        return sends.any_cookie(is) || backlog.any_cookie(is);
    }

    Sending sending;
    Receiving receiving;
    Batch batch;
    Notifying notifying;
    Control control;

    // For OneSided: the number of reads and atomics under way, which later work requests may
    // overtake. The handlers of their cookies decrement it.
    uint32_t replies = 0;
    // Of the rendezvous (ChannelTransfers), and of the engine's user (in UCT ChannelPause).
    LayerState<48> transfers_state;
    LayerState<16> user_state;

    ConnectionUse use;  // of IdleChannels
    // The places that an operation of several work requests did not find last, until whoever waits
    // for them has asked whether they are there; see Engine::has_room().
    uint32_t refused_places = 1;
    Backlog backlog;           // of EarlySends; empty once the connection is up
    std::vector<void*> users;  // of Channels: the endpoints
    Tally tally;
};

// A send in the usual case touches two cache lines of its own direction. The queue pair, the tag
// and the counts of SendQueue are in the first one (connection.h).
static_assert(offsetof(Channel::Sending, path) + SendPath::kHotBytes <= 64);
static_assert(alignof(Channel::Sending) == 64 && alignof(Channel::Receiving) == 64);
// The credit that the send returns is in the receiving side's first line. clang warns of an offset
// in a type that contains classes with private members, but knows it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
static_assert(sizeof(ReceivePath) <= 64 && offsetof(Channel::Receiving, path) == 0);
#pragma GCC diagnostic pop

}  // namespace tern
