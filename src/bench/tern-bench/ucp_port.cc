// SPDX-License-Identifier: BSD-3-Clause
// Tagged messages over UCP, and its one-sided communication: puts and gets in memory whose key the
// target has passed on. With the transports that the environment selects.
#include <ucp/api/ucp.h>

#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "bench/measure/exchange.h"
#include "bench/measure/ucx.h"
#include "bench/tern-bench/command.h"

namespace bench {
namespace {

constexpr ucp_request_param_t kNoParameters = {};

// An address or a key of UCP, which workers exchange. Plain data.
struct Blob {
    // Takes the bytes, which the caller gives back.
    Blob(const char* what, const void* from, size_t length) : size(length) {
        if (size > bytes.size()) throw Failure(std::string(what) + " is too long");
        std::memcpy(bytes.data(), from, size);
    }
    Blob() = default;

    size_t size;
    std::array<unsigned char, 2048> bytes;
};

struct EndpointCloser {
    void operator()(ucp_ep_h endpoint) const {
        void* const request = ucp_ep_close_nbx(endpoint, &kNoParameters);
        if (!UCS_PTR_IS_PTR(request)) return;
        for (int i = 0; i < 1'000'000 && ucp_request_check_status(request) == UCS_INPROGRESS; ++i)
            ucp_worker_progress(worker);
        ucp_request_free(request);
    }

    ucp_worker_h worker = nullptr;
};

// An endpoint between the two workers of a pair, with the transports that the environment selects.
class UcpLink {
  public:
    // Connects to the peer, which must construct its link at the same time. `features` are those of
    // ucp_params_t. Throws Failure.
    UcpLink(Peer& peer, uint64_t features) : peer_(peer) {
        const auto config = created<Owner<ucp_config_t, ucp_config_release>>(
            "ucp_config_read", ucp_config_read, nullptr, nullptr);
        ucp_params_t parameters = {};
        parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
        parameters.features = features;
        context_ = created<decltype(context_)>("ucp_init", ucp_init, &parameters, config.get());
        ucp_worker_params_t worker = {};
        worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
        worker.thread_mode = UCS_THREAD_MODE_SINGLE;
        worker_ =
            created<decltype(worker_)>("ucp_worker_create", ucp_worker_create, context(), &worker);
        const Blob theirs = peer.exchange(address());
        ucp_ep_params_t endpoint = {};
        endpoint.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        endpoint.address = reinterpret_cast<const ucp_address_t*>(theirs.bytes.data());
        ucp_ep_h made = nullptr;
        check("ucp_ep_create", ucp_ep_create(this->worker(), &endpoint, &made));
        endpoint_ = {made, EndpointCloser{this->worker()}};
        meet_in_progress(peer_, *this);
    }
    // Waits until the peer has no more messages on the way either.
    ~UcpLink() {
        try {
            finish(ucp_worker_flush_nbx(worker(), &kNoParameters), "ucp_worker_flush_nbx");
            meet_in_progress(peer_, *this);
        } catch (const Failure&) {
            // The peer has ended already.
        }
    }
    UcpLink(const UcpLink&) = delete;
    UcpLink& operator=(const UcpLink&) = delete;

    ucp_context_h context() const { return context_.get(); }
    ucp_worker_h worker() const { return worker_.get(); }
    ucp_ep_h endpoint() const { return endpoint_.get(); }
    void progress() { ucp_worker_progress(worker()); }
    // Waits for the end of an operation. `request` is the result of the call that started it.
    // Throws Failure.
    void finish(void* request, const char* what) {
        if (request == nullptr) return;
        if (UCS_PTR_IS_ERR(request)) check(what, UCS_PTR_STATUS(request));
        ucs_status_t status;
        const auto is_done = [&] {
            return (status = ucp_request_check_status(request)) != UCS_INPROGRESS;
        };
        wait_until(what, is_done, [&] { progress(); });
        ucp_request_free(request);
        check(what, status);
    }

  private:
    Blob address() {
        ucp_address_t* mine = nullptr;
        size_t size = 0;
        check("ucp_worker_get_address", ucp_worker_get_address(worker(), &mine, &size));
        const Blob address("the address of the UCP worker", mine, size);
        ucp_worker_release_address(worker(), mine);
        return address;
    }

    Peer& peer_;
    Owner<ucp_context, ucp_cleanup> context_;
    Owner<ucp_worker, ucp_worker_destroy> worker_;
    std::unique_ptr<ucp_ep, EndpointCloser> endpoint_;
};

constexpr ucp_tag_t kTag = 0x5e1f;
constexpr ucp_tag_t kGoTag = 0x60;
constexpr ucp_tag_t kWholeTag = ~ucp_tag_t{0};
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
    UcpPort(Peer& peer, const WorkerJob&) : peer_(peer), link_(peer, UCP_FEATURE_TAG) {}

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
        Samples samples = run_messages(peer_, *this, order);
        numbers_.check();
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
        numbers_.give(from, size);
        return {ucp_tag_send_nbx(link_.endpoint(), from, size, kTag, &kNoParameters), from, size,
                false};
    }
    Operation begin_receive(uint32_t size) {
        char* const into = in_.next();
        return {ucp_tag_recv_nbx(link_.worker(), into, size, kTag, kWholeTag, &kNoParameters), into,
                size, true};
    }
    void complete(const Operation& operation) {
        link_.finish(operation.request,
                     operation.receives ? "ucp_tag_recv_nbx" : "ucp_tag_send_nbx");
        if (operation.receives) numbers_.take(operation.memory, operation.size);
    }
    // Words apart from the messages.
    void say_go() {
        link_.finish(ucp_tag_send_nbx(link_.endpoint(), &go_, sizeof go_, kGoTag, &kNoParameters),
                     "go");
    }
    void wait_for_go() {
        link_.finish(
            ucp_tag_recv_nbx(link_.worker(), &go_, sizeof go_, kGoTag, kWholeTag, &kNoParameters),
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
    Peer& peer_;
    UcpLink link_;
    Ground out_;
    Ground in_;
    Numbers numbers_;
    char go_ = 0;
};

}  // namespace

const PortKind kUcpPort = {"ucp", open<UcpPort>};

}  // namespace bench
