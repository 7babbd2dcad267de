// SPDX-License-Identifier: BSD-3-Clause
// The HCA that is measured, and a reliable connection over it.
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "bench/measure/clock.h"
#include "bench/measure/peer.h"
#include "verbs/handles.h"

namespace bench {

std::vector<std::string> device_names();
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

class Device {
  public:
    // Opens the device of that name, or the first one if the name is empty.
    explicit Device(const DeviceName& name);

    ibv_context* context() { return context_.get(); }
    ibv_pd* pd() { return pd_.get(); }
    const ibv_port_attr& port() const { return port_; }
    uint8_t port_number() const { return port_number_; }
    tern::verbs::MemoryRegion register_memory(void* data, size_t size);

  private:
    tern::verbs::Context context_;
    tern::verbs::ProtectionDomain pd_;
    const uint8_t port_number_;
    ibv_port_attr port_ = {};
};

class Link {
  public:
    static constexpr uint32_t kDepth = 512;  // of the send queue and of the receive queue

    // Connects to the peer, which must construct its link at the same time. Messages are sent from
    // the first half of the memory and received into the second half. The memory stays the
    // caller's.
    Link(Device& device, Peer& peer, int gid_index, char* memory, size_t size);

    char* out() { return memory_; }
    char* in() { return memory_ + half_; }
    size_t half() const { return half_; }
    uint64_t remote_in() const { return remote_.in; }
    uint64_t remote_out() const { return remote_.in - half_; }

    // Posts one request for `length` bytes, from `offset` of out() to `offset` of the peer's in().
    // A read goes from the peer's out() to in(). Waits for room in the send queue. A request that
    // is not signaled counts as done when a later one is done.
    void post(ibv_wr_opcode opcode, uint64_t offset, uint32_t length, bool signaled = true);
    // A write between other registered memory, with the keys of that memory.
    struct Write {
        const void* from;
        uint32_t key;
        uint64_t to;
        uint32_t remote_key;
        uint32_t length;
    };
    void post_write(const Write& write);
    // Posts two writes in one call: one as post() does, and behind it another one.
    void post_chain(uint64_t offset, uint32_t length, const Write& behind, bool signaled = true);
    // Polls for completions. Returns how many requests are done. Throws if one failed.
    int reap();
    // Waits until at most `outstanding` requests are not done.
    void reap_until(uint32_t outstanding);
    uint32_t outstanding() const { return static_cast<uint32_t>(posted_ - done_); }

    void post_receive(uint64_t offset, uint32_t length);
    // Polls for completions of receives. Returns their number.
    int reap_receives();

    // The number of the last message that was recognised in memory. It only grows, so that old data
    // are never mistaken for the next message.
    uint64_t sequence = 0;

  private:
    struct Address {
        uint16_t lid;
        ibv_gid gid;
        uint32_t qp_number;
        uint32_t key;
        uint64_t in;
    };
    // A request and its one piece.
    struct Request {
        ibv_sge piece;
        ibv_send_wr work;
    };
    Request request(ibv_wr_opcode opcode, uint64_t offset, uint32_t length) const;
    static Request request(const Write& write);
    // Posts the requests, which are in this order, and count as one chain. Waits for room first.
    template <size_t kCount>
    void post(Request (&chain)[kCount], bool signaled);
    tern::verbs::CompletionQueue make_cq(Device& device);
    void make_qp(Device& device);
    void connect(Device& device, int gid_index);

    char* const memory_;
    const size_t half_;
    tern::verbs::MemoryRegion mr_;
    tern::verbs::CompletionQueue send_cq_;
    tern::verbs::CompletionQueue receive_cq_;
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

class Receives {
  public:
    // Posts as many receives as fit. The caller must take all `count` messages, or receives stay
    // posted.
    Receives(Link& link, uint32_t size, uint64_t count) : link_(link), size_(size), count_(count) {
        refill();
    }

    // Polls for messages. Returns their number.
    int take() {
        const int got = link_.reap_receives();
        taken_ += static_cast<uint64_t>(got);
        return got;
    }
    void wait_for(uint64_t taken) {
        Patience patience("messages");
        while (taken_ < taken) {
            if (take() == 0) patience.spend();
        }
    }
    void refill() {
        const size_t room = std::min(link_.half(), kRoom);
        for (; posted_ < count_ && posted_ - taken_ < Link::kDepth; ++posted_) {
            link_.post_receive(place_of(posted_, size_, Link::kDepth, room), size_);
        }
    }
    bool all_taken() const { return taken_ == count_; }

  private:
    static constexpr size_t kRoom = size_t{4} << 20;  // more would not stay in the cache

    Link& link_;
    const uint32_t size_;
    const uint64_t count_;
    uint64_t posted_ = 0;
    uint64_t taken_ = 0;
};

}  // namespace bench
