// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "connection/packet.h"
#include "verbs/handles.h"
#include "verbs/memory.h"
#include "verbs/port.h"

namespace tern {

// The unreliable datagram queue pair that an interface makes its connections through. Control path.
class Datagrams {
  public:
    // Completions go to a queue of its own, on `channel` if one is given. Null on failure, `why`
    // says why.
    static std::unique_ptr<Datagrams> create(const verbs::Device& device, const verbs::Port& port,
                                             ibv_comp_channel* channel, std::string& why);

    uint32_t qp_num() const { return qp_->qp_num; }
    ibv_cq* cq() const { return cq_.get(); }
    size_t registered_bytes() const { return memory_.size(); }

    // Sends a packet, or drops it if there is no room: whoever needs an answer repeats it.
    void send(const Packet& packet, const PortAddress& to, uint32_t to_qp_num);
    // Waits, for a few milliseconds at most, until what was sent has left. Drops what comes in
    // meanwhile.
    void complete_sends();
    // Takes the next packet that has come. False if there is none. Malformed ones are counted and
    // skipped.
    bool receive(Packet& packet);
    uint64_t malformed() const { return malformed_; }

  private:
    static constexpr uint32_t kReceives = 128;
    static constexpr uint32_t kSends = 32;
    static constexpr uint32_t kGrh = 40;
    static constexpr uint32_t kReceiveSize = 128;
    static constexpr uint32_t kKey = 0x1ee7;  // below 2^31: not a privileged key

    static_assert(kReceiveSize >= kGrh + Packet::kMaxSize);

    explicit Datagrams(const verbs::Port& port) : port_(port) {}
    bool open(const verbs::Device& device, ibv_comp_channel* channel);
    bool post_receive(uint32_t slot);
    std::byte* receive_slot(uint32_t slot) { return memory_.data() + size_t{slot} * kReceiveSize; }
    std::byte* send_slot(uint32_t slot) {
        return memory_.data() + size_t{kReceives} * kReceiveSize + size_t{slot} * Packet::kMaxSize;
    }

    verbs::Port port_;
    verbs::RegisteredMemory memory_;
    verbs::CompletionQueue cq_;
    std::array<verbs::AddressHandle, kSends> handles_;  // of sends under way
    verbs::QueuePair qp_;
    uint64_t malformed_ = 0;
};

}  // namespace tern
