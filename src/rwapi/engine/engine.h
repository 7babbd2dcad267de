// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "rwapi/bootstrap/bootstrap.h"
#include "rwapi/engine/collectives.h"
#include "rwapi/engine/connector.h"
#include "rwapi/engine/failure_detector.h"
#include "rwapi/engine/flushes.h"
#include "rwapi/engine/notifications.h"
#include "rwapi/engine/operations.h"
#include "rwapi/engine/posting.h"
#include "rwapi/engine/sequencer.h"
#include "rwapi/engine/small_messages.h"

namespace rwapi {

struct EngineSettings {
    int threads;
    uint32_t slots;
    uint32_t operations;
    uint32_t credit;
    int on_peer_death;
};

// One context. Not thread-safe. Functions that return int return RWAPI_OK or an RWAPI_ERR_*; those
// that return rwapi_id return an id, 0 for what is complete, or an error. has_id: the user gets the
// id.
class Engine {
  public:
    // ids: for operations.
    Engine(const EngineSettings& settings, IdRanges& ids, std::unique_ptr<Bootstrap> bootstrap);
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    // Collective: opens the transport and publishes the address.
    int open();
    // Collective: completes all operations and waits for the other processes.
    // sleeps: if nothing happens for a while.
    int close(bool sleeps);

    uint32_t rank() const { return self_.rank; }
    uint32_t size() const { return self_.size; }

    Regions& regions() { return regions_; }
    Slots& slots() { return notifications_.slots(); }

    // The usual case of a put: UCT takes all of it at once. False: nothing is done; call
    // transfer().
    // name, word: the address's; place: for a signal, its offset from it; for a slot, its number.
    template <NotificationKind kind>
    [[gnu::always_inline]] bool put_now(uint64_t name, uint64_t word, uint64_t offset,
                                        const void* local, size_t length, const auto& place,
                                        const uint64_t& value) {
        const RemoteRegion& region = remotes_.recent(name);
        const size_t last = length - 1;  // 0 bytes are not the usual case
        uint64_t at;
        if (region.name != name || local == nullptr ||
            !region.place(word, offset, last, region.put_end, at)) [[unlikely]]
            return false;
        const auto* const bytes = static_cast<const std::byte*>(local);
        if constexpr (is_signal(kind)) {
            uint64_t word_at;
            return region.place_word(word, place, word_at) &&
                   posting_.post_usual<kind>(region, at, bytes, last, word_at, value) == UCS_OK;
        }
        if constexpr (kind == NotificationKind::kSlot) {
            if (place >= region.key.slots) [[unlikely]]
                return false;
        }
        return posting_.post_usual<kind>(region, at, bytes, last, place, value) == UCS_OK;
    }
    // A put or get.
    rwapi_id transfer(Task task, const rwapi_net& net, const Transfer& what, bool has_id);
    // Puts or gets of many pieces. At least one element.
    rwapi_id transfer_list(Task task, std::span<const rwapi_element> elements, bool has_id);
    // `first` is the first of the blocks. Their extents do not overflow.
    rwapi_id transfer_blocks(Task task, const rwapi_element& first, const rwapi_blocks& blocks,
                             bool has_id);
    rwapi_id atomic(Task task, const rwapi_net& net, const Transfer& what, bool has_id);
    rwapi_id write(uint32_t node, const rwapi_net& from, const rwapi_net& to, size_t length);
    Flushes& flushes() { return flushes_; }
    int send(uint32_t node, const rwapi_small& small);
    bool receive(uint32_t& node, rwapi_small& small) { return small_.receive(node, small); }
    Collectives& collectives() { return collectives_; }
    // 1: complete; 0: not yet; negative: the operation's error.
    int test(rwapi_id id) { return operations_.test(id); }
    int look(rwapi_id id) const { return operations_.look(id); }

    // Returns the number of events that were handled.
    unsigned progress();
    int event_fd() { return transport_.event_fd(); }
    int arm();
    int peer_status(uint32_t node);
    // For a wait whose peers are not known: RWAPI_ERR_PEER if all are dead, or if a death is to be
    // reported of which peer_status() has not told; else 0.
    int bereaved() const;

  private:
    class Pieces;

    int find(const rwapi_net& net, const OwnRegion*& own, RemoteRegion*& region);
    rwapi_id find_and_transfer(Task task, const rwapi_net& net, const Transfer& what, bool has_id);
    rwapi_id transfer_to(Task task, RemoteRegion& region, const Transfer& what, bool has_id);
    rwapi_id transfer_locally(Task task, const Transfer& what, const OwnRegion& region);
    rwapi_id begin(Task task, Peer& peer, RemoteRegion* region, const Transfer& what, bool has_id);
    void refill(const Peer& peer);
    int find_at_self(const rwapi_net& net, RemoteRegion*& region);
    int open_transport();
    void serve_peers();
    bool serve(Peer& peer);
    bool send_control(Peer& peer);
    unsigned end_failed_peers();
    void end_failed_peer(Peer& peer);
    void say_goodbye(Peer& peer);

    const std::unique_ptr<Bootstrap> bootstrap_;
    const Self self_;
    uint64_t close_timeout_s_ = 30;  // if a peer has failed
    const bool deaths_end_waits_;
    uint32_t untold_deaths_ = 0;  // for peer_status() to tell
    SleepingThread sleeper_;

    Peers peers_;
    Connector connector_;
    FailureDetector failures_;
    Regions regions_;
    RemoteRegions remotes_;
    Notifications notifications_;
    SmallMessages small_;
    Posting posting_;
    Operations operations_;
    Sequencer sequencer_;
    Flushes flushes_;
    Collectives collectives_;
    // Last, so that it is destroyed first: while UCT closes, it calls completions of operations.
    Transport transport_;
};

}  // namespace rwapi
