// SPDX-License-Identifier: BSD-3-Clause
// Tagged messages over UCP, and its one-sided communication: puts and gets in memory whose key the
// target has passed on. With the transports that the environment selects.
#include <array>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "bench/measure/machine.h"
#include "bench/measure/one_sided.h"
#include "bench/tern-bench/arms.h"
#include "bench/tern-bench/exchange.h"
#include "bench/tern-bench/ucp_link.h"

namespace bench {

void check(const std::string& what, ucs_status_t status) {
    if (status != UCS_OK) throw Failure(what + ": " + ucs_status_string(status));
}

UcpHandles::~UcpHandles() {
    if (endpoint != nullptr) close_endpoint();
    if (worker != nullptr) ucp_worker_destroy(worker);
    if (context != nullptr) ucp_cleanup(context);
}

void UcpHandles::close_endpoint() {
    const ucp_request_param_t parameters = {};
    void* const request = ucp_ep_close_nbx(endpoint, &parameters);
    if (!UCS_PTR_IS_PTR(request)) return;
    for (int i = 0; i < 1'000'000 && ucp_request_check_status(request) == UCS_INPROGRESS; ++i) {
        ucp_worker_progress(worker);
    }
    ucp_request_free(request);
}

struct UcpLink::WorkerAddress {
    size_t size;
    std::array<unsigned char, 2048> bytes;
};

UcpLink::UcpLink(Peer& peer, uint64_t features) : peer_(peer) {
    open(features);
    connect(peer.exchange(address()));
    meet_in_progress(peer_, *this);
}

UcpLink::~UcpLink() {
    const ucp_request_param_t parameters = {};
    try {
        finish(ucp_worker_flush_nbx(ucp_.worker, &parameters), "ucp_worker_flush_nbx");
        meet_in_progress(peer_, *this);
    } catch (const Failure&) {
        // The peer has ended already.
    }
}

void UcpLink::finish(void* request, const char* what) {
    if (request == nullptr) return;
    if (UCS_PTR_IS_ERR(request)) check(what, UCS_PTR_STATUS(request));
    Patience patience(what);
    ucs_status_t status;
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        progress();
        patience.spend();
    }
    ucp_request_free(request);
    check(what, status);
}

void UcpLink::open(uint64_t features) {
    ucp_config_t* config = nullptr;
    check("ucp_config_read", ucp_config_read(nullptr, nullptr, &config));
    ucp_params_t parameters = {};
    parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
    parameters.features = features;
    const ucs_status_t status = ucp_init(&parameters, config, &ucp_.context);
    ucp_config_release(config);
    check("ucp_init", status);
    ucp_worker_params_t worker = {};
    worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker.thread_mode = UCS_THREAD_MODE_SINGLE;
    check("ucp_worker_create", ucp_worker_create(ucp_.context, &worker, &ucp_.worker));
}

UcpLink::WorkerAddress UcpLink::address() {
    ucp_address_t* mine = nullptr;
    WorkerAddress address = {};
    check("ucp_worker_get_address", ucp_worker_get_address(ucp_.worker, &mine, &address.size));
    const bool fits = address.size <= address.bytes.size();
    if (fits) std::memcpy(address.bytes.data(), mine, address.size);
    ucp_worker_release_address(ucp_.worker, mine);
    if (!fits) throw Failure("the address of the UCP worker is too long");
    return address;
}

void UcpLink::connect(const WorkerAddress& theirs) {
    ucp_ep_params_t parameters = {};
    parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    parameters.address = reinterpret_cast<const ucp_address_t*>(theirs.bytes.data());
    check("ucp_ep_create", ucp_ep_create(ucp_.worker, &parameters, &ucp_.endpoint));
}

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

// Memory that UCP has registered.
class MappedMemory {
  public:
    MappedMemory(ucp_context_h context, char* data, size_t size) : context_(context) {
        ucp_mem_map_params_t parameters = {};
        parameters.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
        parameters.address = data;
        parameters.length = size;
        check("ucp_mem_map", ucp_mem_map(context, &parameters, &handle_));
    }
    ~MappedMemory() { ucp_mem_unmap(context_, handle_); }
    MappedMemory(const MappedMemory&) = delete;
    MappedMemory& operator=(const MappedMemory&) = delete;

    ucp_mem_h handle() const { return handle_; }

  private:
    const ucp_context_h context_;
    ucp_mem_h handle_ = nullptr;
};

// What a process needs to reach the other one's memory.
struct Target {
    uint64_t memory;
    size_t key_size;
    std::array<unsigned char, 1024> key;
};

Target target_of(const UcpLink& link, const MappedMemory& mapped, const char* memory) {
    Target target = {};
    target.memory = reinterpret_cast<uint64_t>(memory);
    void* key = nullptr;
    check("ucp_rkey_pack", ucp_rkey_pack(link.context(), mapped.handle(), &key, &target.key_size));
    const bool fits = target.key_size <= target.key.size();
    if (fits) std::memcpy(target.key.data(), key, target.key_size);
    ucp_rkey_buffer_release(key);
    if (!fits) throw Failure("the key of the memory is too long");
    return target;
}

// The key of the other process's memory.
class RemoteKey {
  public:
    RemoteKey(ucp_ep_h endpoint, const Target& target) {
        check("ucp_ep_rkey_unpack", ucp_ep_rkey_unpack(endpoint, target.key.data(), &key_));
    }
    ~RemoteKey() { ucp_rkey_destroy(key_); }
    RemoteKey(const RemoteKey&) = delete;
    RemoteKey& operator=(const RemoteKey&) = delete;

    ucp_rkey_h get() const { return key_; }

  private:
    ucp_rkey_h key_ = nullptr;
};

class RmaPort : public Port {
  public:
    RmaPort(Peer& peer, Memory::Kind kind)
        : peer_(peer),
          memory_(kind, 2 * kLongest),
          link_(peer, UCP_FEATURE_RMA),
          mapped_(link_.context(), memory_.data(), 2 * kLongest),
          target_(peer.exchange(target_of(link_, mapped_, memory_.data()))),
          key_(link_.endpoint(), target_) {}

    Samples run(const Order& order) override {
        if (order.kind != Order::Kind::kOneSided) throw Failure("not an order for puts and gets");
        reads_ = order.request == Order::Request::kRead;
        return one_sided(peer_, *this, order, ++orders_);
    }

    char* out() { return memory_.data(); }
    char* in() { return memory_.data() + kLongest; }
    static size_t half() { return kLongest; }
    // The target serves its library meanwhile, as a process does that waits in a barrier of MPI.
    void meet() { meet_in_progress(peer_, link_); }
    void begin(uint64_t offset, uint32_t size, bool) {
        const ucp_request_param_t parameters = {};
        const uint64_t there = target_.memory + offset;
        void* const request = reads_ ? ucp_get_nbx(link_.endpoint(), in() + offset, size, there,
                                                   key_.get(), &parameters)
                                     : ucp_put_nbx(link_.endpoint(), out() + offset, size,
                                                   there + kLongest, key_.get(), &parameters);
        if (UCS_PTR_IS_ERR(request)) {
            check(reads_ ? "ucp_get_nbx" : "ucp_put_nbx", UCS_PTR_STATUS(request));
        }
        // The flush waits for the operation.
        if (request != nullptr) ucp_request_free(request);
    }
    void flush() {
        const ucp_request_param_t parameters = {};
        link_.finish(ucp_ep_flush_nbx(link_.endpoint(), &parameters), "ucp_ep_flush_nbx");
    }

  private:
    Peer& peer_;
    Memory memory_;
    UcpLink link_;
    MappedMemory mapped_;
    const Target target_;
    const RemoteKey key_;
    bool reads_ = false;
    uint64_t orders_ = 0;
};

}  // namespace

std::unique_ptr<Port> open_ucp_port(Peer& peer, const WorkerJob&) {
    return std::make_unique<UcpPort>(peer);
}

std::unique_ptr<Port> open_rma_port(Peer& peer, const WorkerJob& job) {
    const bool shared = std::strcmp(job.what, "shared") == 0;
    return std::make_unique<RmaPort>(peer, shared ? Memory::Kind::kShared : Memory::Kind::kPrivate);
}

}  // namespace bench
