// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>

#include "tern/engine/channel.h"
#include "tern/engine/parts.h"
#include "tern/engine/send_pool.h"
#include "tern/engine/settings.h"

namespace tern {

// Sends that wait for their connection to come up, as copies. Owns Channel::backlog. Control path.
//
// Urgent messages must not be refused for long, as other sends may be. They wait here in any case,
// need no allowance of the peer's, and are lost with a connection that fails.
class EarlySends {
  public:
    explicit EarlySends(const EngineParts& parts);

    // Whether a message that waits for the peer's allowance is urgent.
    bool is_urgent(uint32_t id, const SendPath::Choice& choice) const {
        return choice.route == SendPath::Route::kWait && id == urgent_id_;
    }
    // Whether a send would wait now.
    bool may_wait(const Channel& channel) const { return accepts_any_ && has_room(channel); }

    // Each returns kOk if the send waits, or else kNoResource.
    //
    // An active message. `fill(std::byte* to)` writes the payload and returns its length.
    template <class Fill>
    [[gnu::noinline, gnu::cold]] Status message(Channel& channel, uint32_t id, Fill&& fill) {
        // The users of a connection that ends in good order are not told of a loss.
        const bool is_lost = channel.failed && id == urgent_id_ && channel.status != Status::kOk;
        SendPool::Buffer* buffer =
            is_lost ? pool_.take() : take_buffer(channel, accepts_any_ || id == urgent_id_);
        if (buffer == nullptr) return room_.no_place(channel);
        const uint32_t length = fill(buffer->data + sizeof(Word));
        if (is_lost) {
            channel.sends.lose();
            pool_.give(buffer);
            return Status::kOk;
        }
        wait(channel,
             {.kind = Backlog::Kind::kMessage, .id = id, .length = length, .buffer = buffer});
        return Status::kOk;
    }
    Status gathered_message(Channel& channel, uint32_t id, std::span<const std::byte> header,
                            std::span<const ibv_sge> pieces);
    // A put; as message().
    template <class Fill>
    [[gnu::noinline, gnu::cold]] Status write(Channel& channel, uint64_t to, uint32_t rkey,
                                              Fill&& fill) {
        SendPool::Buffer* buffer = take_buffer(channel, accepts_any_);
        if (buffer == nullptr) return room_.no_place(channel);
        const uint32_t length = fill(buffer->data);
        wait(channel, {.kind = Backlog::Kind::kWrite,
                       .length = length,
                       .rkey = rkey,
                       .to = to,
                       .buffer = buffer});
        return Status::kOk;
    }
    Status atomic(Channel& channel, const Backlog::Entry& entry);
    Status fence(Channel& channel);
    // `waiter` is reported when all that waits has arrived.
    static void flush(Channel& channel, const Waiter& waiter);

    // The connection has just come up: posts what has waited.
    void send_all(Channel& channel);
    // The connection has ended before it was up. Returns the status for its endpoints.
    Status drop_all(Channel& channel, Status status);

  private:
    // Sends and transfers, for one connection: its peer must allow them.
    static constexpr uint32_t kMost = allowance::kFirst;

    bool has_room(const Channel& channel) const;
    // For a send that may wait if `accepted`. Null: it cannot wait now.
    SendPool::Buffer* take_buffer(Channel& channel, bool accepted);
    void wait(Channel& channel, const Backlog::Entry& entry);
    void send(Channel& channel, const Backlog::Entry& entry);
    void post_copy(Channel& channel, const Backlog::Entry& entry);

    SendPool& pool_;
    SendRoom& room_;
    FastPath& fast_path_;
    OneSided& one_sided_;
    WorkRequests& requests_;
    EngineOwner& owner_;
    bool accepts_any_;
    uint32_t urgent_id_;    // EngineSettings::urgent_id
    uint32_t most_of_all_;  // sends, for all connections
    uint32_t later_queue_;  // EngineSettings::later_queue()
    uint32_t waiting_ = 0;  // sends
};

}  // namespace tern
