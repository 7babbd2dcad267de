// SPDX-License-Identifier: BSD-3-Clause
#include "tern/tupleq/xrc/link_table.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <random>

#include "tern/base/trace.h"
#include "tern/tupleq/xrc/messages.h"

namespace tern {

// Makes room in the completion queue for this many links. False and errno if it cannot.
bool LinkTable::grow_completions(uint32_t links) {
    const uint64_t needed = settings_.completions(links);
    if (static_cast<uint64_t>(completions_.get()->cqe) >= needed) return true;
    errno = ENOMEM;
    if (needed > max_cqe_) return false;
    const int error = ibv_resize_cq(completions_.get(),
                                    static_cast<int>(std::min<uint64_t>(needed * 2, max_cqe_)));
    errno = error;
    return error == 0;
}

XrcLink* LinkTable::make() {
    uint32_t index = 0;
    while (index < links_.size() && links_[index]) ++index;
    if (!grow_completions(index + 1)) return nullptr;
    auto link = XrcLink::create(engine_.pd(), completions_.get(), index, settings_.sends,
                                settings_.inline_bytes);
    if (!link) return nullptr;
    if (index == links_.size()) links_.emplace_back();
    links_[index] = std::move(link);
    completions_.add_source();
    return links_[index].get();
}

XrcLink* LinkTable::find_or_make(Channel& channel, uint64_t node) {
    for (const auto& link : links_)
        if (link && link->node == node && link->port == channel.peer.port &&
            link->state != XrcLink::State::kOver && link->host != nullptr && link->host->up() &&
            !link->host->ending)
            return link.get();
    XrcLink* link = make();
    if (link == nullptr) return nullptr;
    link->host = &channel;
    link->node = node;
    link->port = channel.peer.port;
    TERN_DEBUG("link %u: made for node %#lx, with peer %#x as host", link->index(), node,
               peer_number(channel));
    return link;
}

bool LinkTable::ask(XrcLink& link) {
    TERN_ASSERT(link.state == XrcLink::State::kAsking && link.host != nullptr);
    if (link.number != 0) return true;
    const WireConnect frame{.number = attempts_ + 1,
                            .qp_num = link.qp()->qp_num,
                            .psn = link.psn(),
                            .mtu = static_cast<uint32_t>(port_.mtu)};
    if (!send_frame(engine_, *link.host, TupleControlId::kConnect, frame)) return false;
    link.number = ++attempts_;
    return true;
}

bool LinkTable::connect(XrcLink& link, const ibv_ah_attr& to, uint32_t qp_num, uint32_t mtu,
                        bool pages_on_demand) {
    return verbs::connect_xrc_sender(link.qp(), port_, settings_.retry, to, qp_num, 0, link.psn(),
                                     static_cast<ibv_mtu>(mtu), pages_on_demand) == 0;
}

bool LinkTable::on_connected(Channel& channel, const WireConnected& frame) {
    const auto asking = [&](const auto& link) {
        return link && link->host == &channel && link->state == XrcLink::State::kAsking &&
               link->number == frame.number;
    };
    const auto found = std::find_if(links_.begin(), links_.end(), asking);
    if (found == links_.end()) return false;
    XrcLink& link = **found;
    const bool pages_on_demand = (frame.flags & WireConnected::kPagesOnDemand) != 0;
    if (frame.qp_num != 0 &&
        connect(link, address_of(channel), frame.qp_num, frame.mtu, pages_on_demand)) {
        link.state = XrcLink::State::kUp;
        ++counters_.made;
        TERN_DEBUG("link %u: up", link.index());
    } else {
        TERN_DEBUG("link %u: refused by peer %#x", link.index(), peer_number(channel));
        hosts_.of(channel).refused = link.node;
        end(link);
    }
    return true;
}

bool LinkTable::was_refused(const Channel& channel, uint64_t node) const {
    const Host* const host = hosts_.find(channel);
    return host != nullptr && host->refused == node;
}

void LinkTable::forget_refusal(const Channel& channel) {
    if (Host* const host = hosts_.find(channel); host != nullptr) host->refused = 0;
}

WireConnected LinkTable::make_end(Channel& channel, const WireConnect& frame) {
    Host& host = hosts_.of(channel);
    const ibv_ah_attr to = address_of(channel);
    host.end = verbs::create_xrc_receiver(port_.context, domain_);
    if (host.end && verbs::connect_xrc_receiver(host.end.get(), port_, to, frame.qp_num, frame.psn,
                                                static_cast<ibv_mtu>(frame.mtu),
                                                settings_.pages_on_demand) != 0)
        host.end.reset();
    TERN_DEBUG("peer %#x: %s its link to this node", peer_number(channel),
               host.end ? "has an end of" : "is refused");
    return {.number = frame.number,
            .qp_num = host.end ? host.end->qp_num : 0,
            .mtu = static_cast<uint32_t>(port_.mtu),
            .flags = settings_.pages_on_demand ? WireConnected::kPagesOnDemand : 0};
}

bool LinkTable::open_loopback() {
    if (loopback_ != nullptr) return true;
    XrcLink* link = make();
    if (link == nullptr) return false;
    auto end = verbs::create_xrc_receiver(port_.context, domain_);
    const ibv_ah_attr here = address_vector(port_, engine_.address().port);
    if (!end ||
        verbs::connect_xrc_receiver(end.get(), port_, here, link->qp()->qp_num, link->psn(),
                                    port_.mtu, settings_.pages_on_demand) != 0 ||
        !connect(*link, here, end->qp_num, port_.mtu, settings_.pages_on_demand)) {
        links_[link->index()].reset();
        return false;
    }
    link->state = XrcLink::State::kUp;
    loopback_end_ = std::move(end);
    loopback_ = link;
    TERN_DEBUG("link %u: up, to this process", link->index());
    return true;
}

void LinkTable::end(XrcLink& link) {
    if (link.state != XrcLink::State::kOver) {
        link.state = XrcLink::State::kOver;
        if (&link == loopback_) {
            loopback_ = nullptr;
            loopback_end_.reset();
        }
        (void)verbs::to_error(link.qp());
        TERN_DEBUG("link %u: over", link.index());
    }
    if (link.idle()) links_[link.index()].reset();
}

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
