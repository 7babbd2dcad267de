// SPDX-License-Identifier: BSD-3-Clause
// Both ends of a connection, with the paths of both directions and a reliable connection between
// them.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "common/random.h"
#include "tern/veloblock/receive_path.h"
#include "tern/veloblock/send_path.h"

namespace tern {

// Uses SendPath and ReceivePath as an engine does, at random. The connection carries the sends and
// writes of a side in the order of posting, a few bytes at a time. A receiver may look into its
// block, and at its completions, at any time.
class PathsWorld {
  public:
    struct Limits {
        uint32_t block_first = 512;
        uint32_t block_most = 4096;
        uint32_t longest = 1024;  // bytes of payload
        bool notify = false;      // writes cause completions, and blocks are not polled
        unsigned pays = 100;      // percent of the credit that presses, for which there is room
        bool words = false;       // credit goes to credit words while it may
    };

    PathsWorld(Random random, const Limits& limits);

    // Random steps of all kinds.
    void chaos(unsigned steps);
    // One random step.
    void step();
    // Starts nothing new: everything under way arrives.
    void settle();
    // Each block takes its longest payload again, without a stall.
    void expect_room();
    // Revokes all blocks; all are released.
    void expect_no_blocks();

    // Single steps, for tests that need one. send(): false if it finds no room.
    bool send(int side, uint32_t length, bool packed = false);
    void promote(int side);
    void revoke(int side);
    // All that `side` has posted arrives, and its peer takes it while it is too busy to send the
    // control frames that are due.
    void deliver_to_busy(int side);
    // All that `side` has posted arrives; its peer takes none of the frames.
    void arrive_unhandled(int side) { carry(sides_[side], UINT64_MAX); }
    uint32_t block_size(int side) const { return sides_[side].tx.block_size(); }
    bool hot(int side) const { return sides_[side].tx.hot(); }
    uint64_t sent_hot() const { return sent_hot_; }
    uint64_t sent_cold() const { return sent_cold_; }
    uint64_t blocks_offered() const { return blocks_offered_; }
    uint64_t words_written() const { return words_written_; }

    // The first rule that was broken; empty if none.
    const std::string& wrong() const { return wrong_; }

  private:
    enum Due : unsigned { kCreditDue = 1, kGrantDue = 2, kRevokeDue = 4, kReleaseDue = 8 };
    using Bytes = std::vector<std::byte>;

    struct Post {
        uint64_t to = 0;  // address that a write goes to; 0: a send
        bool notify = false;
        Bytes bytes;
        size_t done = 0;
        bool credit = false;  // to the peer's credit word
    };
    struct Block {
        struct alignas(kStep) Step {
            std::byte bytes[kStep];
        };
        std::vector<Step> memory;
        size_t size() const { return memory.size() * kStep; }
        uint64_t address() const { return reinterpret_cast<uint64_t>(memory.data()); }
    };
    // An entry of a completion queue. `bytes`: of a send; empty for a write with notification.
    struct Completion {
        bool write = false;
        Bytes bytes;
    };
    struct Side {
        SendPath tx;
        BlockOffer held;  // the peer's block
        bool stalled = false;
        uint64_t sent = 0;
        uint32_t credit_word = 0;  // which the peer's device writes
        uint32_t credit_seen = 0;

        ReceivePath rx;
        std::unique_ptr<Block> block;  // for the peer
        bool active = false;           // has a block or is about to get one
        uint32_t requested_bytes = 0;
        uint64_t received = 0;

        unsigned due = 0;
        std::deque<Post> wire;  // to the peer
        std::deque<Completion> completions;
    };

    void broken(const std::string& rule);
    Side& peer(const Side& side) { return &side == &sides_[0] ? sides_[1] : sides_[0]; }

    void post_send(Side& side, Word word, const Bytes& payload);
    void post_write(Side& side, uint32_t at, Bytes bytes, bool notify);
    bool send_control(Side& side, ControlId id, const void* payload, uint32_t length);
    void stall(Side& side);
    void pay(Side& side, unsigned most);
    void pay_credit(Side& side);
    void take_credit(Side& side);
    void grant(Side& side);
    // The device carries this many of the bytes that `side` has posted.
    void carry(Side& side, uint64_t bytes);
    void arrived(Side& side, Post& post);
    unsigned poll_block(Side& side, unsigned most);
    bool poll_completion(Side& side);
    void received_cold(Side& side, const Bytes& frame);
    void control(Side& side, Word word, const std::byte* payload);
    void message(Side& side, Word word, const std::byte* payload);

    Random random_;
    Limits limits_;
    Side sides_[2];
    uint64_t sent_hot_ = 0;
    uint64_t sent_cold_ = 0;
    uint64_t blocks_offered_ = 0;
    uint64_t words_written_ = 0;
    std::string wrong_;
};

}  // namespace tern
