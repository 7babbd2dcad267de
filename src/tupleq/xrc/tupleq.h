// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "connection/cookie.h"
#include "pinning/cache/pin_cache.h"
#include "pinning/regions/regions.h"
#include "rendezvous/flushes.h"
#include "rendezvous/rendezvous.h"
#include "tupleq/core/policy.h"
#include "tupleq/core/posted.h"
#include "tupleq/core/senders.h"
#include "tupleq/xrc/link.h"
#include "tupleq/xrc/messages.h"
#include "tupleq/xrc/queues.h"
#include "tupleq/xrc/settings.h"

namespace tern {

class TupleQ;

// A posted receive, and the memory that its message may be placed in.
struct TupleReceive : PostedReceive {
    std::byte* buffer = nullptr;
    size_t room = 0;
    RegionKey region;  // the declaration of the memory; none if the generation is 0
};

// The posted receives, all of them TupleReceive, as a PostedTable for TupleMatcher.
class TupleTable : public TuplePosted {
  public:
    TupleTable(PostedReceives& posted, TupleQ& tupleq) : TuplePosted(posted), tupleq_(tupleq) {}

    static TupleReceive& receive(ReceiveHandle handle) {
        return *static_cast<TupleReceive*>(TuplePosted::receive(handle));
    }
    static uint64_t capacity(ReceiveHandle of) { return receive(of).room; }
    bool prepare(ReceiveHandle of);
    void remove(ReceiveHandle of);

  private:
    TupleQ& tupleq_;
};

struct TupleQCounters {
    uint64_t sent = 0;  // messages
    uint64_t sent_copied = 0;
    uint64_t sent_bytes = 0;
    uint64_t received_bytes = 0;
    uint64_t links = 0;  // XRC links made, without the loop-back link
    uint64_t links_lost = 0;
    uint64_t not_ready = 0;    // messages that found no receive; must remain 0
    uint64_t queues_most = 0;  // in use at a time
    uint64_t unpinned = 0;     // times memory could not be registered
    uint64_t stopped = 0;      // queues destroyed because memory of a receive was deregistered
};

using TupleCounters = TupleMatcher<TupleTable>::Counters;

// The owner of the direct path, and what it is told.
class TupleQOwner {
  public:
    // A send or a flush is complete.
    virtual void completed(void* cookie, Status status) = 0;
    // The receive is no longer posted: its message has come or is certain to come, or the receive
    // is canceled. The owner may only take note.
    virtual void taken(TupleReceive& receive) = 0;
    // The message of this tag is in the receive's memory or, unless the status is kOk, lost. The
    // receive is no longer posted.
    virtual void received(TupleReceive& receive, uint64_t tag, uint32_t length, Status status) = 0;
    // The receive is canceled; cancel() had returned kLater.
    virtual void canceled(TupleReceive& receive) = 0;
    // Held messages of this peer can be offered again. The peer's channel may be gone.
    virtual void retry(uint32_t peer) = 0;
    // Writes a warning to the log.
    virtual void warn(const std::string& text) = 0;

  protected:
    ~TupleQOwner() = default;
};

// Direct messages, which the device places into the receives posted for them: the binding of TupleQ
// to XRC. Each tuple has a shared receive queue at the receiver, and words in the sender's memory
// to which the receiver writes grants. One thread at a time.
class TupleQ {
  public:
    using Tuple = TupleSenders::Tuple;

    // Null if the device cannot do this; `why` gives the reason. `posted` must contain only
    // TupleReceive.
    static std::unique_ptr<TupleQ> create(const verbs::Device& device, const verbs::Port& port,
                                          Engine& engine, Rendezvous& rendezvous, Regions& regions,
                                          PinCache& pins, PostedReceives& posted,
                                          const TupleQSettings& settings, TupleQOwner& owner,
                                          std::string& why);
    ~TupleQ();
    TupleQ(const TupleQ&) = delete;
    TupleQ& operator=(const TupleQ&) = delete;

    // Sending, the data path: send.h. Returns the tuple of a message; null if the message is
    // ordinary.
    Tuple* find(const Channel& channel, uint64_t tag) {
        return senders_.bound() == 0 ? nullptr : senders_.find(number_of(channel), tag);
    }
    // True if the tuple's next message, with this tag, may be sent by one of the functions below.
    // An ordinary message of the tuple carries mark(); call that once, when the message is certain
    // to be sent.
    bool may_send(const Tuple& tuple, uint64_t tag, uint64_t length) const;
    static TupleMark mark(Tuple& tuple) { return TupleSenders::mark(tuple); }
    // At most copy_most bytes. For all send functions, kNoResource means that there is no memory,
    // or that the receiver has taken the grant back: send the message as an ordinary one.
    Status send(Channel& channel, Tuple& tuple, const void* data, uint32_t length);
    // A buffer for copy_most bytes; null if there is none. The caller sends it or gives it back;
    // after kNoResource it is still the caller's.
    SendPool::Buffer* take_buffer() { return pool_.take(); }
    void give_buffer(SendPool::Buffer* buffer) { pool_.give(buffer); }
    Status send(Channel& channel, Tuple& tuple, SendPool::Buffer* buffer, uint32_t length);
    // Sends from the user's memory. kInProgress: `cookie`, if any, is told when the memory may be
    // used again. kNoResource: also if the memory cannot be registered.
    Status send_zcopy(Channel& channel, Tuple& tuple, const void* data, uint32_t length,
                      void* cookie);

    // Receiving: receive.cc. A receive has been posted.
    void posted(const TupleReceive& receive) {
        if (table_.wants_other_key()) [[unlikely]]
            change_key();
        if (active_ == 0 || !table_.is_keyed(receive)) return;
        matcher_.posted(receive.tag);
        act();
    }
    // Requests the cancellation of a posted receive.
    using Cancel = TupleMatcher<TupleTable>::Cancel;
    Cancel cancel(TupleReceive& receive);
    // Decides a cancel that is kLater at once: waits for the sender's device, for a bounded time.
    // True: the receive is canceled, and the owner has been told. False: its message is or may be
    // on its way.
    bool cancel_now(TupleReceive& receive);
    // From now on sends no direct message and refuses each Bind, because the user sends some
    // messages of the same tags by another path. False: that was so already.
    bool stop_sending();
    // An ordinary message has come. It takes the receive, if any, which is then no longer posted;
    // or it is to be held. `mark`: null if the message carries none. `length`: in bytes; 0 if the
    // message could not have been direct. The caller delivers the message and then calls
    // delivered(), because actions may reach the user, who must find the message delivered.
    using Arrival = TupleMatcher<TupleTable>::Arrival;
    Arrival ordinary(Channel& channel, uint64_t tag, const TupleMark* mark, uint64_t length);
    void delivered() { act(); }
    // As ordinary(), for a held message of the peer with this number.
    Arrival retry(uint32_t peer, uint64_t tag);
    static uint32_t number_of(const Channel& channel) {
        return static_cast<uint32_t>(channel.tag >> 32);
    }
    // Binds the tuple of this channel and tag, or unbinds it. False if the tuple gets no queue.
    bool bind(Channel& channel, uint64_t tag);
    void unbind(uint64_t tag);

    // kOk: all messages sent so far on this channel have arrived. kInProgress: the waiter, if any,
    // is told.
    Status flush(Channel& channel, const Waiter& waiter);
    // The device has failed. All sends on links fail, and nothing more is polled.
    void break_down();
    // A user leaves the channel: cancels the user's flushes.
    void cancel_flushes(const Channel& channel, const void* user) {
        flushes_.cancel(channel, user, owner_);
    }
    bool idle() const { return under_way_ == 0; }
    // For fences. sent(): the number of direct messages sent to this peer so far. arrived(): that
    // many have arrived. may_overtake(): a direct message sent now could overtake the contents of
    // this channel's send queue.
    uint64_t sent(const Channel& channel) const;
    bool arrived(const Channel& channel, uint64_t count) const;
    bool may_overtake(const Channel& channel) const {
        return senders_.bound() != 0 && find_peer(number_of(channel)) != nullptr;
    }

    bool has_work() const { return active_ != 0 || !requests_.empty() || !waiting_.empty(); }
    unsigned progress() { return has_work() ? advance() : 0; }
    // As Engine::arm().
    Status arm();

    static bool is_cookie(const void* cookie) { return kind_of(cookie) == CookieKind::kRevocation; }
    void done(void* cookie, Status status);
    bool control(Channel& channel, uint32_t id, const std::byte* data, uint32_t length);
    Status ended(Channel& channel, Status status);

    const TupleQCounters& counters() const { return counters_; }
    const TupleCounters& matching() const { return matcher_.counters(); }
    uint32_t queues_in_use() const;
    // Words for grants, and buffers that messages are sent from.
    uint64_t registered_bytes() const { return grants_.size() + pool_.registered_bytes(); }
    uint32_t tuples_sent() const { return senders_.bound(); }

  private:
    friend class TupleTable;

    static constexpr int kBurst = 16;              // completions at a time
    static constexpr size_t kMostRequests = 4096;  // unanswered requests of a peer

    // The word that a revocation's read fills, until the read is complete. In the read's cookie,
    // above the kind: 16 bits for the queue, then the count of the kRevoke.
    static constexpr uint64_t kNothingRead = ~uint64_t{0};
    // ns: how long cancel_now() waits, and how long an announced message may take to come.
    static constexpr uint64_t kReadLimit = 1'000'000'000;
    static constexpr uint64_t kAnnouncedLimit = 2'000'000'000;

    // Immediate data of a direct message: the receiver's number of the tuple, and the message's
    // number. No message has the immediate data of a drain.
    static constexpr uint32_t kDrain = 0xffffffff;
    static constexpr uint32_t name_of(uint16_t tuple, uint16_t sequence) {
        return uint32_t{tuple} << 16 | sequence;
    }

    // A Bind or Close of a peer, which this side answers as the sender, in order.
    struct Request {
        bool close = false;
        WireBind bind;
        WireClose unbind;
    };
    struct Peer {
        Channel* channel = nullptr;
        std::deque<Request> requests;
        verbs::QueuePair end;  // this side's end of the peer's link to this node
        WireConnected answer;
        bool answer_due = false;
        uint64_t refused = 0;  // a node to which no link could be made; the next answer says so
        uint64_t grants = 0;   // address of the peer's words for grants
        uint32_t grants_rkey = 0;
        uint64_t posted = 0;  // direct messages, ever
        uint64_t completed = 0;
        bool lost = false;   // some message may not have arrived
        TupleActions later;  // actions that found no room, and ordered actions behind them
    };
    // The way of a tuple's direct messages. Without a link, messages are ordinary.
    struct Route {
        XrcLink* link = nullptr;
        uint32_t queue = 0;
    };
    // The memory of a granted receive.
    struct Prepared {
        Pin* pin = nullptr;
        RegionUse* use = nullptr;
        ibv_sge piece{};
    };

    TupleQ(const verbs::Port& port, Engine& engine, Rendezvous& rendezvous, Regions& regions,
           PinCache& pins, PostedReceives& posted, const TupleQSettings& settings,
           TupleQOwner& owner);
    bool open(const verbs::Device& device, std::string& why);

    Peer& peer_of(Channel& channel);
    Peer* find_peer(uint32_t number) const;
    template <class Frame>
    bool say(Channel& channel, TupleControlId id, const Frame& frame);
    void malformed(Channel& channel);

    // tupleq.cc
    unsigned advance();
    unsigned poll();
    void handle(const ibv_wc& completion);
    unsigned progress_flushes();

    // links.cc
    bool grow_queue(uint32_t links);
    XrcLink* make_link();
    XrcLink* link_to(Channel& channel, uint64_t node);
    bool ask(XrcLink& link);
    bool open_loopback();
    bool connect(XrcLink& link, const PortAddress& to, uint32_t qp_num, uint32_t mtu);
    bool connect_wanted(Channel& channel, const WireConnect& frame);
    bool connected(Channel& channel, const WireConnected& frame);
    void over(XrcLink& link);
    void sent(const ibv_wc& completion);
    void drain_sent(XrcLink& link, const void* cookie, ibv_wc_status status);
    bool requested(Channel& channel, const Request& request);
    void remember(Channel& channel);
    unsigned answer_requests();
    bool answer(Peer& peer, const Request& request);
    bool answer_bind(Peer& peer, const WireBind& bind);

    // send.h
    Status post(Channel& channel, Tuple& tuple, ibv_send_wr& request, uint32_t length,
                SendPool::Buffer* buffer, Pin* pin, void* cookie);

    // revoke.cc
    bool revoke(TupleAction& action);
    void revoked(uint16_t number, uint32_t count, uint64_t announced);
    void ask_again();
    void remember_undecided(uint16_t number);
    uint64_t& read_word(uint16_t number) {
        return reinterpret_cast<uint64_t*>(
            grants_.data())[settings_.tuples * TupleSender::words(settings_.depth) + number];
    }

    // receive.cc
    bool prepare(const TupleReceive& receive);
    void act();
    void perform_or_keep(TupleAction& action);
    unsigned catch_up();
    void place_prepared(const TupleAction& action);
    void lend(uint16_t number, uint32_t place, bool writes);
    void lend_void_entries(uint16_t number);
    void fail_stopped();
    bool perform(TupleAction& action);
    bool put_and_grant(const TupleAction& action);
    bool announce(const TupleAction& action);
    bool post_drain(TupleAction& action);
    bool is_astray(const void* cookie) const;
    // In a drain's cookie: the queue's index, and above it the generation.
    void* drain_cookie(uint16_t tuple) const {
        return reinterpret_cast<void*>(uintptr_t{queues_->generation(tuple)} << 16 | tuple);
    }
    static uint16_t tuple_of_drain(const void* cookie) {
        return static_cast<uint16_t>(reinterpret_cast<uintptr_t>(cookie));
    }
    void discard(uint16_t number);
    void arrived(const ibv_wc& completion);
    bool bound(Channel& channel, const WireBound& frame);
    void change_key();
    void judge(Channel& channel, uint64_t tag, const TupleMark* mark, uint64_t length,
               const Arrival& arrival);
    bool begin(Channel& channel, uint64_t tag);
    void look_whether_free(uint16_t number);
    void free_place(uint16_t number, uint32_t place) {
        release(places_[number * settings_.depth + place]);
    }
    void release(Prepared& prepared);
    void fail_tuple(uint16_t number, Status status, const std::string& why);
    void spoilt(uint16_t number, const std::string& what);

    verbs::Port port_;
    Engine& engine_;
    Rendezvous& rendezvous_;
    Regions& regions_;
    PinCache& pins_;
    TupleQSettings settings_;
    TupleQOwner& owner_;

    std::unique_ptr<verbs::XrcDomain> domain_;
    uint32_t max_cqe_ = 0;
    XrcCompletions completions_;
    verbs::RegisteredMemory grants_;
    SendPool pool_;
    uint32_t active_ = 0;  // queues and links ever made: completions may come
    bool acting_ = false;
    bool broken_ = false;     // the device has failed
    uint64_t under_way_ = 0;  // direct messages

    std::vector<std::unique_ptr<Peer>> peers_;  // by the channel's index
    std::vector<std::unique_ptr<XrcLink>> links_;
    XrcLink* loopback_ = nullptr;
    verbs::QueuePair loopback_end_;
    uint32_t attempts_ = 0;
    std::vector<Channel*> requests_;  // channels of peers with requests, or with an answer due
    Flushes flushes_;

    TupleSenders senders_;
    std::vector<Route> routes_;  // by the sender's number of a tuple

    TupleTable table_;
    TupleMatcher<TupleTable> matcher_;
    TuplePolicy policy_;
    std::vector<bool> taken_;  // queues that the policy counts as bound
    struct Undecided {
        uint16_t number;
        uint64_t since;  // ns
    };
    std::vector<Undecided> undecided_;  // queues with a receive to be canceled that may be used
    bool sends_ = true;
    std::unique_ptr<XrcQueues> queues_;
    std::vector<Peer*> waiting_;      // peers with actions in `later`
    std::vector<Prepared> places_;    // for the entries of all queues, queue by queue
    std::vector<Prepared> prepared_;  // for the kGrant actions still in the core's list, in order
    size_t next_prepared_ = 0;
    TupleQCounters counters_;
};

template <class Frame>
bool TupleQ::say(Channel& channel, TupleControlId id, const Frame& frame) {
    return channel.up() &&
           engine_.send_control(channel, static_cast<ControlId>(id), &frame, sizeof(frame));
}

}  // namespace tern
