// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tern/connection/connector.h"
#include "tern/engine/channel.h"
#include "tern/engine/poll_budget.h"
#include "tern/engine/settings.h"

namespace tern {

class CompletionPoller;
class ControlFrames;
class DeviceHealth;
class EarlySends;
class EngineOwner;
class IdleChannels;
class OfferedBlocks;
class PeerBlocks;
class WorkRequests;

// The objects of the engine that a channel's life concerns.
struct ChannelParts {
    WorkRequests& requests;
    ControlFrames& control;
    OfferedBlocks& offered;
    PeerBlocks& peer_blocks;
    EarlySends& early;
    CompletionPoller& completions;
    DeviceHealth& health;
    IdleChannels& idle;
    PollBudget& budget;
};

// The users have no channel any more: takes them off, and calls closed() for each, which may take
// off others.
void release_users(Channel& channel, EngineOwner& owner, Status status);

// The life of channels: who uses them, what happens when they come up, and what when they end. The
// states are those of Handshake. Control path, except transfers.
class Channels final : public ConnectorOwner {
  public:
    Channels(const EngineSettings& settings, ibv_cq* cq, uint32_t max_cqe, Connector& connector,
             const ChannelParts& parts, EngineOwner& owner)
        : receives_(settings.receive_most),
          poll_(settings.poll),
          cq_(cq),
          max_cqe_(max_cqe),
          connector_(connector),
          parts_(parts),
          owner_(owner) {}

    // See Engine.
    Channel* attach(const PeerAddress& peer, void* user, std::string& why);
    void leave(Channel* channel, void* user);
    void leave_at_once(Channel& channel, void* user);
    void cancel(Channel& channel);
    void begin_transfer(Channel& channel) {
        parts_.budget.begin_reason();
        ++channel.transfers;
    }
    void end_transfer(Channel& channel) {
        TERN_ASSERT(channel.transfers != 0);
        parts_.budget.end_reason();
        if (--channel.transfers == 0) on_last_transfer(channel);
    }

  private:
    static constexpr uint64_t kFlushLimit = 1'000'000'000;  // ns, for a queue pair in error

    // ConnectorOwner
    std::unique_ptr<Connection> make_connection(uint32_t index, const PeerAddress& peer,
                                                const Handshake& handshake) override;
    bool reserve_completions(uint32_t sends) override;
    bool wanted(const Connection& connection) const override;
    bool used(const Connection& connection) const override;
    void established(Connection& connection) override;
    void draining(Connection& connection) override;
    void spare(Connection& connection) override;
    void post_marker(Connection& connection) override;
    void waits(const PeerAddress& peer, const std::string& why) override;
    SentFrames sent(const Connection& connection) const override;
    bool has_taken(const Connection& connection, const SentFrames& sent) const override;
    void closed(Connection& connection, Status status, const std::string& why) override;
    uint64_t now() override;

    void flush_sends(Channel& channel);
    void report_waiters(Channel& channel, Status status);
    void on_last_transfer(Channel& channel);

    uint32_t receives_;  // buffers of the shared receive queue
    PollMode poll_;
    ibv_cq* cq_;
    uint32_t max_cqe_;  // the device's limit
    Connector& connector_;
    ChannelParts parts_;
    EngineOwner& owner_;
};

}  // namespace tern
