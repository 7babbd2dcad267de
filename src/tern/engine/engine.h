// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <span>
#include <string>

#include "tern/base/one_thread.h"
#include "tern/connection/connector.h"
#include "tern/engine/batches.h"
#include "tern/engine/channel.h"
#include "tern/engine/channel_flush.h"
#include "tern/engine/channels.h"
#include "tern/engine/completion_poller.h"
#include "tern/engine/control_frames.h"
#include "tern/engine/counters.h"
#include "tern/engine/device_health.h"
#include "tern/engine/early_sends.h"
#include "tern/engine/fast_path.h"
#include "tern/engine/idle_channels.h"
#include "tern/engine/offered_blocks.h"
#include "tern/engine/one_sided.h"
#include "tern/engine/owner.h"
#include "tern/engine/parts.h"
#include "tern/engine/peer_blocks.h"
#include "tern/engine/poller.h"
#include "tern/engine/resources.h"
#include "tern/engine/send_pool.h"
#include "tern/engine/settings.h"
#include "tern/engine/sleep.h"
#include "tern/engine/work_requests.h"

namespace tern {

// What other threads than the interface's own may do. None may call it when the engine is
// destroyed.
class Background {
  public:
    Background(Connector& connector, Sleep& sleep, Batches& batches)
        : connector_(connector), sleep_(sleep), batches_(batches) {}

    // A thread that calls answer() when the descriptor is readable answers the probes of peers, and
    // accepts connections, even if the process does not poll. Call answer() once to begin.
    int fd() const { return connector_.datagrams().event_fd(); }
    void answer() const { connector_.answer(); }
    // For a second one: see Sleep::look().
    void look() const { sleep_.look(); }
    // For a third one: see Batches::enable().
    Batches& batches() const { return batches_; }

  private:
    Connector& connector_;
    Sleep& sleep_;
    Batches& batches_;
};

// An interface's messaging: connections, their fast paths, and the queues they share. Puts it
// together from objects that own what they do. One thread at a time, except for Background.
class Engine final {
  public:
    static constexpr size_t kLeastMemory = engine_limits::kLeastMemory;

    // Null on failure; `why` says why.
    static std::unique_ptr<Engine> create(const verbs::Device& device, const verbs::Port& port,
                                          const EngineSettings& settings, EngineOwner& owner,
                                          std::string& why);

    const PeerAddress& address() const { return resources_.self; }
    const EngineSettings& settings() const { return settings_; }
    ibv_pd* pd() const { return resources_.pd; }
    // Bytes of an active message, after 8 bytes of header; bytes of a put_short().
    uint32_t max_short() const { return max_inline() - BlockWriter::kOverhead - sizeof(uint64_t); }
    uint32_t max_inline() const { return resources_.max_inline; }
    // Pieces that am_zcopy() takes at most.
    uint32_t max_pieces() const { return resources_.max_pieces(); }

    // The channel to `peer` for the endpoint `user`; begins to connect if there is none. Null if
    // the device refuses; `why` says why.
    Channel* attach(const PeerAddress& peer, void* user, std::string& why) {
        const base::OneThread::Scope scope(thread_);
        return channels_.attach(peer, user, why);
    }
    // The endpoint no longer uses its channel, which may be null. A channel without users is
    // disconnected.
    void leave(Channel* channel, void* user) {
        const base::OneThread::Scope scope(thread_);
        channels_.leave(channel, user);
    }
    // Like leave(), for the only user of the channel, with operations under way: their cookies are
    // reported within this call, and the device does not access their memory afterwards. Waiters
    // are left to ChannelFlush::cancel().
    void leave_at_once(Channel& channel, void* user) {
        const base::OneThread::Scope scope(thread_);
        channels_.leave_at_once(channel, user);
    }
    // Ends the channel at once, and cancels its operations.
    void cancel(Channel& channel) {
        const base::OneThread::Scope scope(thread_);
        channels_.cancel(channel);
    }
    // Ends a channel, with an error for all its users. A peer that has broken the protocol is not
    // heard any more.
    void fail(Channel& channel, Status status, const std::string& why) {
        const base::OneThread::Scope scope(thread_);
        if (status == Status::kProtocol) channel.receiving.deaf = true;
        connector_.fail(channel, status, why);
    }
    // Ends all channels at once and for good, since the device has failed.
    void break_down(const std::string& why) {
        const base::OneThread::Scope scope(thread_);
        health_.break_down(why);
    }

    // While transfers of the layer above are under way, the channel is not disconnected, and poll()
    // looks at more than the blocks.
    void transfer_begins(Channel& channel) {
        const base::OneThread::Scope scope(thread_);
        channels_.begin_transfer(channel);
    }
    void transfer_over(Channel& channel) {
        const base::OneThread::Scope scope(thread_);
        channels_.end_transfer(channel);
    }
    // See CompletionPoller.
    void expect_notifications(int32_t writes) {
        const base::OneThread::Scope scope(thread_);
        completions_.expect_notifications(writes);
    }
    // The layer above sends to the peer over another queue pair, and has added to Channel::holds:
    // the channel lasts until this.
    void release_hold(Channel& channel) {
        const base::OneThread::Scope scope(thread_);
        TERN_ASSERT(channel.holds != 0);
        if (--channel.holds == 0) [[unlikely]]
            connector_.finish_if_idle(channel);
    }

    // Whether a send that was refused, or the operation of Channel::refused_places, would probably
    // be accepted now.
    bool has_room(const Channel& channel) const {
        return (channel.sends.takes_data(channel.refused_places) && !channel.sending.stalled &&
                !channel.sending.waits && resources_.pool.available()) ||
               (channel.refused_places == 1 && early_.may_wait(channel));
    }
    // Whether a transfer of the layer above would probably be accepted now. Transfers wait until
    // the connection is up.
    bool may_begin(const Channel& channel) const {
        return channel.sends.takes_data() || early_.may_wait(channel);
    }

    // Active messages: see FastPath.
    base::OneThread::Guarded<FastPath> fast_path() { return {thread_, fast_path_}; }
    template <class Fill>
    [[gnu::always_inline]] Status am_short(Channel& channel, uint32_t id, uint32_t length,
                                           Fill fill) {
        const base::OneThread::Scope scope(thread_);
        return fast_path_.am_short(channel, id, length, fill);
    }
    template <class Fill>
    [[gnu::always_inline]] Status am_usual(Channel& channel, uint32_t id, uint32_t length,
                                           Fill fill) {
        const base::OneThread::Scope scope(thread_);
        return fast_path_.am_usual(channel, id, length, fill);
    }
    template <class Fill>
    [[gnu::always_inline]] Status put_am_usual(Channel& channel, std::span<const std::byte> data,
                                               uint64_t to, uint32_t rkey, uint32_t id,
                                               uint32_t length, Fill fill) {
        const base::OneThread::Scope scope(thread_);
        return fast_path_.put_am_usual(channel, data, to, rkey, one_sided_.puts(), id, length,
                                       fill);
    }
    template <class Pack>
    Status am_bcopy(Channel& channel, uint32_t id, Pack&& pack, uint32_t& length) {
        const base::OneThread::Scope scope(thread_);
        return fast_path_.am_bcopy(channel, id, pack, length);
    }
    Status am_zcopy(Channel& channel, uint32_t id, std::span<const std::byte> header,
                    std::span<const ibv_sge> pieces, void* cookie) {
        const base::OneThread::Scope scope(thread_);
        return fast_path_.am_zcopy(channel, id, header, pieces, cookie);
    }
    // Sends a control frame; see ControlFrames::send().
    bool send_control(Channel& channel, ControlId id, const void* payload, uint32_t length,
                      bool of_user = false) {
        const base::OneThread::Scope scope(thread_);
        return control_.send(channel, id, payload, length, of_user);
    }

    // Puts, gets, atomics and fences.
    base::OneThread::Guarded<OneSided> one_sided() { return {thread_, one_sided_}; }
    // Flushes, and tests whether peers live.
    base::OneThread::Guarded<ChannelFlush> flushing() { return {thread_, flush_}; }
    // Sleeping until an event.
    base::OneThread::Guarded<Sleep> sleep() { return {thread_, sleep_}; }
    // For the layer above: the calling thread is within the engine for the life of the result.
    base::OneThread::Scope enter() { return base::OneThread::Scope(thread_); }

    // Most polls only look().
    base::OneThread::Guarded<Poller> poller() { return {thread_, poller_}; }
    template <MessageSink Sink>
    bool poll(Sink& sink, unsigned& count) {
        const base::OneThread::Scope scope(thread_);
        return poller_.poll(sink, count);
    }
    // For a caller that waits outside poll(): takes a completion off the queue, if there is one,
    // and keeps it for the next poll().
    void keep_completion() {
        const base::OneThread::Scope scope(thread_);
        ibv_wc completion;
        if (ibv_poll_cq(resources_.cq.get(), 1, &completion) > 0)
            completions_.late().set_aside(completion);
    }

    // A message that the sink keeps is not needed any more.
    void give_back(std::byte* data) { resources_.receives->give_back(data); }

    Background background() { return {connector_, sleep_, poller_.batches()}; }

    Counters counters() const;
    EngineUsage usage() const;
    uint32_t connections() const { return connector_.table().live(); }
    // All channels. Those that are over stay while the device has not flushed their operations.
    const ConnectionTable& table() const { return connector_.table(); }

  private:
    Engine(Resources resources, const EngineSettings& settings, EngineOwner& owner);
    Engine(Resources&& resources, const EngineSettings& settings, const EngineParts& parts);

    // The objects refer to each other, so their constructors only keep the references.
    [[no_unique_address]] base::OneThread thread_;
    EngineSettings settings_;
    Resources resources_;
    Poller poller_;
    FastPath fast_path_;
    OneSided one_sided_;
    WorkRequests requests_;
    ControlFrames control_;
    SendRoom room_;
    EarlySends early_;
    PeerBlocks peer_blocks_;
    OfferedBlocks offered_;
    BlockPoller blocks_;
    CompletionPoller completions_;
    DeviceHealth health_;
    ChannelFlush flush_;
    IdleChannels idle_;
    Channels channels_;
    // Destroyed before the memory that peers write to, and before the queues. Its destructor
    // notifies the peers; outstanding operations are lost.
    Connector connector_;
    Sleep sleep_;
};

}  // namespace tern
