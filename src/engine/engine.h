// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "connection/connector.h"
#include "engine/channel.h"
#include "engine/counters.h"
#include "engine/poll_gap.h"
#include "engine/receive_queue.h"
#include "engine/send_pool.h"
#include "engine/watch.h"
#include "engine/writer_words.h"
#include "veloblock/frame.h"
#include "verbs/late_completion.h"
#include "verbs/port.h"

namespace tern {

enum class PollMode : uint8_t { kAuto, kMemory, kCq };

struct EngineSettings {
    uint32_t segment_size = 8256;  // longest active message: 8 KiB and UCP's header
    uint32_t send_queue = 256;     // work requests of a connection
    uint32_t send_buffers = 1024;  // at most, for all connections
    uint32_t receive_queue = 512;  // buffers, for all connections
    uint32_t inline_bytes = 128;   // at least
    uint32_t block_first = 4096;   // bytes of a peer's first block
    uint32_t block_most = 32768;   // bytes of a peer's largest block
    bool early_sends = true;       // accept sends while a connection is being made
    uint32_t early_id = ~0u;       // accept active messages of this id then in any case
    PollMode poll = PollMode::kAuto;
    Promotion::Limits promotion;
    verbs::RetrySettings retry;
    HandshakeTimes handshake;
};

// Calls to the owner of an engine. Control path.
class EngineOwner {
  public:
    // A connection has failed; for the log.
    virtual void lost(const PeerAddress& peer, Status status, const std::string& why) = 0;
    // The connection is over, and will be destroyed. Called before closed() of its endpoints.
    // Returns the status for the endpoints: kOk only if nothing of theirs was lost.
    virtual Status ended(Channel& channel, Status status) = 0;
    // The connection of the endpoint `user` is over. kOk: nothing was lost, and the next send
    // connects again.
    virtual void closed(void* user, Status status) = 0;
    // The peer that check_peer() has probed for the endpoint `user` does not answer.
    virtual void on_probe_timeout(void* user) = 0;
    // A flush or another operation has ended outside poll(), usually because its connection has.
    virtual void completed(void* cookie, Status status) = 0;
    // The device has failed, and with it the interface: an error for the log. All connections are
    // over, and work requests of the layer above in the device's queues do not complete.
    virtual void broken(const std::string&) {}
    // Information for the log that may explain later errors.
    virtual void note(const std::string&) {}
    // A warning for the log.
    virtual void warn(const std::string& text) = 0;

  protected:
    ~EngineOwner() = default;
};

// An interface's messaging: connections, their fast paths, and the queues they share. One thread at
// a time, except for answer() and look().
//
// A `sink`, the template parameter of the data path, has these members. `data` is valid during the
// call. False: the frame or the immediate data is malformed.
//     void message(uint32_t id, const void* data, uint32_t length);
//     // A frame of kind kTag.
//     bool tagged(Channel& channel, uint32_t id, const std::byte* data, uint32_t length);
//     void completed(void* cookie, Status status);
//     // A control frame of the layer above.
//     bool control(Channel& channel, uint32_t id, const std::byte* data, uint32_t length);
//     // A write with immediate data of the layer above.
//     bool notified(Channel& channel, uint32_t immediate);
class Engine final : private ConnectorOwner {
  public:
    static constexpr uint32_t kPieces = 8;  // scatter/gather entries of a send
    // Bytes that an interface must register at least, with the default segment size.
    static constexpr size_t kLeastMemory = 512 * 1024;

    // Null on failure; `why` says why.
    static std::unique_ptr<Engine> create(const verbs::Device& device, const verbs::Port& port,
                                          const EngineSettings& settings, EngineOwner& owner,
                                          std::string& why);
    // Tells the peers; outstanding operations are lost.
    ~Engine();

    const PeerAddress& address() const { return self_; }
    uint32_t max_short() const { return max_inline_ - BlockWriter::kOverhead - sizeof(uint64_t); }
    uint32_t max_inline() const { return max_inline_; }
    uint32_t max_header() const { return settings_.segment_size / 2; }
    uint32_t max_pieces() const { return kPieces - 2; }
    const EngineSettings& settings() const { return settings_; }

    // The channel to `peer` for the endpoint `user`; begins to connect if there is none. Null if
    // the device refuses; `why` says why.
    Channel* attach(const PeerAddress& peer, void* user, std::string& why);
    // The endpoint no longer uses its channel, which may be null. A channel without users is
    // disconnected.
    void leave(Channel* channel, void* user);
    // Like leave(), for the only user of the channel, with operations under way: their cookies are
    // told within this call, and the device does not access their memory afterwards.
    void leave_at_once(Channel& channel, void* user);
    // Ends the flushes of a user that leaves the channel, or has left it, with kCanceled.
    void cancel_flushes(Channel& channel, const void* user);
    // Whether an operation is under way whose cookie `is` accepts.
    template <class Is>
    static bool any_cookie(const Channel& channel, Is&& is) {
        return channel.sends.any_cookie(is) || channel.backlog.any_cookie(is);
    }
    // Ends the channel at once, and cancels its operations, if `user` is its only user.
    void cancel(Channel& channel, const void* user);
    // Whether a send that was refused would probably be accepted now.
    bool has_room(const Channel& channel) const {
        return (channel.sends.takes_data() && !channel.stalled && pool_.available()) ||
               may_wait(channel);
    }
    // Whether a transfer of the layer above would probably be accepted now. Transfers wait until
    // the connection is up.
    bool may_begin(const Channel& channel) const {
        return channel.sends.takes_data() || may_wait(channel);
    }

    // Whether am_bcopy would accept a message of any length now. If not, counts a refused send.
    bool takes_copies(Channel& channel) {
        if (!channel.sends.takes_data())
            (void)no_room(channel);
        else if (choose(channel, channel.last_bcopy).route == SendPath::Route::kStall)
            (void)stalled(channel);
        else if (!pool_.prepare())
            (void)no_buffer();
        else
            return true;
        return false;
    }

    // Data path: engine_send.h. These functions return kNoResource if the caller is to try again
    // after some progress. Sends wait, as copies, while the connection is being made. `id`: of an
    // active message, or the value of tag_message(). `fill(std::byte* to)` writes the payload of
    // `length` bytes, at most max_short() + 8. Capture by value: only then does the compiler keep
    // it in registers.
    template <class Fill>
    Status am_short(Channel& channel, uint32_t id, uint32_t length, Fill fill);
    // put_short(), and am_short() behind it, by one call of the device. kNoResource: nothing is
    // sent, and the two may still be sent one after the other.
    template <class Fill>
    Status put_am_short(Channel& channel, std::span<const std::byte> data, uint64_t to,
                        uint32_t rkey, uint32_t id, uint32_t length, Fill fill);
    // `pack(void* to)` writes the payload, at most segment_size bytes, and returns its length.
    // `length` returns it to the caller.
    template <class Pack>
    Status am_bcopy(Channel& channel, uint32_t id, Pack&& pack, uint32_t& length);
    // kInProgress: `cookie` is told when the pieces may be used again. kOk: they may be used at
    // once.
    Status am_zcopy(Channel& channel, uint32_t id, std::span<const std::byte> header,
                    std::span<const ibv_sge> pieces, void* cookie);
    // Puts: RDMA writes for the user. put_short() copies the bytes into the work request.
    Status put_short(Channel& channel, const void* data, uint32_t length, uint64_t to,
                     uint32_t rkey);
    template <class Pack>
    Status put_bcopy(Channel& channel, Pack&& pack, uint32_t& length, uint64_t to, uint32_t rkey);
    // For the layer above: an RDMA write of a word. Its loss does not count as the user's.
    Status write_word(Channel& channel, uint64_t word, uint64_t to, uint32_t rkey);
    // For a caller that waits outside poll(): takes a completion off the queue, if there is one,
    // and keeps it for the next poll().
    void keep_completion() {
        ibv_wc completion;
        if (ibv_poll_cq(cq_.get(), 1, &completion) > 0) late_.set_aside(completion);
    }
    // For the layer above: an RDMA write of `pieces`, with immediate data if that is not 0.
    // `cookie`, if any, is told when the pieces may be used again.
    Status write(Channel& channel, std::span<ibv_sge> pieces, uint64_t to, uint32_t rkey,
                 uint32_t immediate, void* cookie);
    // An RDMA read into `pieces`. The handler of `cookie` decrements channel.replies, as for
    // atomics.
    Status read(Channel& channel, std::span<ibv_sge> pieces, uint64_t from, uint32_t rkey,
                void* cookie);
    // A put or get of registered memory. `cookie` is told when it is over; that of a get decrements
    // channel.replies. The channel must have room: has_room_in_place().
    static bool has_room_in_place(const Channel& channel) {
        return channel.sends.room() > channel.transfer_reserve;
    }
    Status put_in_place(Channel& channel, const ibv_sge& from, uint64_t to, uint32_t rkey,
                        void* cookie);
    Status get_in_place(Channel& channel, const ibv_sge& to, uint64_t from, uint32_t rkey,
                        void* cookie);
    // A get of at most segment_size bytes into a buffer of the send pool, which the handler of
    // `cookie` gives back.
    Status get_copy(Channel& channel, uint32_t length, uint64_t from, uint32_t rkey, void* cookie,
                    SendPool::Buffer*& buffer);
    void give_back(SendPool::Buffer* buffer) { pool_.give(buffer); }
    // An atomic operation; `result`: 8 bytes for the old value.
    Status atomic(Channel& channel, ibv_wr_opcode opcode, ibv_sge& result, uint64_t compare_add,
                  uint64_t swap, uint64_t to, uint32_t rkey, void* cookie);
    // Work requests posted from now on begin when all reads and atomics before them are complete.
    // False: there is no room now, or the channel has failed.
    bool fence(Channel& channel);
    // Sends a control frame; `length` is at most kMaxControl. False: there is no room now.
    // `of_user`: it carries something of a user's, so flushes wait for it and report its loss.
    bool send_control(Channel& channel, ControlId id, const void* payload, uint32_t length,
                      bool of_user = false);
    // Ends a channel, with an error for all its users.
    void fail(Channel& channel, Status status, const std::string& why) {
        connector_->fail(channel, status, why);
    }
    // Ends all channels at once and for good, since the device has failed: its queues report no
    // more completions.
    void break_down(const std::string& why);
    // Makes sure that a work request is outstanding whose completion would report the peer's death.
    void request_report(Channel& channel);
    // While transfers of the layer above are under way, the channel is not disconnected, and poll()
    // looks at more than the blocks.
    void transfer_begins(Channel& channel) {
        patience_ = 0;
        ++channel.transfers;
        ++transfers_;
    }
    void transfer_over(Channel& channel) {
        --transfers_;
        if (--channel.transfers == 0) last_transfer_over(channel);
    }
    // The layer above sends to the peer over another queue pair: the channel lasts until
    // release_hold().
    static void hold(Channel& channel) { ++channel.holds; }
    void release_hold(Channel& channel) {
        if (--channel.holds == 0) [[unlikely]]
            connector_->finish_if_idle(channel);
    }
    // The completion channel that wakes a sleeper, for completion queues of the layer above.
    ibv_comp_channel* events() const { return events_.get(); }
    ibv_pd* pd() const { return pd_; }
    // Whether to poll memory for the peer's writes: not while this side may sleep.
    bool polls_memory(const Channel& channel) const { return !sleeper_ && channel.polls_memory; }

    // kOk: all operations so far have arrived. kInProgress: the waiter, if any, is told when they
    // have. kNoResource: try again. An error: the connection has failed and has lost some; closed()
    // follows.
    Status flush(Channel& channel, const Waiter& waiter);
    // Flushes all channels, without a waiter. kInProgress also until closed() has been called for
    // each channel that has failed with a loss.
    Status flush_all();
    // Tests whether the endpoint's peer lives. If not, on_probe_timeout() is called, or the channel
    // fails. `channel` may be null.
    Status check_peer(Channel* channel, const PeerAddress& peer, void* user);
    // Tests whether the peer lives. kInProgress: the waiter is told the result, as of an operation.
    // Any other status: the waiter is not told. kNoResource: there is no room now.
    Status check_channel(Channel& channel, const Waiter& waiter);

    // Data path: engine_poll.h. Handles frames, completions and packets, and adds their number to
    // `count`. True: it has only looked at the blocks; the rest is not due now, and no transfer is
    // under way.
    template <class Sink>
    bool poll(Sink& sink, unsigned& count);
    // Most polls find nothing. True: this was one of them. False: call poll().
    bool blocks_are_empty() {
        after_gap_ = gap_.is_long();
        uint64_t any = 0;
        const uint64_t* const* const end = tails_.data() + tails_.size();
        for (const uint64_t* const* tail = tails_.data(); tail != end; tail += kGroup)
            any |= __atomic_load_n(tail[0], __ATOMIC_RELAXED) |
                   __atomic_load_n(tail[1], __ATOMIC_RELAXED) |
                   __atomic_load_n(tail[2], __ATOMIC_RELAXED) |
                   __atomic_load_n(tail[3], __ATOMIC_RELAXED);
        if (any != 0 || patience_ <= 0 || after_gap_) return false;
        ++counters_.polls;
        patience_ -= kEmptyPoll;
        return true;
    }

    // For sleeping: a file descriptor that becomes readable on events after arm() has returned kOk;
    // -1 on failure, `why` says why. arm() returns kInProgress: call poll() until it returns 0, and
    // try again; arm() succeeds in the end, whatever the peers do. `also`: words of the layer above
    // that a device may change without an event. The engine looks at them at growing intervals;
    // they must stay in memory until the next poll().
    int event_fd(std::string& why);
    Status arm(const std::vector<Watched>& also = {});
    // A descriptor of the layer above, which reads and closes it, that makes event_fd() readable
    // too. Call this before event_fd().
    void watch(int fd) { watched_fd_ = fd; }

    // For a background thread: calls answer() when the descriptor is readable. answer() tells
    // probing peers that this process is alive, and accepts connections, even if the process does
    // not poll. Call answer() once to begin; no thread may call it when the engine is destroyed.
    int background_fd() { return connector_->datagrams().event_fd(); }
    void answer() { connector_->answer(); }
    // For a background thread: calls look() when the descriptor is readable, to find writes into
    // memory that raise no event. Call use_watch_thread() before event_fd(); without such a thread
    // the sleeper is woken to look.
    int watch_fd() const { return watch_.look_fd(); }
    void use_watch_thread() { watch_.use_thread(); }
    void look() { watch_.look(); }

    const Counters& counters() const { return counters_; }
    uint32_t connections() const { return connector_->connections(); }
    uint32_t connections_most() const { return connector_->most_connections(); }
    uint32_t hot_peers() const { return promotion_.hot(); }
    uint64_t receive_queue_bytes() const { return receives_->registered_bytes(); }
    uint64_t send_pool_bytes() const { return pool_.registered_bytes(); }
    uint64_t registered_bytes() const;

  private:
    static constexpr unsigned kWholeBlock = kMaxBlock / Word::kUnit;  // frames
    static constexpr uint32_t kReserve = 8;         // send queue places for control frames
    static constexpr uint32_t kMostWaiting = 32;    // sends and transfers, for one connection
    static constexpr uint32_t kInlineLimit = 1024;  // bytes of a frame on the stack
    // Frames taken from one block, and completions from the queue, at a time.
    static constexpr unsigned kBurst = 16;
    // Sends refused for lack of credit, between two checks whether the peer lives.
    static constexpr uint16_t kStallCheck = 4096;
    static constexpr uint64_t kFlushLimit = 1'000'000'000;  // ns, for a queue pair in error
    // Of the polls that found a frame in a block, one in this many goes on after the blocks, and
    // all while patience_ lasts.
    static constexpr unsigned kBusyPolls = 8;
    // What patience_ begins with, and what it loses with a poll that finds the blocks empty; other
    // polls cost 1.
    static constexpr int kPatience = 32;
    static constexpr int kEmptyPoll = 8;
    // Of the polls that found completions, one in this many sends the control frames that are due.
    static constexpr unsigned kDeferredPolls = 8;
    // Polls of the completion queue between two calls of poll_seldom(); also the packets that one
    // call handles.
    static constexpr unsigned kSeldom = 64;
    // Calls of poll_seldom() between two looks at the device's asynchronous events.
    static constexpr unsigned kRarely = 1024;
    // Polls since arm() after which peers are told that this side no longer sleeps.
    static constexpr unsigned kAwake = 4096;
    // Frames and completions after which take_arrived() stops until the next poll.
    static constexpr unsigned kTakenAtOnce = 64;
    // Frames of blocks that a poll takes because a cold frame follows them. If there are more, the
    // cold frame waits for the next poll. With kBurst, this bounds the time of a poll.
    static constexpr unsigned kPreceding = 512;

    // The work request of short messages to hot peers, and its frame, prepared but for what differs
    // between messages. The device has copied the frame when it has been posted.
    struct ShortWrite {
        ShortWrite();

        alignas(64) ibv_send_wr request{};
        ibv_sge piece{};
        // The zero word, the payload and the tail.
        alignas(64) std::byte frame[kInlineLimit]{};
    };

    // The work request of a put or get of one piece, prepared but for what differs between them.
    struct Access {
        Access();

        alignas(64) ibv_send_wr request{};
        ibv_sge piece{};
    };

    // Of the ends of blocks.
    static constexpr uint32_t kColours = 8;
    static constexpr uint32_t kCacheLine = 64;
    static constexpr uint32_t kPage = 4096;

    // The tails of blocks are looked at in groups. Where a group has no more blocks, it has this.
    static constexpr size_t kGroup = 4;
    static constexpr uint64_t kNoTail = 0;

    Engine(const verbs::Device& device, const verbs::Port& port, const EngineSettings& settings,
           EngineOwner& owner);
    bool open(const verbs::Device& device, std::string& why);
    bool open_receives();

    // ConnectorOwner
    std::unique_ptr<Connection> make_connection(uint32_t index, const PeerAddress& peer,
                                                const Handshake& handshake) override;
    bool reserve_completions(uint32_t sends) override;
    bool wanted(const Connection& connection) const override;
    void established(Connection& connection) override;
    void draining(Connection& connection) override;
    void post_marker(Connection& connection) override;
    void refused(const PeerAddress& peer, const std::string& why) override;
    void closed(Connection& connection, Status status, const std::string& why) override;
    uint64_t now() override;

    // Sending: engine_send.h
    template <class Fill>
    void make_short(Channel& channel, uint32_t id, uint32_t length, uint32_t body, Fill fill);
    void sent_short(Channel& channel, uint32_t body);
    template <class Fill>
    Status short_otherwise(Channel& channel, uint32_t id, uint32_t length, Fill fill);
    Status refused_post(Channel& channel);
    Status no_room(Channel& channel);
    Status no_buffer();
    Status stalled(Channel& channel);
    SendPath::Choice choose(Channel& channel, uint32_t length);
    bool take_credit(Channel& channel);
    bool call_for_credit();
    Status post_frame(Channel& channel, const SendPath::Choice& choice, uint32_t id,
                      uint32_t length, ibv_sge* pieces, int count, unsigned flags, void* buffer,
                      void* cookie);
    ibv_send_wr& prepare(ibv_wr_opcode opcode, ibv_sge* pieces, int count, unsigned flags);
    bool post(Channel& channel, ibv_send_wr& request, bool users);
    static unsigned signal_first(const Channel& channel);
    Status get(Channel& channel, const ibv_sge& to, uint64_t from, uint32_t rkey, void* cookie);
    Status put_short_otherwise(Channel& channel, const void* data, uint32_t length, uint64_t to,
                               uint32_t rkey);
    bool access(Channel& channel, ibv_wr_opcode opcode, unsigned flags, const ibv_sge& piece,
                uint64_t remote, uint32_t rkey);
    bool write_inline(Channel& channel, const void* data, uint32_t length, uint64_t to,
                      uint32_t rkey, bool users);
    bool post_wrap(Channel& channel, uint32_t at);
    bool post_read(Channel& channel, std::span<ibv_sge> pieces, uint64_t from, uint32_t rkey,
                   void* cookie);
    bool post_atomic(Channel& channel, ibv_wr_opcode opcode, ibv_sge& result, uint64_t compare_add,
                     uint64_t swap, uint64_t to, uint32_t rkey, void* cookie);
    bool post_fence(Channel& channel);

    // Sends that wait for their connection: engine_backlog.cc
    bool may_wait(const Channel& channel) const {
        return settings_.early_sends && room_to_wait(channel);
    }
    bool room_to_wait(const Channel& channel) const;
    void wait(Channel& channel, const Backlog::Entry& entry);
    template <class Fill>
    Status message_to_wait(Channel& channel, uint32_t id, uint64_t& counter, Fill&& fill);
    template <class Fill>
    Status write_to_wait(Channel& channel, uint64_t to, uint32_t rkey, Fill&& fill);
    Status gather_to_wait(Channel& channel, uint32_t id, std::span<const std::byte> header,
                          std::span<const ibv_sge> user);
    Status atomic_to_wait(Channel& channel, const Backlog::Entry& entry);
    bool fence_to_wait(Channel& channel);
    static void flush_to_wait(Channel& channel, const Waiter& waiter);
    void send_waiting(Channel& channel, const Backlog::Entry& entry);
    void send_backlog(Channel& channel);
    Status drop_backlog(Channel& channel, Status status);

    // Receiving: engine_poll.h
    template <class Sink>
    unsigned poll_rest(Sink& sink, unsigned count);
    template <class Sink>
    unsigned poll_block(Channel& channel, Sink& sink, unsigned most);
    template <class Sink>
    bool tagged(Channel& channel, Word word, const std::byte* payload, Sink& sink);
    template <class Sink>
    unsigned poll_cq(Sink& sink);
    template <class Sink>
    unsigned poll_seldom(Sink& sink);
    template <class Sink>
    bool take_arrived(Sink& sink, unsigned& count);
    Channel* receiver(uint32_t qp_num);
    template <class Sink>
    bool received(const ibv_wc& completion, Sink& sink);
    template <class Sink>
    void received_hot(Channel& channel, uint32_t immediate, Sink& sink);
    template <class Sink>
    bool received_cold(Channel& channel, const std::byte* frame, uint32_t length, Sink& sink);
    static bool reports_too(const ibv_wc& next, const ibv_wc& completion);
    template <class Sink>
    void sent(const ibv_wc& completion, Sink& sink);
    template <class Sink>
    void sent_in_vain(Channel& channel, const ibv_wc& completion, Sink& sink);
    void sent_last(Channel& channel);
    template <class Sink>
    void settle(Channel& channel, Status status, Sink& sink);
    void update_polled(Channel& channel);

    // Control frames and blocks: engine_control.cc
    bool control(Channel& channel, Word word, const std::byte* payload);
    bool granted(Channel& channel, const std::byte* payload, uint32_t length);
    bool released(Channel& channel, const std::byte* payload, uint32_t length);
    bool words_address(Channel& channel, const std::byte* payload, uint32_t length);
    void choose_notification(Channel& channel, const BlockOffer& grant);
    bool tell_words(Channel& channel);
    void judge(Channel& channel);
    void sweep();
    void schedule_control(Channel& channel, Channel::Due what);
    void send_due_control();
    bool send_due_control(Channel& channel);
    bool pay_credit(Channel& channel);
    void called(Channel& channel);
    bool grant_block(Channel& channel);
    void begin_polling(Channel& channel);
    void end_polling(Channel& channel);
    void drop_block(Channel& channel);
    void revoke(Channel& channel);
    void malformed(Channel& channel, const char* what);
    void failed_send(Channel& channel, const ibv_wc& completion);
    void failed_receive(const ibv_wc& completion);
    bool nop(Channel& channel, bool users);

    // Ends that do not wait for the peer, and the device's asynchronous events: engine_end.cc
    bool take_device_events();
    void on_device_event(const verbs::DeviceEvent& event);
    void flush_sends(Channel& channel);
    void last_transfer_over(Channel& channel);

    // Sleeping: engine_events.cc
    void awake();
    bool look_at_blocks();
    bool tell(Channel& channel, uint16_t telling);
    bool drain_events();
    void set_timer();

    ShortWrite short_;
    Access access_;
    ibv_send_wr request_{};  // of prepare(); zeroed once, because that takes 20 ns
    Counters counters_;
    verbs::Port port_;
    EngineSettings settings_;
    EngineOwner& owner_;
    ibv_pd* pd_;
    PeerAddress self_;
    uint32_t max_inline_ = 0;
    uint32_t max_cqe_ = 0;
    bool told_pool_ = false;   // the owner, that the send pool cannot grow
    bool told_block_ = false;  // the owner, that a block cannot be registered
    std::unique_ptr<verbs::AsyncEvents::Inbox> device_events_;
    verbs::CompletionChannel events_;
    verbs::CompletionQueue cq_;
    std::unique_ptr<ReceiveQueue> receives_;
    SendPool pool_;
    Promotion promotion_;
    WriterWords writer_words_;
    std::unique_ptr<Connector> connector_;

    std::vector<const uint64_t*> tails_;      // the next tails of these channels' blocks, in groups
    std::vector<Channel*> polled_;            // channels whose blocks in memory are polled
    std::vector<Channel*> due_channels_;      // channels with control frames to send
    std::vector<Channel*> stalled_channels_;  // those that have stalled, and perhaps do still
    verbs::LateCompletion late_;
    unsigned busy_ = 0;       // polls that found something in a block
    uint32_t transfers_ = 0;  // under way
    uint32_t waiting_ = 0;    // sends in backlogs
    // Polls look at nothing but the blocks until this is used up. 0 if no blocks are polled, this
    // side may sleep, or transfers are under way.
    int patience_ = 0;
    PollGap gap_;
    bool after_gap_ = false;  // the program polls rarely, so this poll looks at everything
    unsigned deferred_ = 0;   // polls with due control frames that found completions
    unsigned rare_ = 0;       // calls of poll_seldom
    bool broken_ = false;     // the device does not work
    unsigned idle_ = 0;       // polls of the completion queue since poll_seldom
    unsigned taken_ = 0;      // frames and completions taken since poll_seldom began
    unsigned preceding_ = 0;  // of kPreceding: how many this poll may still take
    // From arm() until peers have been told that this side polls again. Meanwhile they may notify,
    // so each poll looks into the completion queue.
    bool sleeper_ = false;
    unsigned awake_ = 0;    // polls since arm()
    uint16_t telling_ = 0;  // the last value of Channel::telling; 0 only before the first
    Watch watch_;
    std::vector<Watched> watched_;  // words that watch_ looks at
    int epoll_fd_ = -1;
    int timer_fd_ = -1;
    bool timer_set_ = false;
    int watched_fd_ = -1;  // of watch()
};

}  // namespace tern
