// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "tern/connection/connector.h"
#include "tern/engine/receive_queue.h"
#include "tern/rendezvous/messages.h"
#include "tern/veloblock/frame.h"

namespace tern::test {

// A peer that connects properly and then sends whatever the test wants.
class Rogue final : private ConnectorOwner {
  public:
    Rogue();

    // Begins to connect; up() becomes true when connected.
    bool begin(const PeerAddress& peer);
    // Says that this interface is closed, which is not true.
    void say_left(const PeerAddress& peer);
    // Ends the connection, if there is one; begin() may then be called again.
    void drop();
    // Begins to end it in good order.
    void leave() { connector_->disconnect(*connection_); }
    const PeerAddress& address() const { return self_; }
    bool up() const { return up_; }

    // Sends these bytes as a cold frame, unchanged.
    void send(const void* data, size_t size);
    // Writes these bytes at an offset in the block that the rogue was granted.
    void write(const void* data, size_t size, uint32_t at);
    // Sends a cold frame with a valid word. `sequence`: frames of the block before it.
    void send_frame(FrameKind kind, uint32_t id, const std::string& payload, uint16_t sequence = 0,
                    uint16_t credit = 0);

    // Control frames of transfers. `controls` has those that the peer has sent, oldest first.
    struct Control {
        TransferId id;
        std::string payload;

        template <class Frame>
        Frame as() const {
            Frame frame;
            memcpy(&frame, payload.data(), std::min(payload.size(), sizeof(frame)));
            return frame;
        }
    };
    template <class Frame>
    void send_control(TransferId id, const Frame& frame) {
        send_frame(FrameKind::kControl, static_cast<uint32_t>(id),
                   std::string(reinterpret_cast<const char*>(&frame), sizeof(frame)));
    }
    std::deque<Control> controls;
    // What it says that it has sent, at the end of a connection.
    SentFrames named;
    // Refuses connections from others.
    bool refuses = false;
    // Does not post its receive buffers again, so that the peer's messages soon find none.
    bool deaf = false;
    // Writes to this address, with immediate data unless `immediate` is 0.
    void write_to(const void* data, size_t size, uint64_t address, uint32_t rkey,
                  uint32_t immediate);
    // Called again and again while the rogue waits until what it has sent is complete.
    std::function<void()> meanwhile = [] {};
    // Memory that the peer may write to and read.
    const verbs::RegisteredMemory& window() const { return window_; }

    void poll();
    const std::optional<BlockOffer>& grant() const { return grant_; }
    // Of the peer that the rogue has granted a block.
    const std::optional<WordsAddress>& words() const { return words_; }
    // Frames received that are sent for their credit only.
    unsigned credit_frames() const { return credit_frames_; }
    // Cold frames sent.
    uint16_t cold() const { return cold_; }
    bool over() const { return over_; }
    // The peer has ended the connection. A device may take its time until it is over.
    bool cut_off() const { return over_ || connection_->failed; }

  private:
    std::unique_ptr<Connection> make_connection(uint32_t index, const PeerAddress& peer,
                                                const Handshake& handshake) override {
        return std::make_unique<Connection>(index, peer, handshake);
    }
    bool reserve_completions(uint32_t) override { return !refuses; }
    bool wanted(const Connection&) const override { return false; }
    bool used(const Connection&) const override { return false; }
    void established(Connection&) override { up_ = true; }
    void draining(Connection&) override {}
    void spare(Connection&) override {}
    void post_marker(Connection& connection) override;
    SentFrames sent(const Connection&) const override { return named; }
    bool has_taken(const Connection&, const SentFrames&) const override { return true; }
    void waits(const PeerAddress&, const std::string&) override {}
    void closed(Connection&, Status, const std::string&) override { over_ = true; }
    uint64_t now() override;
    void post(ibv_wr_opcode opcode, const void* data, size_t size, uint64_t to, uint32_t rkey,
              uint32_t immediate = 0);

    PeerAddress self_;
    verbs::CompletionQueue cq_;
    std::unique_ptr<ReceiveQueue> receives_;
    verbs::RegisteredMemory memory_;
    verbs::RegisteredMemory window_;
    std::unique_ptr<Connector> connector_;
    Connection* connection_ = nullptr;
    std::optional<BlockOffer> grant_;
    std::optional<WordsAddress> words_;
    unsigned credit_frames_ = 0;
    uint16_t cold_ = 0;
    bool up_ = false;
    bool over_ = false;
};

}  // namespace tern::test
