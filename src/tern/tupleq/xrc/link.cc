// SPDX-License-Identifier: BSD-3-Clause
#include "tern/tupleq/xrc/link.h"

#include <bit>
#include <random>

namespace tern {

std::unique_ptr<XrcLink> XrcLink::create(ibv_pd* pd, ibv_cq* cq, uint32_t index, uint32_t sends,
                                         uint32_t inline_bytes) {
    std::unique_ptr<XrcLink> link(new XrcLink);
    link->index_ = index;
    link->depth_ = std::bit_ceil(sends);
    link->psn_ = std::random_device{}() & 0xffffff;
    ibv_qp_cap capacity{};
    for (;; inline_bytes /= 2) {
        link->qp_ = verbs::create_xrc_sender(
            pd, cq, {.sends = link->depth_, .inline_bytes = inline_bytes}, capacity);
        if (link->qp_) break;
        if (inline_bytes == 0) return nullptr;
    }
    link->max_inline_ = capacity.max_inline_data;
    link->sends_ = std::make_unique<TupleSend[]>(link->depth_);
    return link;
}

}  // namespace tern
