// SPDX-License-Identifier: BSD-3-Clause
// Tagged messages over UCP, with the transports that the environment selects.
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "bench/measure/machine.h"
#include "bench/tern-bench/arms.h"
#include "bench/tern-bench/exchange.h"
#include "bench/tern-bench/ucp_link.h"

namespace bench {
namespace {

constexpr ucp_tag_t kTag = 0x5e1f;
constexpr ucp_tag_t kGoTag = 0x60;
constexpr uint32_t kMaxSize = 64 << 10;
constexpr uint64_t kWakeUps = 5;

// The buffers of the messages of one direction.
class Ground {
  public:
    void begin(const Order& order) {
        walks_ = false;
        if (order.buffers != Buffers::kOne && (walk_.begin(order) || !far_)) {
            // Newly mapped memory counts as never used.
            far_.reset();
            far_.emplace(Memory::Kind::kPrivate, kGround);
        }
    }
    void walk(bool walks) { walks_ = walks; }
    char* next() { return walks_ ? far_->data() + walk_.step() : near_.data(); }

  private:
    std::vector<char> near_ = std::vector<char>(kMaxSize);
    bool walks_ = false;
    Walk walk_;
    std::optional<Memory> far_;
};

class UcpPort : public Port {
  public:
    explicit UcpPort(Peer& peer) : peer_(peer), link_(peer, UCP_FEATURE_TAG) {}

    Samples run(const Order& order) override {
        if (order.kind == Order::Kind::kGoes) return goes(order.count);
        out_.begin(order);
        in_.begin(order);
        if (order.buffers != Buffers::kOne) {
            // The first message must not include the time until both processes are awake.
            goes(kWakeUps);
            out_.walk(true);
            in_.walk(true);
        }
        const Samples samples =
            order.kind == Order::Kind::kMessages    ? ping_pong(peer_, *this, order)
            : order.kind == Order::Kind::kStream    ? stream(peer_, *this, order)
            : order.kind == Order::Kind::kExchanges ? both_ways(peer_, *this, order)
                                                    : settled(order);
        if (out_of_order_ != 0) throw Failure("messages came out of order or were damaged");
        return samples;
    }

    void progress() { link_.progress(); }

    void send(uint32_t size) { complete(begin_send(size)); }
    void receive(uint32_t size) { complete(begin_receive(size)); }

    void exchange(uint32_t size) {
        const Operation coming = begin_receive(size);
        send(size);
        complete(coming);
    }

    // A message that has been posted and not completed.
    struct Operation {
        void* request;
        char* memory;
        uint32_t size;
        bool receives;
    };
    Operation begin_send(uint32_t size) {
        char* const from = out_.next();
        mark(from, size, sent_++);
        const ucp_request_param_t parameters = {};
        return {ucp_tag_send_nbx(link_.endpoint(), from, size, kTag, &parameters), from, size,
                false};
    }
    Operation begin_receive(uint32_t size) {
        char* const into = in_.next();
        const ucp_request_param_t parameters = {};
        return {ucp_tag_recv_nbx(link_.worker(), into, size, kTag, ~ucp_tag_t{0}, &parameters),
                into, size, true};
    }
    void complete(const Operation& operation) {
        link_.finish(operation.request,
                     operation.receives ? "ucp_tag_recv_nbx" : "ucp_tag_send_nbx");
        if (operation.receives && !is_marked(operation.memory, operation.size, received_++))
            ++out_of_order_;
    }
    // Whether the last bytes of the message have arrived. Does not call the transport.
    bool has_arrived(const Operation& operation) const {
        uint64_t number;
        const volatile char* const last = operation.memory + operation.size - sizeof number;
        for (size_t i = 0; i < sizeof number; ++i) reinterpret_cast<char*>(&number)[i] = last[i];
        return number == received_;
    }
    // Words apart from the messages.
    void say_go() {
        const ucp_request_param_t parameters = {};
        link_.finish(ucp_tag_send_nbx(link_.endpoint(), &go_, sizeof go_, kGoTag, &parameters),
                     "go");
    }
    void wait_for_go() {
        const ucp_request_param_t parameters = {};
        link_.finish(
            ucp_tag_recv_nbx(link_.worker(), &go_, sizeof go_, kGoTag, ~ucp_tag_t{0}, &parameters),
            "go");
    }

  private:
    Samples goes(uint64_t count) {
        meet_in_progress(peer_, *this);
        for (uint64_t i = 0; i < count; ++i) {
            if (peer_.measures()) say_go();
            wait_for_go();
            if (!peer_.measures()) say_go();
        }
        return {};
    }
    // Lets the matcher learn which tags are used often, and UCX finish its exchange with the peer
    // before the first rendezvous.
    Samples settled(const Order& order) {
        constexpr uint64_t kLearn = 48;
        constexpr uint32_t kAnnounced = 64 << 10;
        if (!std::exchange(has_settled_[order.sender], true)) {
            Order first = order;
            first.kind = Order::Kind::kOverhead;
            first.count = kLearn;
            for (const uint32_t size : {uint32_t{sizeof(uint64_t)}, kAnnounced}) {
                first.size = size;
                overlapped(peer_, *this, first);
            }
        }
        return overlapped(peer_, *this, order);
    }

    Peer& peer_;
    UcpLink link_;
    Ground out_;
    Ground in_;
    uint64_t sent_ = 0;
    uint64_t received_ = 0;
    uint64_t out_of_order_ = 0;
    std::array<bool, 2> has_settled_{};  // index: order.sender
    char go_ = 0;
};

}  // namespace

std::unique_ptr<Port> open_ucp_port(Peer& peer, const WorkerJob&) {
    return std::make_unique<UcpPort>(peer);
}

}  // namespace bench
