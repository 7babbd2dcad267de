// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/assert.h"
#include "tern/connection/cookie.h"
#include "tern/engine/channel.h"
#include "tern/engine/engine.h"
#include "tern/engine/send_pool.h"
#include "tern/pinning/cache/pin_table.h"
#include "tern/tupleq/xrc/completions.h"
#include "tern/tupleq/xrc/messages.h"
#include "tern/tupleq/xrc/owner.h"
#include "tern/verbs/xrc.h"

namespace tern {

// What the completion of a direct send releases or reports.
struct TupleSend {
    Channel* channel = nullptr;  // of the receiver; held until completion. Null: a drain
    SendPool::Buffer* buffer = nullptr;
    Pin* pin = nullptr;
    void* cookie = nullptr;  // the user's
};

// The XRC queue pair that carries direct messages to all processes of a node. Its other end belongs
// to one process there, the `host`, and the link lasts as long as the connection to the host. Every
// send is signaled; sends complete in order.
//
//   kAsking   the host has made the other end                          kUp
//             the host refuses, or its channel ends                    kOver
//   kUp       a send fails, the host's channel ends, or, to this
//             process, a drain finds no queue                          kOver
//   kOver     the last send has completed                              destroyed
class XrcLink {
  public:
    enum class State : uint8_t {
        kAsking,  // the host has yet to make the other end
        kUp,
        kOver,  // nothing more is sent; destroyed when idle
    };

    // Null and errno if the device refuses. `index` is part of the work request ids. A device that
    // refuses the inline bytes, with whatever error, gets half of them, and at last none: such a
    // message is copied.
    static std::unique_ptr<XrcLink> create(ibv_pd* pd, ibv_cq* cq, uint32_t index, uint32_t sends,
                                           uint32_t inline_bytes);

    // Work request ids: bit 63 is 0, bits 32..62 the link's index, bits 0..31 the send's number.
    static uint32_t index_of(uint64_t id) { return static_cast<uint32_t>(id >> 32); }

    uint32_t index() const { return index_; }
    ibv_qp* qp() const { return qp_.get(); }
    void close() { qp_.reset(); }
    uint32_t psn() const { return psn_; }
    uint32_t max_inline() const { return max_inline_; }

    // True if a message may be posted: there is room, and the host's connection is not ending.
    bool usable() const { return state == State::kUp && room() != 0 && host_stays(); }
    uint32_t room() const { return depth_ - under_way(); }
    bool idle() const { return posted_ == completed_; }
    uint32_t under_way() const { return posted_ - completed_; }

    // Posts a send to a queue. The caller sets the pieces and flags of `request`. Returns 0, or the
    // device's error.
    int post(ibv_send_wr& request, uint32_t queue, const TupleSend& send) {
        TERN_ASSERT(state == State::kUp && room() != 0);
        request.wr_id = uint64_t{index_} << 32 | posted_;
        request.opcode = IBV_WR_SEND_WITH_IMM;
        request.send_flags |= IBV_SEND_SIGNALED;
        request.qp_type.xrc.remote_srqn = queue;
        ibv_send_wr* refused = nullptr;
        const int error = ibv_post_send(qp_.get(), &request, &refused);
        if (error != 0) return error;
        sends_[posted_++ % depth_] = send;
        return 0;
    }
    // Call when the oldest send is complete.
    TupleSend take() {
        TERN_ASSERT(!idle());
        return sends_[completed_++ % depth_];
    }
    // True if `is` holds for any send that is not complete.
    template <class Is>
    bool any_under_way(Is&& is) const {
        for (uint32_t i = completed_; i != posted_; ++i)
            if (is(sends_[i % depth_])) return true;
        return false;
    }

    State state = State::kAsking;
    Channel* host = nullptr;  // null: this process
    uint64_t node = 0;        // its XRC domain
    PortAddress port;
    uint32_t number = 0;    // of the attempt, in frames; 0: not asked yet
    bool in_doubt = false;  // over, and it is unknown whether the last sends arrived

  private:
    XrcLink() = default;
    bool host_stays() const {
        return host == nullptr || (host->up() && !host->ending && !host->failed);
    }

    uint32_t index_ = 0;
    uint32_t psn_ = 0;
    uint32_t max_inline_ = 0;
    uint32_t depth_ = 0;  // a power of two
    uint32_t posted_ = 0;
    uint32_t completed_ = 0;
    std::unique_ptr<TupleSend[]> sends_;
    verbs::QueuePair qp_;
};

// The number of the peer at the other end of a channel: the channel's index and generation.
inline uint32_t peer_number(const Channel& channel) {
    return static_cast<uint32_t>(channel.tag >> 32);
}

// What one part of TupleQ keeps of each peer: objects of type T, which has `Channel* channel`. An
// object exists from the first of() until erase(), which its owner calls when the channel ends.
template <class T>
class PeerTable {
  public:
    // The peer's object, made if need be.
    T& of(Channel& channel) {
        if (peers_.size() <= channel.index) peers_.resize(channel.index + 1);
        auto& peer = peers_[channel.index];
        if (!peer) {
            peer = std::make_unique<T>();
            peer->channel = &channel;
        }
        TERN_ASSERT(peer->channel == &channel);
        return *peer;
    }
    // The peer's object, which must exist. Data path.
    T& at(const Channel& channel) const {
        TERN_ASSERT(channel.index < peers_.size() && peers_[channel.index]);
        TERN_ASSERT(peers_[channel.index]->channel == &channel);
        return *peers_[channel.index];
    }
    // Null if there is no object, or the peer's channel has ended.
    T* find(uint32_t number) const {
        const uint32_t index = work_request_id::index(uint64_t{number} << 32);
        T* const peer = index < peers_.size() ? peers_[index].get() : nullptr;
        return peer != nullptr && peer_number(*peer->channel) == number ? peer : nullptr;
    }
    T* find(const Channel& channel) const { return find(peer_number(channel)); }
    void erase(const Channel& channel) {
        if (channel.index < peers_.size()) peers_[channel.index].reset();
    }

  private:
    std::vector<std::unique_ptr<T>> peers_;  // by the channel's index
};

// All links of an interface: one to each node that it sends direct messages to, one to its own
// queues (for drains), and the ends of the links that peers have to this node. Control path, except
// of().
class LinkTable {
  public:
    struct Counters {
        uint64_t made = 0;  // without the loop-back link
        uint64_t lost = 0;
        uint64_t not_ready = 0;  // messages that found no receive; must remain 0
    };

    LinkTable(Engine& engine, const verbs::Port& port, const verbs::XrcDomain& domain,
              XrcCompletions& completions, const TupleQSettings& settings, uint32_t max_cqe)
        : engine_(engine),
          port_(port),
          domain_(domain),
          completions_(completions),
          settings_(settings),
          max_cqe_(max_cqe) {}

    // The link of a completion, which is not destroyed yet.
    XrcLink& of(uint64_t work_request_id) const {
        TERN_ASSERT(links_[XrcLink::index_of(work_request_id)]);
        return *links_[XrcLink::index_of(work_request_id)];
    }
    // The link to a node that the peer belongs to, which may still be kAsking. Made if need be,
    // with the peer as its host. Null if the device refuses.
    XrcLink* find_or_make(Channel& channel, uint64_t node);
    // Asks the host for the other end of its link, once. False: no room now.
    bool ask(XrcLink& link);
    // The host has answered. False if the peer violates the protocol.
    bool on_connected(Channel& channel, const WireConnected& frame);
    // True if no link to the node could be made with this peer as host, since forget_refusal().
    bool was_refused(const Channel& channel, uint64_t node) const;
    void forget_refusal(const Channel& channel);

    // Makes this side's end of the peer's link to this node; a newer end replaces it. Returns the
    // answer for the peer.
    WireConnected make_end(Channel& channel, const WireConnect& frame);

    // Opens the link to this process's own queues, if it is not open yet. False if the device
    // refuses.
    bool open_loopback();
    XrcLink* loopback() const { return loopback_; }

    // Ends a link. Its sends complete with an error; it is destroyed when it is idle, perhaps now.
    // No route may lead to it any more.
    void end(XrcLink& link);
    // Counts a send that has failed. `first`: of its link.
    void count_failure(bool first, ibv_wc_status status) {
        counters_.lost += first;
        counters_.not_ready += status == IBV_WC_RNR_RETRY_EXC_ERR;
    }

    // Calls visit(XrcLink&) for each link; `visit` may end that link.
    template <class Visit>
    void for_each(Visit&& visit) {
        for (size_t i = 0; i < links_.size(); ++i)
            if (links_[i]) visit(*links_[i]);
    }
    bool has_peer(const Channel& channel) const { return hosts_.find(channel) != nullptr; }
    // The channel has ended: destroys the end of the peer's link.
    void erase(const Channel& channel) { hosts_.erase(channel); }
    void close_loopback_end() { loopback_end_.reset(); }
    const Counters& counters() const { return counters_; }

  private:
    // What a peer's host role leaves here.
    struct Host {
        Channel* channel = nullptr;
        verbs::QueuePair end;  // this side's end of the peer's link to this node
        uint64_t refused = 0;  // a node to which no link could be made; the next answer says so
    };

    bool grow_completions(uint32_t links);
    XrcLink* make();
    bool connect(XrcLink& link, const ibv_ah_attr& to, uint32_t qp_num, uint32_t mtu,
                 bool pages_on_demand);
    ibv_ah_attr address_of(const Channel& channel) const {
        return address_vector(port_, engine_.address().interface, channel.peer,
                              channel.handshake.peer().lmc);
    }

    Engine& engine_;
    const verbs::Port& port_;
    const verbs::XrcDomain& domain_;
    XrcCompletions& completions_;
    const TupleQSettings& settings_;
    uint32_t max_cqe_;
    std::vector<std::unique_ptr<XrcLink>> links_;  // by XrcLink::index()
    XrcLink* loopback_ = nullptr;
    verbs::QueuePair loopback_end_;
    uint32_t attempts_ = 0;
    PeerTable<Host> hosts_;
    Counters counters_;
};

}  // namespace tern
