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
#include "rendezvous/mover.h"
#include "tupleq/core/policy.h"
#include "tupleq/core/posted.h"
#include "tupleq/core/senders.h"
#include "tupleq/xrc/link.h"
#include "tupleq/xrc/messages.h"
#include "tupleq/xrc/queues.h"
#include "tupleq/xrc/settings.h"

namespace tern {

class TupleQ;

// A receive with the memory that its message may be placed in.
struct TupleReceive : PostedReceive {
    std::byte* buffer = nullptr;
    size_t room = 0;
    RegionKey region;  // that the memory was declared as; none, if the generation is 0
};

// The receives that are posted, all of them TupleReceive, as TupleMatcher looks at them.
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
    uint64_t links = 0;  // XRC connections made, to nodes
    uint64_t links_lost = 0;
    uint64_t not_ready = 0;    // messages that found no receive: never
    uint64_t queues_most = 0;  // in use at a time
    uint64_t unpinned = 0;     // memory that could not be registered
    uint64_t stopped = 0;      // queues, for memory of theirs was deregistered
};

using TupleCounters = TupleMatcher<TupleTable>::Counters;

// What the owner of the direct path hears.
class TupleQOwner {
  public:
    // A send, or a flush, is over.
    virtual void completed(void* cookie, Status status) = 0;
    // A receive is no longer posted: its message is there, or on its way and nobody else's; or it
    // is cancelled. Nothing may be done about it but to take note.
    virtual void taken(TupleReceive& receive) = 0;
    // A message of this tag is in the receive's memory, or, with another status than kOk, lost. It
    // is no longer posted.
    virtual void received(TupleReceive& receive, uint64_t tag, uint32_t length, Status status) = 0;
    // A receive whose cancellation was to be heard of later.
    virtual void cancelled(TupleReceive& receive) = 0;
    // Messages of this peer that are held can be offered again; its channel may be over.
    virtual void retry(uint32_t peer) = 0;
    // A warning for the log.
    virtual void warn(const std::string& text) = 0;

  protected:
    ~TupleQOwner() = default;
};

// Messages that the device places into the receives posted for them: the binding of TupleQ to XRC.
// Each tuple has a shared receive queue of its own at the receiver, and words in the sender's
// memory that the receiver writes grants to. One thread at a time.
class TupleQ {
  public:
    using Tuple = TupleSenders::Tuple;

    // Null if the device cannot; `why` says why. `posted`: of TupleReceive.
    static std::unique_ptr<TupleQ> create(const verbs::Device& device, const verbs::Port& port,
                                          Engine& engine, Mover& mover, Regions& regions,
                                          PinCache& pins, PostedReceives& posted,
                                          const TupleQSettings& settings, TupleQOwner& owner,
                                          std::string& why);
    ~TupleQ();
    TupleQ(const TupleQ&) = delete;
    TupleQ& operator=(const TupleQ&) = delete;

    // Sending, the data path: direct_send.h. The tuple of a message; null if it is an ordinary one.
    Tuple* find(const Channel& channel, uint64_t tag) {
        return senders_.bound() == 0 ? nullptr : senders_.find(number_of(channel), tag);
    }
    // The tuple's next message, with this tag, may be sent by one of the functions below; an
    // ordinary one bears mark(), which is to be asked for once, when it is certain to go.
    bool may_send(const Tuple& tuple, uint64_t tag, uint64_t length) const;
    static TupleMark mark(Tuple& tuple) { return TupleSenders::mark(tuple); }
    // At most copy_most bytes. kNoResource: there is no memory, or the receiver has taken the grant
    // back; send it the ordinary way. So with the others.
    Status send(Channel& channel, Tuple& tuple, const void* data, uint32_t length);
    // A buffer for copy_most bytes; null if there is none. To be sent or given back.
    SendPool::Buffer* take_buffer() { return pool_.take(); }
    void give_buffer(SendPool::Buffer* buffer) { pool_.give(buffer); }
    Status send(Channel& channel, Tuple& tuple, SendPool::Buffer* buffer, uint32_t length);
    // From the user's memory. kInProgress: `cookie`, if any, is told when it may be used again.
    // kNoResource: it cannot be registered; send it the ordinary way.
    Status send_zcopy(Channel& channel, Tuple& tuple, const void* data, uint32_t length,
                      void* cookie);

    // Receiving: direct_receive.cc. A receive has been posted.
    void posted(const TupleReceive& receive) {
        if (table_.wants_other_key()) [[unlikely]]
            change_key();
        if (active_ == 0 || !table_.is_keyed(receive)) return;
        matcher_.posted(receive.tag);
        act();
    }
    // A posted receive is to be cancelled.
    using Cancel = TupleMatcher<TupleTable>::Cancel;
    Cancel cancel(TupleReceive& receive);
    // One whose cancellation is kLater, at once: waits for the sender's device, for a bounded time.
    // True: it is cancelled, and that has been told. False: its message is on its way, or may be.
    bool cancel_now(TupleReceive& receive);
    // From now on no message is sent direct, and no tuple taken: the user sends some messages of
    // the same tags by another way. False: that was so.
    bool stop_sending();
    // A message has come the ordinary way: it has the receive, if any, and that is no longer
    // posted; or it is to be held. `mark`: null if it bears none. `length`: of what could have been
    // direct; 0 if it could not. Then it is delivered, and that is told: what it has the user do
    // must find it.
    using Arrival = TupleMatcher<TupleTable>::Arrival;
    Arrival ordinary(Channel& channel, uint64_t tag, const TupleMark* mark, uint64_t length);
    void delivered() { act(); }
    // The same for one that was held, of the peer with this number.
    Arrival retry(uint32_t peer, uint64_t tag);
    static uint32_t number_of(const Channel& channel) {
        return static_cast<uint32_t>(channel.tag >> 32);
    }
    // Messages of this tag and channel are to be direct from now on, or not any more. False if
    // there is no queue for them.
    bool bind(Channel& channel, uint64_t tag);
    void unbind(uint64_t tag);

    // All sent so far on this channel has arrived: kOk. kInProgress: the waiter, if any, is
    // told.
    Status flush(Channel& channel, const Waiter& waiter);
    // The device does not work: what was sent by links has failed, and nothing more comes.
    void break_down();
    // A user of the channel leaves: his flushes are over.
    void cancel_flushes(const Channel& channel, const void* user) {
        flushes_.cancel(channel, user, owner_);
    }
    bool idle() const { return under_way_ == 0; }
    // For fences. Messages sent to this peer so far, whether so many have arrived, and whether one
    // that is sent now could come before what this channel's send queue holds.
    uint64_t sent(const Channel& channel) const;
    bool arrived(const Channel& channel, uint64_t count) const;
    bool may_overtake(const Channel& channel) const {
        return senders_.bound() != 0 && find_peer(number_of(channel)) != nullptr;
    }

    unsigned progress() {
        if (active_ == 0 && requests_.empty() && waiting_.empty()) return 0;
        return advance();
    }
    // As Engine::arm().
    Status arm();

    // From the engine.
    static bool is_cookie(const void* cookie) { return kind_of(cookie) == CookieKind::kRevocation; }
    void done(void* cookie, Status status);
    bool control(Channel& channel, uint32_t id, const std::byte* data, uint32_t length);
    Status ended(Channel& channel, Status status);

    const TupleQCounters& counters() const { return counters_; }
    const TupleCounters& matching() const { return matcher_.counters(); }
    uint32_t queues_in_use() const;
    // Of its own: words for grants, and buffers that messages are sent from.
    uint64_t registered_bytes() const { return grants_.size() + pool_.registered_bytes(); }
    uint32_t tuples_sent() const { return senders_.bound(); }

  private:
    friend class TupleTable;

    static constexpr int kBurst = 16;              // completions at a time
    static constexpr size_t kMostRequests = 4096;  // of a peer, not answered yet

    // In cookies, above their kind: 16 bits for the queue, then which time it was asked.
    static constexpr uint64_t kNothingRead = ~uint64_t{0};
    // ns; see cancel_now(), and what is announced but not sent.
    static constexpr uint64_t kReadLimit = 1'000'000'000;
    static constexpr uint64_t kAnnouncedLimit = 2'000'000'000;

    // Immediate data of a message: what the receiver calls its tuple, and its number. A drain's is
    // that of no message.
    static constexpr uint32_t kDrain = 0xffffffff;
    static constexpr uint32_t name_of(uint16_t tuple, uint16_t sequence) {
        return uint32_t{tuple} << 16 | sequence;
    }

    // What a peer asks of this side as the sender, to be answered in order.
    struct Request {
        bool close = false;
        WireBind bind;
        WireClose unbind;
    };
    struct Peer {
        Channel* channel = nullptr;
        std::deque<Request> requests;
        verbs::QueuePair end;  // of its link to this node
        WireConnected answer;
        bool answer_due = false;
        uint64_t refused = 0;  // a node that it gives no link to; said with the next answer
        uint64_t grants = 0;   // its memory for grants
        uint32_t grants_rkey = 0;
        uint64_t posted = 0;  // messages, ever
        uint64_t completed = 0;
        bool lost = false;   // one of them
        TupleActions later;  // what there was no room for, and what is behind it
    };
    // Of a tuple that is sent.
    struct Route {
        XrcLink* link = nullptr;
        uint32_t queue = 0;
    };
    // The memory of a receive that is granted.
    struct Prepared {
        Pin* pin = nullptr;
        RegionUse* use = nullptr;
        ibv_sge piece{};
    };

    TupleQ(const verbs::Port& port, Engine& engine, Mover& mover, Regions& regions, PinCache& pins,
           PostedReceives& posted, const TupleQSettings& settings, TupleQOwner& owner);
    bool open(const verbs::Device& device, std::string& why);

    Peer& peer_of(Channel& channel);
    Peer* find_peer(uint32_t number) const;
    template <class Frame>
    bool say(Channel& channel, TupleControlId id, const Frame& frame);
    void malformed(Channel& channel);

    // direct.cc
    unsigned advance();
    unsigned poll();
    void handle(const ibv_wc& completion);
    unsigned progress_flushes();

    // direct_links.cc
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

    // direct_send.h
    Status post(Channel& channel, Tuple& tuple, ibv_send_wr& request, uint32_t length,
                SendPool::Buffer* buffer, Pin* pin, void* cookie);

    // direct_revoke.cc
    bool revoke(TupleAction& action);
    void revoked(uint16_t number, uint32_t count, uint64_t announced);
    void ask_again();
    void remember_undecided(uint16_t number);
    uint64_t& read_word(uint16_t number) {
        return reinterpret_cast<uint64_t*>(
            grants_.data())[settings_.tuples * TupleSender::words(settings_.depth) + number];
    }

    // direct_receive.cc
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
    // Of a drain: the queue, and which one it is that has had this place.
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
    Mover& mover_;
    Regions& regions_;
    PinCache& pins_;
    TupleQSettings settings_;
    TupleQOwner& owner_;

    std::unique_ptr<verbs::XrcDomain> domain_;
    uint32_t max_cqe_ = 0;
    XrcCompletions completions_;
    verbs::RegisteredMemory grants_;
    SendPool pool_;
    uint32_t active_ = 0;  // queues and links there have been: completions may come
    bool acting_ = false;
    bool broken_ = false;     // the device does not work
    uint64_t under_way_ = 0;  // messages

    std::vector<std::unique_ptr<Peer>> peers_;  // by the channel's index
    std::vector<std::unique_ptr<XrcLink>> links_;
    XrcLink* loopback_ = nullptr;
    verbs::QueuePair loopback_end_;
    uint32_t attempts_ = 0;
    std::vector<Channel*> requests_;  // whose peer has requests, or an answer is due
    Flushes flushes_;

    TupleSenders senders_;
    std::vector<Route> routes_;  // by the sender's number of a tuple

    TupleTable table_;
    TupleMatcher<TupleTable> matcher_;
    TuplePolicy policy_;
    std::vector<bool> taken_;  // queues, as far as the policy knows
    struct Undecided {
        uint16_t number;
        uint64_t since;  // ns
    };
    std::vector<Undecided> undecided_;  // queues with receives that are to be cancelled, and used
    bool sends_ = true;
    std::unique_ptr<XrcQueues> queues_;
    std::vector<Peer*> waiting_;      // those with actions for later
    std::vector<Prepared> places_;    // of the entries of queue after queue
    std::vector<Prepared> prepared_;  // for the grants among the core's actions, in order
    size_t next_prepared_ = 0;
    TupleQCounters counters_;
};

template <class Frame>
bool TupleQ::say(Channel& channel, TupleControlId id, const Frame& frame) {
    return channel.up() &&
           engine_.send_control(channel, static_cast<ControlId>(id), &frame, sizeof(frame));
}

}  // namespace tern
