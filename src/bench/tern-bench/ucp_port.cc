// SPDX-License-Identifier: BSD-3-Clause
// Tagged messages over UCP, with the transports that the environment selects.
#include <ucp/api/ucp.h>

#include <array>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "bench/measure/machine.h"
#include "bench/tern-bench/arms.h"
#include "bench/tern-bench/exchange.h"

namespace bench {
namespace {

constexpr ucp_tag_t kTag = 0x5e1f;
constexpr ucp_tag_t kGoTag = 0x60;
constexpr uint32_t kMaxSize = 64 << 10;
constexpr uint64_t kWakeUps = 5;

Failure ucp_failure(const std::string& what, ucs_status_t status) {
    return Failure(what + ": " + ucs_status_string(status));
}

void check(const std::string& what, ucs_status_t status) {
    if (status != UCS_OK) throw ucp_failure(what, status);
}

struct WorkerAddress {
    size_t size;
    std::array<unsigned char, 2048> bytes;
};

// Closes its handles in the order that UCP requires.
struct UcpHandles {
    ucp_context_h context = nullptr;
    ucp_worker_h worker = nullptr;
    ucp_ep_h endpoint = nullptr;

    UcpHandles() = default;
    UcpHandles(const UcpHandles&) = delete;
    UcpHandles& operator=(const UcpHandles&) = delete;
    ~UcpHandles() {
        if (endpoint != nullptr) close_endpoint();
        if (worker != nullptr) ucp_worker_destroy(worker);
        if (context != nullptr) ucp_cleanup(context);
    }

  private:
    void close_endpoint() {
        const ucp_request_param_t parameters = {};
        void* const request = ucp_ep_close_nbx(endpoint, &parameters);
        if (!UCS_PTR_IS_PTR(request)) return;
        for (int i = 0; i < 1'000'000 && ucp_request_check_status(request) == UCS_INPROGRESS; ++i) {
            ucp_worker_progress(worker);
        }
        ucp_request_free(request);
    }
};

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

// A message begins and ends with its number.
void mark(char* message, uint32_t size, uint64_t number) {
    std::memcpy(message, &number, sizeof number);
    std::memcpy(message + size - sizeof number, &number, sizeof number);
}
bool is_marked(const char* message, uint32_t size, uint64_t number) {
    return std::memcmp(message, &number, sizeof number) == 0 &&
           std::memcmp(message + size - sizeof number, &number, sizeof number) == 0;
}

class UcpPort : public Port {
  public:
    explicit UcpPort(Peer& peer) : peer_(peer) {
        open();
        connect(peer.exchange(address()));
        meet_in_progress(peer_, *this);
    }
    ~UcpPort() override {
        const ucp_request_param_t parameters = {};
        try {
            finish(ucp_worker_flush_nbx(ucp_.worker, &parameters), "ucp_worker_flush_nbx");
            meet_in_progress(peer_, *this);
        } catch (const Failure&) {
            // The peer has ended already.
        }
    }

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
        const Samples samples = order.kind == Order::Kind::kMessages
                                    ? ping_pong(peer_, *this, order)
                                : order.kind == Order::Kind::kStream ? stream(peer_, *this, order)
                                                                     : settled(order);
        if (out_of_order_ != 0) throw Failure("messages came out of order or were damaged");
        return samples;
    }

    void progress() { ucp_worker_progress(ucp_.worker); }

    void send(uint32_t size) { complete(begin_send(size)); }
    void receive(uint32_t size) { complete(begin_receive(size)); }

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
        return {ucp_tag_send_nbx(ucp_.endpoint, from, size, kTag, &parameters), from, size, false};
    }
    Operation begin_receive(uint32_t size) {
        char* const into = in_.next();
        const ucp_request_param_t parameters = {};
        return {ucp_tag_recv_nbx(ucp_.worker, into, size, kTag, ~ucp_tag_t{0}, &parameters), into,
                size, true};
    }
    void complete(const Operation& operation) {
        finish(operation.request, operation.receives ? "ucp_tag_recv_nbx" : "ucp_tag_send_nbx");
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
        finish(ucp_tag_send_nbx(ucp_.endpoint, &go_, sizeof go_, kGoTag, &parameters), "go");
    }
    void wait_for_go() {
        const ucp_request_param_t parameters = {};
        finish(ucp_tag_recv_nbx(ucp_.worker, &go_, sizeof go_, kGoTag, ~ucp_tag_t{0}, &parameters),
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
    void open();
    WorkerAddress address();
    void connect(const WorkerAddress& theirs);
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
    // Waits for the end of an operation. `request` is the result of the call that started it.
    void finish(void* request, const char* what) {
        if (request == nullptr) return;
        if (UCS_PTR_IS_ERR(request)) throw ucp_failure(what, UCS_PTR_STATUS(request));
        Patience patience(what);
        ucs_status_t status;
        while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
            progress();
            patience.spend();
        }
        ucp_request_free(request);
        check(what, status);
    }

    Peer& peer_;
    UcpHandles ucp_;
    Ground out_;
    Ground in_;
    uint64_t sent_ = 0;
    uint64_t received_ = 0;
    uint64_t out_of_order_ = 0;
    std::array<bool, 2> has_settled_{};  // index: order.sender
    char go_ = 0;
};

void UcpPort::open() {
    ucp_config_t* config = nullptr;
    check("ucp_config_read", ucp_config_read(nullptr, nullptr, &config));
    ucp_params_t parameters = {};
    parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
    parameters.features = UCP_FEATURE_TAG;
    const ucs_status_t status = ucp_init(&parameters, config, &ucp_.context);
    ucp_config_release(config);
    check("ucp_init", status);
    ucp_worker_params_t worker = {};
    worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker.thread_mode = UCS_THREAD_MODE_SINGLE;
    check("ucp_worker_create", ucp_worker_create(ucp_.context, &worker, &ucp_.worker));
}

WorkerAddress UcpPort::address() {
    ucp_address_t* mine = nullptr;
    WorkerAddress address = {};
    check("ucp_worker_get_address", ucp_worker_get_address(ucp_.worker, &mine, &address.size));
    const bool fits = address.size <= address.bytes.size();
    if (fits) std::memcpy(address.bytes.data(), mine, address.size);
    ucp_worker_release_address(ucp_.worker, mine);
    if (!fits) throw Failure("the address of the UCP worker is too long");
    return address;
}

void UcpPort::connect(const WorkerAddress& theirs) {
    ucp_ep_params_t parameters = {};
    parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    parameters.address = reinterpret_cast<const ucp_address_t*>(theirs.bytes.data());
    check("ucp_ep_create", ucp_ep_create(ucp_.worker, &parameters, &ucp_.endpoint));
}

}  // namespace

std::unique_ptr<Port> open_ucp_port(Peer& peer, const WorkerJob&) {
    return std::make_unique<UcpPort>(peer);
}

}  // namespace bench
