// SPDX-License-Identifier: BSD-3-Clause
#include "node.h"

#include <cstdlib>
#include <string_view>

namespace tern::test {

const verbs::Device& device() {
    static const auto opened = [] {
        // As the transport's module does: some tests fork.
        EXPECT_EQ(ibv_fork_init(), 0);
        for (const std::string& name : verbs::device_names())
            if (auto found = verbs::open_device(name); found && !found->active_ports().empty())
                return found;
        ADD_FAILURE() << "there is no device: run this by softhca run";
        exit(1);
    }();
    return *opened;
}

const verbs::Port& port() {
    static const auto opened = [] {
        verbs::PortTrouble trouble;
        auto found = verbs::open_port(device(), device().active_ports().front(), {}, trouble);
        if (!found) {
            ADD_FAILURE() << trouble.why;
            exit(1);
        }
        return found;
    }();
    return *opened;
}

bool writes_in_order() {
    static const bool promised = [] {
        const EngineSettings settings = quick_settings();
        const verbs::CompletionQueue cq(ibv_create_cq(port().context, 16, nullptr, nullptr, 0));
        ibv_qp_cap capacity{};
        const auto qp = verbs::create_queue_pair(device().pd.get(), IBV_QPT_RC, cq.get(), nullptr,
                                                 {.sends = 1, .receives = 1}, capacity);
        const ibv_ah_attr self =
            port().address_vector(port().attributes.lid, port().gid, port().global);
        EXPECT_TRUE(qp && verbs::init_reliable(qp.get(), port()) == 0 &&
                    verbs::connect_reliable(qp.get(), port(), settings.retry, self, qp->qp_num, 1,
                                            1, port().mtu, port().reads) == 0);
        return verbs::writes_in_order(qp.get());
    }();
    return promised;
}

bool relaxed_order = [] {
    const char* const setting = getenv("UCX_TERN_PCI_RELAXED_ORDERING");
    return setting != nullptr && std::string_view(setting) == "on";
}();

EngineSettings quick_settings() {
    EngineSettings settings;
    settings.buffers.relaxed = relaxed_order;
    settings.retry = {.timeout = 12, .retries = 3, .rnr_timer = 1, .rnr_retries = 7};
    settings.handshake = {.retry_first = 2'000'000,
                          .retry_most = 20'000'000,
                          .connect_limit = 2'000'000'000,
                          .disconnect_limit = 500'000'000,
                          .probe_limit = 2'000'000'000};
    return settings;
}

EngineSettings small_settings() {
    EngineSettings settings = quick_settings();
    settings.segment_size = 1024;
    settings.send_queue = 32;
    settings.send_buffers = 64;
    settings.receive_queue = settings.receive_most = 32;
    return settings;
}

EngineSettings memory_settings() {
    EngineSettings settings = quick_settings();
    settings.poll = PollMode::kMemory;
    return settings;
}

bool Node::send(Channel& channel, uint32_t id, const std::string& text, Node& other) {
    uint32_t length = 0;
    Status status = Status::kNoResource;
    const auto attempt = [&] {
        status = engine->am_bcopy(
            channel, id,
            [&](void* to) {
                memcpy(to, text.data(), text.size());
                return static_cast<uint32_t>(text.size());
            },
            length);
        poll();
        other.poll();
    };
    return until(attempt, [&] { return status != Status::kNoResource; }) && status == Status::kOk;
}

}  // namespace tern::test
