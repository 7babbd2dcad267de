// SPDX-License-Identifier: BSD-3-Clause
// Tagged messages: interfaces that match them, receives, unexpected messages.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "transfer.h"

namespace uct_test {

inline constexpr uct_tag_t kFullMask = ~uct_tag_t{0};

// A message or a request to send that found no receive.
struct Unexpected {
    bool request = false;
    uct_tag_t tag = 0;
    uint64_t immediate = 0;
    unsigned flags = 0;
    std::string data;  // message, or the request's header
    uint64_t address = 0;
    std::size_t length = 0;
    Remote remote;  // valid if `address` is not 0
};

// The callbacks for unexpected messages and requests.
class Mailbox {
  public:
    static constexpr std::size_t kHeadroom = 48;

    // Adds the callbacks to an interface's parameters.
    void add_to(uct_iface_params_t& params);
    // Releases the kept descriptors.
    void release();

    std::deque<Unexpected> messages;
    bool keep = false;        // keep descriptors
    std::vector<Bytes> kept;  // their messages
    std::function<void(const Unexpected&)> on_message;

  private:
    static ucs_status_t on_eager(void* self, void* data, size_t length, unsigned flags,
                                 uct_tag_t tag, uint64_t immediate, void** context);
    static ucs_status_t on_rndv(void* self, unsigned flags, uint64_t tag, const void* header,
                                unsigned header_length, uint64_t address, size_t length,
                                const void* key);
};

// An interface with tag matching.
struct TagEntity {
    explicit TagEntity(Settings settings = {});

    std::unique_ptr<Mailbox> mailbox = std::make_unique<Mailbox>();
    Entity entity;
};

// A receive. Its memory is filled with 0xff first. Must outlive its posting.
class Receive {
  public:
    Receive(TagEntity& at, std::size_t room);
    Receive(const Receive&) = delete;
    Receive& operator=(const Receive&) = delete;

    // Returns the status of iface_tag_recv_zcopy.
    ucs_status_t post(uct_tag_t tag, uct_tag_t mask = kFullMask);
    ucs_status_t cancel(bool force);
    bool done() const { return completed != 0 || requested != 0; }
    // Ends the declaration, or invalidates the memory.
    void undeclare() { memory_.undeclare(); }
    void invalidate(Completion& completion) { memory_.invalidate(completion); }
    // The received bytes.
    Bytes bytes() const { return {memory_.data(), length}; }
    Bytes memory(std::size_t part) const { return {memory_.data(), part}; }
    // Whether the memory after the received bytes is unchanged.
    bool clean() const;

    int consumed = 0;
    int completed = 0;
    int requested = 0;  // calls of rndv_cb
    ucs_status_t status = UCS_INPROGRESS;
    uct_tag_t tag = 0;
    uint64_t immediate = 0;
    std::size_t length = 0;
    std::string header;
    unsigned flags = 0;
    bool in_place = false;  // not delivered in a temporary buffer
    std::function<void()> then;

  private:
    struct Context : uct_tag_context_t {
        Receive* owner;
    };
    static Receive& of(uct_tag_context_t* context) {
        return *static_cast<Context*>(context)->owner;
    }

    uct_iface_h iface_;
    Declared memory_;
    std::size_t room_;
    Context context_{};
};

// Sends. All return UCT's status, or UCS_OK where UCT returns a length.
ucs_status_t tag_short(const Endpoint& ep, uct_tag_t tag, Bytes message);
ucs_status_t tag_bcopy(const Endpoint& ep, uct_tag_t tag, Bytes message, uint64_t immediate = 0);
ucs_status_t tag_zcopy(const Endpoint& ep, uct_tag_t tag, std::span<const uct_iov_t> message,
                       Completion* completion, uint64_t immediate = 0);
ucs_status_t tag_request(const Endpoint& ep, uct_tag_t tag, const std::string& header);
// Begins a rendezvous of the first `length` bytes of `from`, as soon as that is possible while
// `who` progresses. Returns its handle. `completion`: one operation of it.
void* tag_rndv(const Group& who, const Endpoint& ep, uct_tag_t tag, const Declared& from,
               std::size_t length, Completion& completion, const std::string& header = "header");

// Two interfaces, and an endpoint from `a` to `b`.
struct TagPair {
    explicit TagPair(const Settings& settings = {}) : TagPair(settings, settings) {}
    TagPair(const Settings& of_a, const Settings& of_b) : a(of_a), b(of_b) {}

    // Sends by bcopy until the message is accepted.
    void send(uct_tag_t tag, Bytes message, uint64_t immediate = 0);
    void* begin(uct_tag_t tag, const Declared& from, std::size_t length, Completion& completion,
                const std::string& header = "header") {
        return tag_rndv(all, ep, tag, from, length, completion, header);
    }
    // Begins a rendezvous without a receive; waits until the receiver has the request.
    void* announce(uct_tag_t tag, const Declared& from, std::size_t length, Completion& completion,
                   const std::string& header = "header");
    testing::AssertionResult until(const std::function<bool()>& condition) {
        return eventually(all, condition);
    }
    // Closes the receiving interface.
    Counters close_and_count();

    TagEntity a, b;
    const Group all{&a.entity, &b.entity};
    Endpoint ep = a.entity.connect(b.entity);
};

// A rendezvous message, and a posted receive with `room` bytes.
struct RendezvousMessage {
    RendezvousMessage(TagPair& pair, std::size_t length, std::size_t room, uint64_t seed = 1);
    RendezvousMessage(TagPair& pair, std::size_t length)
        : RendezvousMessage(pair, length, length) {}

    // Whether both sides have been told of the end.
    bool over() const { return receive.done() && completion.calls != 0; }
    bool right() const { return filled(receive.bytes(), seed); }

    const uint64_t seed;
    Declared from;
    Receive receive;
    Completion completion;
    void* operation;
};

class TagTest : public TernTest {};

}  // namespace uct_test
