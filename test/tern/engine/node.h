// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/patience.h"
#include "tern/engine/engine.h"

namespace tern::test {

// The first usable device, and its first active port.
const verbs::Device& device();
const verbs::Port& port();
inline bool has_xrc() {
    return (device().attributes.device_cap_flags & IBV_DEVICE_XRC) != 0;
}
// Whether the device promises that the bytes of a write appear in order. Without this promise, no
// block is granted, unless PollMode::kMemory asks for it.
bool writes_in_order();

// What quick_settings() and RendezvousNode register is relaxed as with
// UCX_TERN_PCI_RELAXED_ORDERING. Set by that variable if it is "on".
extern bool relaxed_order;

EngineSettings quick_settings();
// With short queues and messages, so that little memory is registered for each of many nodes.
EngineSettings small_settings();
// Blocks are granted on every device: for tests in which it does not matter in which order the
// bytes of a write appear.
EngineSettings memory_settings();

// An engine, and what its owner has been told.
struct Node final : EngineOwner {
    struct Message {
        // Of send_number().
        uint64_t number() const {
            uint64_t number = 0;
            memcpy(&number, data.data(), sizeof(number));
            return number;
        }

        uint32_t id;
        std::string data;
    };

    explicit Node(const EngineSettings& settings = quick_settings(),
                  const verbs::Port& on = port()) {
        std::string why;
        engine = Engine::create(device(), on, settings, *this, why);
        EXPECT_TRUE(engine) << why;
    }

    void lost(const PeerAddress&, Status status, const std::string& why) override {
        losses.push_back(status);
        reason = why;
    }
    Status ended(Channel&, Status status) override { return status; }
    void closed(void* user, Status status) override { closures.push_back({user, status}); }
    void on_probe_timeout(void*) override {}
    void broken(const std::string& why) override { breakdowns.push_back(why); }
    void note(const std::string& text) override { notes.push_back(text); }
    void warn(const std::string& text) override { warnings.push_back(text); }

    void message(uint32_t id, const void* data, uint32_t length) {
        messages.push_back({id, std::string(static_cast<const char*>(data), length)});
    }
    // With EngineSettings::headroom. The test gives them back.
    bool keeps(uint32_t id, std::byte* data, uint32_t length) {
        if (!keep) {
            message(id, data, length);
        } else {
            kept.emplace_back(data, length);
        }
        return keep;
    }
    bool tagged(Channel&, uint32_t, const std::byte*, uint32_t) { return false; }
    void completed(void*, Status status) override { completions.push_back(status); }
    bool control(Channel&, uint32_t, const std::byte*, uint32_t) { return false; }
    bool notified(Channel&, uint32_t) { return false; }

    unsigned poll() {
        unsigned count = 0;
        (void)engine->poll(*this, count);
        return count;
    }

    // Sends a message that contains a number.
    Status send_number(Channel& channel, uint32_t id, uint64_t number) const {
        uint32_t length = 0;
        return engine->am_bcopy(
            channel, id,
            [&](void* to) {
                memcpy(to, &number, sizeof(number));
                return static_cast<uint32_t>(sizeof(number));
            },
            length);
    }

    // Sends `text`, with as many tries as needed; polls both ends. False: an error, or it took too
    // long.
    bool send(Channel& channel, uint32_t id, const std::string& text, Node& other);

    std::unique_ptr<Engine> engine;
    std::deque<Message> messages;
    bool keep = false;
    std::deque<std::span<std::byte>> kept;
    std::vector<Status> completions;
    std::vector<Status> losses;
    std::vector<std::pair<void*, Status>> closures;
    std::vector<std::string> warnings;
    std::vector<std::string> breakdowns;
    std::vector<std::string> notes;
    std::string reason;
};

// Repeats `step` until `done`. False: too late.
template <class Step, class Done>
bool until(Step&& step, Done&& done) {
    const auto limit = std::chrono::steady_clock::now() + patience();
    while (!done()) {
        if (std::chrono::steady_clock::now() > limit) return false;
        step();
    }
    return true;
}

}  // namespace tern::test
