// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <arpa/inet.h>

#include <optional>
#include <string>

#include "node.h"
#include "tern/verbs/xrc.h"

namespace tern::test {

// A connected pair of XRC queue pairs, as any process of a domain can make.
struct XrcWay {
    XrcWay(const verbs::XrcDomain& domain, ibv_cq* cq) {
        sender = verbs::create_xrc_sender(device().pd.get(), cq, {.sends = 16, .inline_bytes = 64},
                                          capacity);
        receiver = verbs::create_xrc_receiver(port().context, domain);
        EXPECT_TRUE(sender && receiver);
        const ibv_ah_attr here =
            port().address_vector(port().attributes.lid, port().gid, port().global);
        EXPECT_EQ(verbs::connect_xrc_receiver(receiver.get(), port(), here, sender->qp_num, 7,
                                              port().mtu),
                  0);
        EXPECT_EQ(verbs::connect_xrc_sender(sender.get(), port(), {.timeout = 10, .retries = 2},
                                            here, receiver->qp_num, 0, 7, port().mtu),
                  0);
    }
    // Sends to the queue with this number.
    void send(uint64_t id, uint32_t number, const std::string& text,
              std::optional<uint32_t> immediate = {}) {
        ibv_sge piece{.addr = reinterpret_cast<uint64_t>(text.data()),
                      .length = static_cast<uint32_t>(text.size()),
                      .lkey = 0};
        ibv_send_wr request{};
        request.wr_id = id;
        request.sg_list = &piece;
        request.num_sge = text.empty() ? 0 : 1;
        request.opcode = immediate ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
        request.imm_data = htonl(immediate.value_or(0));
        request.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
        request.qp_type.xrc.remote_srqn = number;
        ibv_send_wr* refused = nullptr;
        ASSERT_EQ(ibv_post_send(sender.get(), &request, &refused), 0);
    }

    verbs::QueuePair sender;
    verbs::QueuePair receiver;
    ibv_qp_cap capacity{};
};

}  // namespace tern::test
