// SPDX-License-Identifier: BSD-3-Clause
// A simulated rank's interface of a transport, through UCT's public functions alone, and what the
// rank's processor needs for them.
#pragma once

#include <coroutine>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "bench/measure/uct.h"
#include "bench/sim/costs.h"
#include "bench/sim/initiators.h"
#include "bench/sim/machine.h"

namespace bench::sim {

class Node {
  public:
    static constexpr uint64_t kMemory = 4 << 20;

    // `memory`: as many bytes others may put to; 0: none.
    Node(Machine& machine, uint32_t rank, const TransportCosts& costs,
         const std::vector<rwapi::Resource>& resources, uint32_t ranks, uint64_t memory = kMemory);
    Node(const Node&) = delete;
    Node& operator=(const Node&) = delete;

    // Makes endpoints to each other.
    static void connect(Node& one, Node& other);

    // Sends an active message of at least 8 bytes. False: there is no room now.
    bool send(uint32_t peer, uint32_t size);
    // Writes to the peer's memory. False: there is no room now.
    bool put(uint32_t peer, uint64_t size) { return access(peer, size, uct_ep_put_zcopy); }
    // Reads from it.
    bool get(uint32_t peer, uint64_t size) { return access(peer, size, uct_ep_get_zcopy); }
    // Whether all that was sent or put has reached the peers, and all that was asked for is here.
    bool flush();
    // From now on, the program copies what it receives.
    void copy_messages() { copies_ = true; }
    // Ends a step of the program with one poll.
    std::suspend_always step();
    // Ends it without one.
    static std::suspend_always turn() { return {}; }
    // Ends a step of the program with a computation.
    std::suspend_always compute(uint64_t ns);

    uint64_t now() const { return machine_.now(); }
    uint64_t received() const { return received_; }  // messages
    uint64_t received_from(uint32_t peer) const { return peers_[peer].received; }
    // Counts what it has done, polls that found nothing apart.
    uint64_t done() const { return done_ + received_; }
    uint32_t rank() const { return rank_; }
    uint32_t most() const { return most_; }  // bytes of a message

  private:
    struct Peer {
        rwapi::Endpoint endpoint;
        uint64_t memory = 0;
        uct_rkey_bundle_t key = {};
        uint64_t received = 0;
    };
    using Access = ucs_status_t(uct_ep_h, const uct_iov_t*, size_t, uint64_t, uct_rkey_t,
                                uct_completion_t*);
    bool access(uint32_t peer, uint64_t size, Access* operation);
    static ucs_status_t count(void* node, void* data, size_t size, unsigned flags);
    void unpack_key(Node& peer);
    // A message to the peer has been accepted.
    void accepted(uint32_t peer);

    Machine& machine_;
    uint32_t rank_;
    const TransportCosts& costs_;
    uint64_t buffer_bytes_;
    std::unique_ptr<char[], decltype(&std::free)> buffer_;
    UctInterface interface_;
    uint32_t most_;
    std::vector<char> payload_;
    uct_mem_h memory_ = nullptr;
    std::vector<Peer> peers_;
    uint64_t received_ = 0;
    uint64_t done_ = 0;
    bool copies_ = false;
    Initiators initiators_;
    uct_completion_t completion_ = {};
};

}  // namespace bench::sim
