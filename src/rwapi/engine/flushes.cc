// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/engine/flushes.h"

#include <utility>

namespace rwapi {

rwapi_id Flushes::start(Task task, uint32_t node, bool has_id) {
    if (node >= self_.size) return RWAPI_ERR_NODE;
    Peer* const peer = peers_.find(node);
    if (peer == nullptr) return 0;
    if (peer->failed) {
        peer->take_error();
        return RWAPI_ERR_PEER;
    }
    if (peer->is_unused()) return 0;
    Operation* const operation = operations_.allocate(task, *peer, has_id);
    if (operation == nullptr) return RWAPI_ERR_AGAIN;
    return sequencer_.start(*operation);
}

rwapi_id Flushes::flush_all(bool has_id) {
    FlushAll all;
    Peer* dead = nullptr;  // with an error that nobody knows
    peers_.for_each([&](Peer& peer) {
        if (!peer.failed && !peer.is_unused()) all.nodes.push_back(peer.node);
        if (peer.failed && peer.unreported_error != RWAPI_OK) dead = &peer;
    });
    if (all.nodes.empty()) return dead != nullptr ? dead->take_error() : RWAPI_OK;
    // The wholes that wait leave one place for their parts.
    if (waiting_.size() + 2 > operations_.capacity()) return RWAPI_ERR_AGAIN;
    all.whole = operations_.allocate(Task::kFlushAll, peers_.at(all.nodes.front()), has_id);
    if (all.whole == nullptr) return RWAPI_ERR_AGAIN;
    const rwapi_id id = operations_.id(*all.whole);
    Operation& whole = *all.whole;
    if (dead != nullptr) Operations::tell(whole, *dead, dead->take_error());
    whole.whole.parts = 1;  // until start_parts() has begun all
    whole.in_call = true;
    waiting_.push_back(std::move(all));
    start_parts();
    whole.in_call = false;
    const int result = operations_.test(id);
    if (result == 0) return id;
    return result == 1 ? 0 : result;
}

void Flushes::start_parts() {
    for (; !waiting_.empty(); waiting_.pop_front()) {
        FlushAll& all = waiting_.front();
        Operation& whole = *all.whole;
        for (; !all.nodes.empty(); all.nodes.pop_back()) {
            Peer& peer = peers_.at(all.nodes.back());
            if (peer.failed) {
                peer.take_error();
                Operations::tell(whole, peer, RWAPI_ERR_PEER);
                continue;
            }
            Operation* const part = operations_.allocate(Task::kFlush, peer, false);
            if (part == nullptr) {
                peers_.add_work(peer);
                return;
            }
            part->whole.parent = &whole;
            ++whole.whole.parts;
            sequencer_.start(*part);
        }
        operations_.finish_part(whole);
    }
}

}  // namespace rwapi
