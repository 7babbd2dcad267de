// SPDX-License-Identifier: BSD-3-Clause
// Streams of random messages that both sides can compute: tests detect every message that is lost,
// repeated, changed or out of order.
#pragma once

#include <deque>
#include <optional>

#include "common/seed.h"
#include "message.h"

namespace uct_test {

// The messages of a stream, as plain bytes that can be sent to another process.
struct Stream {
    uint64_t seed = 1;
    uint64_t count = 0;
    uint8_t id = 0;  // messages have this id or the next
    bool shorts = true;
    bool bcopies = true;
    bool zcopies = true;
    // Most messages have at most `typical` bytes, the others up to their kind's limit or `most`.
    uint32_t typical = 256;
    uint32_t most = UINT32_MAX;

    struct Message {
        Kind kind;
        uint8_t id;
        std::size_t length;
        uint64_t random;
    };
    Message at(uint64_t number, const uct_iface_attr_t& sender) const;
};

using tern::test::any_seed;

class Sender {
  public:
    Sender(Entity& from, const Endpoint& ep, const Stream& stream);
    ~Sender();

    // Sends while there are resources, at most `most` messages; may then add a pending request.
    // False: no message was sent.
    bool step(unsigned most = 8);
    bool done() const { return next_ == stream_.count && outstanding_ == 0; }
    // Not UCS_OK: the stream has failed.
    ucs_status_t status() const { return status_; }
    uint64_t sent() const { return next_; }
    unsigned outstanding() const { return outstanding_; }
    bool is_pending() const { return is_pending_; }

  private:
    struct Slot {
        Completion completion;
        bool busy = false;
    };
    bool has_buffer();
    ucs_status_t send();
    ucs_status_t send_zcopy(const Stream::Message& message, Bytes content);
    void wait();

    Entity& from_;
    const Endpoint& ep_;
    Stream stream_;
    uint64_t next_ = 0;
    unsigned outstanding_ = 0;
    ucs_status_t status_ = UCS_OK;
    bool is_pending_ = false;
    Pending pending_;
    std::size_t slot_size_;
    Memory memory_;
    std::deque<Slot> slots_;
};

class Receiver {
  public:
    // `sender`: attributes of the sending interface, which limit the lengths.
    Receiver(Entity& at, const Stream& stream, const uct_iface_attr_t& sender);
    ~Receiver();

    bool done() const { return next_ == stream_.count; }
    uint64_t received() const { return next_; }
    // Describes the first wrong message; empty: there was none.
    const std::string& wrong() const { return wrong_; }

  private:
    void take(uint8_t id, Bytes message);

    Entity& at_;
    Stream stream_;
    uct_iface_attr_t sender_;
    uint64_t next_ = 0;
    std::string wrong_;
};

// One direction of traffic within a process.
struct Flow {
    Flow(Entity& from, Entity& to, const Stream& stream);
    // Uses an endpoint that other flows may use too.
    Flow(Entity& from, const Endpoint& ep, Entity& to, const Stream& stream);

    bool done() const { return sender.done() && receiver.done(); }

    Entity& from;
    Entity& to;
    Endpoint own;
    Receiver receiver;
    Sender sender;
};

// Runs all senders and receivers to their end, with random amounts of progress. Fails if nothing
// moves for `limit`.
testing::AssertionResult run(const std::vector<Flow*>& flows, milliseconds limit = deadline());
// Runs the senders and receivers of the interfaces of one process.
testing::AssertionResult run(const Group& who, const std::vector<Sender*>& senders,
                             const std::vector<Receiver*>& receivers,
                             milliseconds limit = deadline());

}  // namespace uct_test
