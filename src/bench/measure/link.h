// SPDX-License-Identifier: BSD-3-Clause
// The HCA that is measured, and a connection over it.
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "bench/measure/clock.h"
#include "bench/measure/peer.h"
#include "tern/verbs/handles.h"
#include "tern/verbs/port.h"
#include "tern/verbs/queue_pair.h"

namespace bench {

// Whether the device exists. An empty name means any device.
bool has_device(const std::string& name);

// A port as UCX names it, "device:port"; port 1 if none is named.
struct DeviceName {
    DeviceName() = default;
    explicit DeviceName(const std::string& text) : device(text.substr(0, text.find(':'))) {
        if (const size_t colon = text.find(':'); colon != std::string::npos) {
            port = static_cast<uint8_t>(std::atoi(text.c_str() + colon + 1));
        }
    }
    std::string text() const { return device + ":" + std::to_string(port); }

    std::string device;
    uint8_t port = 1;
};

// An open device and one of its ports, which is active.
class Device {
  public:
    // Opens the first device if the name is that of none.
    Device(const DeviceName& name, int gid_index);

    ibv_context* context() { return device_.context.get(); }
    ibv_pd* pd() { return device_.pd.get(); }
    const tern::verbs::Port& port() const { return port_; }
    tern::verbs::MemoryRegion register_memory(void* data, size_t size);

  private:
    tern::verbs::Device device_;
    tern::verbs::Port port_;
};

class Link {
  public:
    static constexpr uint32_t kDepth = 512;  // of the send queue

    // Connects to the peer, which must construct its link at the same time. Messages are sent from
    // the first half of the memory and received into the second half. The memory stays the
    // caller's.
    Link(Device& device, Peer& peer, char* memory, size_t size);

    char* out() { return memory_; }
    char* in() { return memory_ + half_; }
    size_t half() const { return half_; }
    // Whether the device promises the order of the bytes of a request of the peer.
    bool in_order() const { return tern::verbs::writes_in_order(qp_.get()); }

    // Posts a write: from `offset` of out() to `offset` of the peer's in(). Waits for room in the
    // send queue. Those that are not signaled count as done when a later one is done.
    void write(uint64_t offset, uint32_t length, bool signaled = true);
    // Polls for completions. Returns how many requests are done. Throws if one failed.
    int reap();
    // Waits until at most `outstanding` requests are not done.
    void reap_until(uint32_t outstanding);
    uint32_t outstanding() const { return static_cast<uint32_t>(posted_ - done_); }

    // The number of the last message that was recognised in memory. It only grows, so that old data
    // are never mistaken for the next message.
    uint64_t sequence = 0;

  private:
    // What the peer needs to connect.
    struct Address {
        uint16_t lid;
        ibv_gid gid;
        uint32_t qp_number;
        uint32_t key;
        uint64_t in;
    };
    void make_queues(Device& device);
    void connect(Device& device);

    char* const memory_;
    const size_t half_;
    tern::verbs::MemoryRegion mr_;
    tern::verbs::CompletionQueue cq_;
    tern::verbs::QueuePair qp_;
    Address remote_ = {};
    uint32_t inline_limit_ = 0;
    uint64_t posted_ = 0;
    uint64_t done_ = 0;
};

// The offset of the i-th of many messages of a size. There are only a few places, so that small
// messages stay in the cache.
inline uint64_t place_of(uint64_t i, uint32_t size, uint32_t places, size_t room) {
    return i % std::min<uint64_t>(places, room / size) * size;
}

}  // namespace bench
