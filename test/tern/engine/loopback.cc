// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <cstring>

#include "node.h"
#include "storm_device.h"
#include "tern/verbs/memory.h"
#include "tern/verbs/queue_pair.h"

namespace tern::test {

namespace {

class Loopback final : public StormDevice {
  public:
    Loopback()
        : cq_(ibv_create_cq(port().context, 64, nullptr, nullptr, 0)),
          scratch_(device().pd.get(), 2 * kMost, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) {
        const verbs::QueueSizes sizes{.sends = 16, .receives = 1};
        ibv_qp_cap capacity{};
        for (auto& qp : {&from_, &to_}) {
            *qp = verbs::create_queue_pair(device().pd.get(), IBV_QPT_RC, cq_.get(), nullptr, sizes,
                                           capacity);
            EXPECT_TRUE(*qp);
            EXPECT_EQ(verbs::init_reliable(qp->get(), port()), 0);
        }
        connect(from_.get(), to_.get());
        connect(to_.get(), from_.get());
    }

    std::unique_ptr<Registrar> registrar() override {
        return std::make_unique<VerbsRegistrar>(device().pd.get());
    }
    bool gather(const Pin& pin, const void* from, size_t size, void* to) override {
        const std::lock_guard lock(mutex_);
        const bool done =
            write({reinterpret_cast<uintptr_t>(from), static_cast<uint32_t>(size), pin.lkey()},
                  reinterpret_cast<uintptr_t>(scratch_.data()), scratch_.rkey());
        memcpy(to, scratch_.data(), size);
        return done;
    }
    bool scatter(const Pin& pin, void* to, size_t size, const void* from) override {
        const std::lock_guard lock(mutex_);
        memcpy(scratch_.data(), from, size);
        return write({reinterpret_cast<uintptr_t>(scratch_.data()), static_cast<uint32_t>(size),
                      scratch_.lkey()},
                     reinterpret_cast<uintptr_t>(to), pin.rkey());
    }

  private:
    static void connect(ibv_qp* qp, const ibv_qp* peer) {
        const EngineSettings settings = quick_settings();
        const ibv_ah_attr self = port().address_vector(static_cast<uint16_t>(port().attributes.lid),
                                                       port().gid, port().global);
        EXPECT_EQ(verbs::connect_reliable(qp, port(), settings.retry, self, peer->qp_num, 1, 1,
                                          port().mtu, port().reads),
                  0);
    }
    bool write(ibv_sge piece, uint64_t address, uint32_t rkey) {
        ibv_send_wr request{};
        request.sg_list = &piece;
        request.num_sge = 1;
        request.opcode = IBV_WR_RDMA_WRITE;
        request.send_flags = IBV_SEND_SIGNALED;
        request.wr.rdma.remote_addr = address;
        request.wr.rdma.rkey = rkey;
        ibv_send_wr* bad = nullptr;
        if (ibv_post_send(from_.get(), &request, &bad) != 0) return false;
        ibv_wc completion{};
        return until([] {}, [&] { return ibv_poll_cq(cq_.get(), 1, &completion) != 0; }) &&
               completion.status == IBV_WC_SUCCESS;
    }

    std::mutex mutex_;
    verbs::CompletionQueue cq_;
    verbs::RegisteredMemory scratch_;
    verbs::QueuePair from_;
    verbs::QueuePair to_;
};

}  // namespace

std::unique_ptr<StormDevice> open_loopback() {
    return std::make_unique<Loopback>();
}

}  // namespace tern::test
