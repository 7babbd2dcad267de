// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/assert.h"
#include "tern/connection/cookie.h"
#include "tern/engine/channel.h"
#include "tern/engine/engine.h"
#include "tern/tupleq/xrc/completions.h"
#include "tern/tupleq/xrc/link.h"
#include "tern/tupleq/xrc/messages.h"
#include "tern/tupleq/xrc/settings.h"

namespace tern {

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
