// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <new>
#include <string>

#include "tern/connection/address_handles.h"
#include "tern/uct/explain.h"
#include "tern/uct/iface_progress.h"
#include "tern/uct/matching.h"
#include "tern/uct/md.h"

// The members of an interface that have constructors.
struct TernIface::State final : tern::EngineOwner, tern::RendezvousOwner {
    // One of the interfaces of a memory domain.
    struct Counted {
        explicit Counted(std::atomic<uint32_t>& all)
            : count(all), number(1 + all.fetch_add(1, std::memory_order_relaxed)) {}
        ~Counted() { count.fetch_sub(1, std::memory_order_relaxed); }
        Counted(const Counted&) = delete;
        Counted& operator=(const Counted&) = delete;

        std::atomic<uint32_t>& count;
        const uint32_t number;
    };

    State(TernIface& owner, std::atomic<uint32_t>& all, std::string name)
        : iface(owner), counted(all), device(std::move(name)) {
        iface.matching = &no_matching;
    }
    // What ends with the engine does not find the part that matches.
    ~State() {
        matching.reset();
        iface.matching = &no_matching;
    }
    State(const State&) = delete;
    State& operator=(const State&) = delete;

    void lost(const tern::PeerAddress& peer, tern::Status status, const std::string& why) override {
        if (status == tern::Status::kCanceled) return;
        ucs_log(failure_level(), "tern: %s: connection to %s: %s (%s)", device.c_str(),
                peer.to_string().c_str(), why.c_str(), ucs_status_string(tern::to_ucs(status)));
    }
    tern::Status ended(tern::Channel& channel, tern::Status status) override {
        if (rendezvous) status = rendezvous->ended(channel, status);
        status = iface.matching->ended(channel, status);
        tell_peer(channel);
        if (status != tern::Status::kOk) tern::note_loss(iface, status);
        return status;
    }
    void left(tern::Channel& channel) override {
        (void)rendezvous->ended(channel, tern::Status::kCanceled);
    }
    void connected(void* user) override { tern::pending_may_go(*static_cast<TernEp*>(user)); }
    void closed(void* user, tern::Status status) override {
        tern::ep_closed(*static_cast<TernEp*>(user), tern::to_ucs(status));
    }
    bool may_end(tern::Channel& channel) override {
        return tern::transfers_on(channel).failures == 0 && !tern::pause_of(channel).asked &&
               iface.matching->may_end() && std::ranges::none_of(channel.users, [](void* user) {
                   const auto& ep = *static_cast<TernEp*>(user);
                   return !ucs_arbiter_group_is_empty(
                              const_cast<ucs_arbiter_group_t*>(&ep.pending)) ||
                          ep.own != nullptr;
               });
    }
    void on_probe_timeout(void* user) override {
        auto& ep = *static_cast<TernEp*>(user);
        constexpr const char* kSilent = "it does not answer a probe";
        if (ep.failed != UCS_OK) return;
        // The endpoints of a channel are told when it ends, after their operations. One that has
        // come up since the probe began has shown that the peer lives. One that is over may end in
        // good order, which is no error: then this is told behind what has arrived.
        if (ep.channel != nullptr) {
            if (ep.channel->failed)
                (void)iface.engine->flushing()->check_peer(nullptr, ep.peer, &ep);
            else if (!ep.channel->established)
                iface.engine->fail(*ep.channel, tern::Status::kTimedOut, kSilent);
            return;
        }
        ucs_log(failure_level(), "tern: %s: %s: %s", device.c_str(), ep.peer.to_string().c_str(),
                kSilent);
        tern::ep_closed(ep, UCS_ERR_ENDPOINT_TIMEOUT);
    }
    void broken(const std::string& why) override {
        ucs_error("tern: %s: %s: the interface and its endpoints have failed; %s", device.c_str(),
                  why.c_str(),
                  out_of_memory ? "raise the limit of the program's memory (ulimit -v, or its "
                                  "control group's)"
                                : "see the kernel's log, and restart the program when the device "
                                  "works again");
        iface.matching->broken();
    }
    void queue_failed(const void* identity, const std::string& what) override {
        iface.matching->queue_failed(identity, what);
    }
    void note(const std::string& text) override {
        ucs_diag("tern: %s: %s", device.c_str(), text.c_str());
    }
    void warn(const std::string& text) override {
        ucs_warn("tern: %s: %s", device.c_str(), text.c_str());
    }

    bool give_up(uint64_t bytes) override {
        return tern::memory_domain(iface.super.md).pins->give_up(bytes);
    }
    void seldom() override {
        if (next_snapshot == 0 || ucs_get_time() < next_snapshot) return;
        next_snapshot = ucs_get_time() + ucs_time_from_sec(snapshot_interval);
        try {
            tern::replace_snapshot(snapshot, counters_line());
        } catch (const std::bad_alloc&) {
            (void)tern::no_memory("write the counters");
        }
    }

    // Records what a connection was used for, once: at its end, or at that of the interface.
    void tell_peer(tern::Channel& channel) {
        if (!explains || channel.tally.told || !channel.established) return;
        channel.tally.told = true;
        try {
            tern::explain_peer(device, engine->address(), channel);
        } catch (const std::bad_alloc&) {
            (void)tern::no_memory("explain a connection");
        }
    }
    std::string counters_line() const {
        return tern::counters_of(*engine, *rendezvous, *atomics,
                                 *tern::memory_domain(iface.super.md).pins,
                                 iface.matching->counts(), device.c_str());
    }

    // A failure that the user's error handler deals with is logged at a lower level.
    ucs_log_level_t failure_level() const {
        return iface.super.err_handler != nullptr ? UCS_LOG_LEVEL_DIAG
                                                  : iface.super.config.failure_level;
    }

    // Both EngineOwner and RendezvousOwner declare completed().
    void completed(void* cookie, tern::Status status) override { iface.completed(cookie, status); }
    void replied(uint32_t id, const std::byte* data, uint32_t length) override {
        iface.message(id, data, length);
    }

    TernIface& iface;
    const Counted counted;
    tern::Matching no_matching;
    bool out_of_memory = false;  // why the interface fails
    bool no_room_is_told = false;
    tern::verbs::Port port;
    tern::Routes routes;
    std::string device;  // name and port
    std::string counters;
    bool explains = tern::explains();
    // The counters while the program runs: where, in seconds, and when next. 0: never.
    std::string snapshot;
    double snapshot_interval = 0;
    ucs_time_t next_snapshot = 0;
    // The device writes to its memory until the engine is destroyed.
    std::unique_ptr<tern::Atomics> atomics;
    std::unique_ptr<tern::Rma> rma;
    std::unique_ptr<tern::Engine> engine;
    std::unique_ptr<tern::Rendezvous> rendezvous;
    std::unique_ptr<tern::Matching> matching;  // null: none
};
