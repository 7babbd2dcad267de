// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <deque>

#include "tern/connection/packet.h"

namespace tern {

// Packets that have come and are not handled yet, in order. Pure. A packet may end a connection
// whose last data has arrived already. So the packets that have come are gathered first, then the
// data is taken, then these packets are handled, and no later ones.
//
// `Source` has `bool receive(Packet&)`, as Datagrams. Control path.
template <class Source>
class PacketInbox {
  public:
    explicit PacketInbox(Source& source) : source_(source) {}

    // Gathers what has come.
    void gather() {
        look();
        gathered_ = packets_.size();
    }
    // Takes the next of the gathered packets. False: there is none.
    bool take(Packet& packet) {
        if (gathered_ == 0) return false;
        --gathered_;
        packet = packets_.front();
        packets_.pop_front();
        return true;
    }
    // Whether it has packets, gathered or not; more may have come.
    bool holds() const { return !packets_.empty(); }
    // Whether a packet waits, gathered or not. Looks for some.
    bool waits() {
        look();
        return !packets_.empty();
    }

  private:
    static constexpr size_t kMost = 64;  // packets at a time; the others stay in the source

    void look() {
        Packet packet;
        while (packets_.size() < kMost && source_.receive(packet)) packets_.push_back(packet);
    }

    Source& source_;
    std::deque<Packet> packets_;
    size_t gathered_ = 0;  // of these
};

}  // namespace tern
