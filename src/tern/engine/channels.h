// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tern/connection/connector.h"
#include "tern/engine/channel.h"
#include "tern/engine/parts.h"
#include "tern/engine/poll_budget.h"
#include "tern/engine/settings.h"

namespace tern {

// The users have no channel any more: takes them off, and calls closed() for each, which may take
// off others.
void release_users(Channel& channel, EngineOwner& owner, Status status);

// The life of channels: who uses them, what happens when they come up, and what when they end. The
// states are those of Handshake. Control path, except transfers.
class Channels final : public ConnectorOwner {
  public:
    explicit Channels(const EngineParts& parts);

    // See Engine.
    Channel* attach(const PeerAddress& peer, void* user, std::string& why);
    void leave(Channel* channel, void* user);
    void leave_at_once(Channel& channel, void* user);
    void cancel(Channel& channel);
    void begin_transfer(Channel& channel) {
        budget_.begin_reason();
        ++channel.transfers;
    }
    void end_transfer(Channel& channel) {
        TERN_ASSERT(channel.transfers != 0);
        budget_.end_reason();
        if (--channel.transfers == 0) on_last_transfer(channel);
    }

  private:
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
    WorkRequests& requests_;
    ControlFrames& control_;
    OfferedBlocks& offered_;
    PeerBlocks& peer_blocks_;
    EarlySends& early_;
    CompletionPoller& completions_;
    Batches& batches_;
    DeviceHealth& health_;
    IdleChannels& idle_;
    PollBudget& budget_;
    EngineOwner& owner_;
};

}  // namespace tern
