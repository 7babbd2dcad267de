// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "node.h"
#include "tern/rendezvous/rendezvous.h"

namespace tern::test {

// Counts what is registered.
class CountingRegistrar final : public Registrar {
  public:
    CountingRegistrar(ibv_pd* pd, uint64_t& bytes) : device_(pd), bytes_(bytes) {}

    ibv_mr* add(void* address, size_t length, int access) override {
        bytes_ += length;
        return device_.add(address, length, access);
    }
    void remove(ibv_mr* region) override { device_.remove(region); }

  private:
    VerbsRegistrar device_;
    uint64_t& bytes_;
};

// An engine with a rendezvous. Peers have keys of `memory`, but not of `hidden`.
struct RendezvousNode final : EngineOwner, RendezvousOwner {
    static constexpr size_t kSize = 256 * 1024;

    // Whether transfers wait for rings depends on calls alone, not on the machine.
    static RendezvousSettings unhurried() {
        RendezvousSettings settings;
        settings.ring_patience = std::chrono::hours(1);
        return settings;
    }

    explicit RendezvousNode(SchemeSetting scheme = SchemeSetting::kAuto,
                            PollMode poll = PollMode::kAuto,
                            uint32_t rings = RendezvousSettings().rings,
                            const Costs& costs = *find_costs("graphene"),
                            MonitorKind monitor = MonitorKind::kNone,
                            RendezvousSettings moving = unhurried())
        : pins{std::make_unique<CountingRegistrar>(device().pd.get(), registered),
               {.monitor = monitor,
                .has_hooks = monitor == MonitorKind::kUcm,
                .relaxed = relaxed_order}} {
        EngineSettings settings = quick_settings();
        settings.poll = poll;
        std::string why;
        engine = Engine::create(device(), port(), settings, *this, why);
        EXPECT_TRUE(engine) << why;
        moving.policy.scheme = scheme;
        moving.rings = rings;
        rendezvous = std::make_unique<Rendezvous>(*engine, regions, pins, costs, moving, *this);
        open = regions.declare(memory.data(), memory.size(), kLocalRead | kLocalWrite | kRemoteAll);
        secret = regions.declare(hidden.data(), hidden.size(), kLocalRead | kLocalWrite);
    }
    ~RendezvousNode() {
        rendezvous.reset();
        engine.reset();
        (void)regions.undeclare(open);
        (void)regions.undeclare(secret);
    }

    void lost(const PeerAddress&, Status, const std::string& why) override {
        reasons.push_back(reason = why);
    }
    Status ended(Channel& channel, Status status) override {
        return rendezvous->ended(channel, status);
    }
    void left(Channel& channel) override { (void)rendezvous->ended(channel, Status::kCanceled); }
    void closed(void*, Status status) override {
        ++closures;
        closed_with.push_back(status);
    }
    void on_probe_timeout(void*) override {}
    void warn(const std::string&) override {}
    void message(uint32_t, const void*, uint32_t) { ++messages; }
    bool keeps(uint32_t, std::byte*, uint32_t) { return false; }
    bool tagged(Channel&, uint32_t, const std::byte*, uint32_t) { return false; }
    void completed(void* cookie, Status status) override {
        if (Rendezvous::is_cookie(cookie)) return rendezvous->done(cookie, status);
        completions.push_back(status);
    }
    void replied(uint32_t id, const std::byte* data, uint32_t length) override {
        replies.push_back({id, std::string(reinterpret_cast<const char*>(data), length)});
        if (on_reply) on_reply();
    }
    bool control(Channel& channel, uint32_t id, const std::byte* data, uint32_t length) {
        return rendezvous->control(channel, id, data, length);
    }
    bool notified(Channel& channel, uint32_t immediate) {
        return rendezvous->notified(channel, immediate);
    }

    void poll() {
        unsigned count = 0;
        (void)engine->poll(*this, count);
        (void)rendezvous->progress();
    }
    WireKey key(const Region* region) const {
        return {region->key().index, region->key().generation};
    }
    uint64_t address() const { return reinterpret_cast<uint64_t>(memory.data()); }

    Regions regions;
    uint64_t registered = 0;  // bytes, by `pins`
    PinCache pins;
    std::vector<std::byte> memory{kSize};
    std::vector<std::byte> hidden{kSize};
    Region* open = nullptr;
    Region* secret = nullptr;
    std::unique_ptr<Engine> engine;
    std::unique_ptr<Rendezvous> rendezvous;
    std::vector<Status> completions;
    size_t closures = 0;
    std::vector<Status> closed_with;
    size_t messages = 0;
    std::vector<std::pair<uint32_t, std::string>> replies;  // ids and bytes
    std::function<void()> on_reply;
    std::vector<std::string> reasons;  // of lost connections
    std::string reason;                // the last of them
};

}  // namespace tern::test
