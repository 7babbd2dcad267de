// SPDX-License-Identifier: BSD-3-Clause
// Tagged messages over UCP, with the transports that the environment selects.
#include <ucp/api/ucp.h>

#include <array>
#include <cstring>
#include <vector>

#include "bench/measure/exchange.h"
#include "bench/measure/ucx.h"
#include "bench/tern-bench/command.h"

namespace bench {
namespace {

constexpr ucp_request_param_t kNoParameters = {};

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

constexpr ucp_tag_t kTag = 0x5e1f;
constexpr ucp_tag_t kWholeTag = ~ucp_tag_t{0};
constexpr uint32_t kMaxSize = 64 << 10;

// An endpoint between the two workers of a pair.
class UcpPort : public Port {
  public:
    UcpPort(Peer& peer, const WorkerJob&) : peer_(peer) {
        const auto config = created<Owner<ucp_config_t, ucp_config_release>>(
            "ucp_config_read", ucp_config_read, nullptr, nullptr);
        ucp_params_t parameters = {};
        parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
        parameters.features = UCP_FEATURE_TAG;
        context_ = created<decltype(context_)>("ucp_init", ucp_init, &parameters, config.get());
        ucp_worker_params_t mode = {};
        mode.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
        mode.thread_mode = UCS_THREAD_MODE_SINGLE;
        worker_ = created<decltype(worker_)>("ucp_worker_create", ucp_worker_create, context_.get(),
                                             &mode);
        const Address theirs = peer.exchange(address());
        ucp_ep_params_t to = {};
        to.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        to.address = reinterpret_cast<const ucp_address_t*>(theirs.data());
        ucp_ep_h made = nullptr;
        check("ucp_ep_create", ucp_ep_create(worker(), &to, &made));
        endpoint_ = {made, EndpointCloser{worker()}};
        meet_in_progress(peer_, *this);
    }
    // Waits until the peer has no more messages on the way either.
    ~UcpPort() override {
        try {
            finish(ucp_worker_flush_nbx(worker(), &kNoParameters), "ucp_worker_flush_nbx");
            meet_in_progress(peer_, *this);
        } catch (const Failure&) {
            // The peer has ended already.
        }
    }

    Samples run(const Order& order) override {
        Samples samples = run_messages(peer_, *this, order);
        numbers_.check();
        return samples;
    }

    void progress() { ucp_worker_progress(worker()); }

    void send(uint32_t size) {
        numbers_.give(out_.data(), size);
        finish(ucp_tag_send_nbx(endpoint_.get(), out_.data(), size, kTag, &kNoParameters),
               "ucp_tag_send_nbx");
    }
    void receive(uint32_t size) {
        finish(ucp_tag_recv_nbx(worker(), in_.data(), size, kTag, kWholeTag, &kNoParameters),
               "ucp_tag_recv_nbx");
        numbers_.take(in_.data(), size);
    }

  private:
    using Address = std::array<unsigned char, 2048>;  // which workers exchange

    ucp_worker_h worker() const { return worker_.get(); }
    Address address() {
        ucp_address_t* mine = nullptr;
        size_t size = 0;
        check("ucp_worker_get_address", ucp_worker_get_address(worker(), &mine, &size));
        Address address = {};
        if (size > address.size()) throw Failure("the address of the UCP worker is too long");
        std::memcpy(address.data(), mine, size);
        ucp_worker_release_address(worker(), mine);
        return address;
    }
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

    Peer& peer_;
    Owner<ucp_context, ucp_cleanup> context_;
    Owner<ucp_worker, ucp_worker_destroy> worker_;
    std::unique_ptr<ucp_ep, EndpointCloser> endpoint_;
    std::vector<char> out_ = std::vector<char>(kMaxSize);
    std::vector<char> in_ = std::vector<char>(kMaxSize);
    Numbers numbers_;
};

}  // namespace

const PortKind kUcpPort = {"ucp", open<UcpPort>};

}  // namespace bench
