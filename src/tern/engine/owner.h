// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tern/connection/connection.h"

namespace tern {

struct Channel;

// What takes completions: the parameter of the data path where nothing is received.
template <class Sink>
concept OperationSink = requires(Sink& sink, void* cookie, Status status) {
    sink.completed(cookie, status);
};

// What takes what has come and what is complete: the parameter of the data path. `data` is valid
// during the call. False: the frame or the immediate data is malformed.
template <class Sink>
concept MessageSink = OperationSink<Sink> &&
    requires(Sink& sink, Channel& channel, uint32_t id, std::byte* data, uint32_t length) {
    sink.message(id, static_cast<const void*>(data), length);
    // A message that may stay where it is, with EngineSettings::buffers.headroom bytes before it.
    // True: it stays until give_back().
    { sink.keeps(id, data, length) } -> std::same_as<bool>;
    // A frame of kind kTag.
    { sink.tagged(channel, id, static_cast<const std::byte*>(data), length) } -> std::same_as<bool>;
    // A control frame of the layer above.
    {
        sink.control(channel, id, static_cast<const std::byte*>(data), length)
        } -> std::same_as<bool>;
    // A write with immediate data of the layer above.
    { sink.notified(channel, id) } -> std::same_as<bool>;
};

// Calls to the owner of an engine. Control path.
class EngineOwner {
  public:
    // A connection has failed; for the log.
    virtual void lost(const PeerAddress& peer, Status status, const std::string& why) = 0;
    // The connection of the endpoint `user` has come up.
    virtual void connected(void*) {}
    // The connection is over, and will be destroyed. Called before closed() of its endpoints.
    // Returns the status for the endpoints: kOk only if nothing of theirs was lost.
    virtual Status ended(Channel& channel, Status status) = 0;
    // The last endpoint of a connection that has failed has gone: its transfers end now. ended()
    // follows when all that has come over the connection is delivered.
    virtual void left(Channel&) {}
    // The connection of the endpoint `user` is over. kOk: nothing was lost, and the next send
    // connects again.
    virtual void closed(void* user, Status status) = 0;
    // Whether the layer above needs nothing of the channel but that its endpoints can connect
    // again: no operation of theirs waits. Nothing of the engine's is under way.
    virtual bool may_end(Channel&) { return true; }
    // The peer that was probed for the endpoint `user` (ChannelFlush::check_peer()) does not
    // answer.
    virtual void on_probe_timeout(void* user) = 0;
    // A flush or another operation has ended outside poll(), usually because its connection has.
    virtual void completed(void* cookie, Status status) = 0;
    // The device has failed, and with it the interface: an error for the log. All connections are
    // over, and work requests of the layer above in the device's queues do not complete.
    virtual void broken(const std::string&) {}
    // The device reports an error of a completion queue or shared receive queue that is not the
    // engine's; the first argument is the queue's verbs::next_identity().
    virtual void queue_failed(const void*, const std::string&) {}
    // Gives up pins that nobody uses, of this many bytes if there are as many. False: there is
    // none.
    virtual bool give_up(uint64_t) { return false; }
    // Called by few polls: one in some ten or hundred thousand.
    virtual void seldom() {}
    // Information for the log that may explain later errors.
    virtual void note(const std::string&) {}
    // A warning for the log.
    virtual void warn(const std::string& text) = 0;

  protected:
    ~EngineOwner() = default;
};

// An owner as a sink.
struct CompletionSink {
    EngineOwner& owner;

    void completed(void* cookie, Status status) const { owner.completed(cookie, status); }
};

}  // namespace tern
