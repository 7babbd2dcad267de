// SPDX-License-Identifier: BSD-3-Clause
#include "tern/tupleq/xrc/tupleq.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "tern/tupleq/xrc/messages.h"
#include "tern/verbs/queue_pair.h"

namespace tern {

namespace {

constexpr uint32_t kLinks = 8;           // links to leave room for, the loop-back link included
constexpr uint32_t kEngineQueues = 1;    // shared receive queues of the engine
constexpr uint32_t kSensibleDepth = 16;  // rather fewer tuples than a smaller depth

uint32_t limit(int of_device) {
    return static_cast<uint32_t>(std::max(of_device, 0));
}

// Links that have room from the start where the completion queue cannot grow.
constexpr uint32_t kFixedLinks = 64;

}  // namespace

uint64_t TupleQSettings::completions(uint32_t links) const {
    return uint64_t{tuples} * depth * 2 + uint64_t{links} * std::bit_ceil(sends);
}

TupleQSettings TupleQSettings::within(const ibv_device_attr& device) const {
    const uint64_t most = limit(device.max_cqe);
    TupleQSettings fit = *this;
    const uint64_t at_once = std::min<uint64_t>(limit(device.max_qp_wr), most / 2 / kLinks);
    fit.sends = static_cast<uint32_t>(std::min<uint64_t>(sends, std::bit_floor(at_once)));
    fit.depth = std::min(depth, std::bit_floor(limit(device.max_srq_wr)));
    fit.tuples =
        std::min(tuples, limit(device.max_srq) - std::min(limit(device.max_srq), kEngineQueues));
    if (fit.sends == 0 || fit.depth == 0) fit.tuples = 0;
    while (fit.tuples != 0 && fit.completions(kLinks) > most) {
        if (fit.depth > kSensibleDepth || fit.tuples == 1)
            fit.depth /= 2;
        else
            fit.tuples /= 2;
        if (fit.depth == 0) fit.tuples = 0;
    }
    return fit;
}

TupleQ::TupleQ(const TupleQParts& parts, const TupleQSettings& settings,
               std::unique_ptr<verbs::XrcDomain> domain)
    : port_(parts.port),
      engine_(parts.engine),
      settings_(settings),
      domain_(std::move(domain)),
      grants_(engine_.pd(), settings_),
      links_(engine_, port_, *domain_, completions_, settings_,
             static_cast<uint32_t>(parts.device.attributes.max_cqe)),
      sender_(parts, links_, grants_, settings_),
      answers_(engine_, links_, grants_, sender_),
      receiver_(parts, *domain_, completions_, links_, grants_, settings_) {}

TupleQ::~TupleQ() {
    sender_.give_up();
}

std::unique_ptr<TupleQ> TupleQ::create(const TupleQParts& parts, const TupleQSettings& settings,
                                       std::string& why) {
    const verbs::Device& device = parts.device;
    TupleQSettings fit = settings.within(device.attributes);
    fit.pages_on_demand = parts.pins.monitor() == MonitorKind::kOdp;
    if (fit.pages_on_demand && !verbs::xrc_pages_on_demand(device.context.get())) {
        why = device.name() +
              " pages memory on demand, but not for XRC; set UCX_TERN_PIN_MONITOR to something "
              "else than odp";
        return nullptr;
    }
    if (fit.tuples == 0) {
        why = device.name() + " has no room for a single tuple";
        return nullptr;
    }
    auto domain = verbs::XrcDomain::open(device, why);
    if (!domain) return nullptr;
    std::unique_ptr<TupleQ> tupleq(new TupleQ(parts, fit, std::move(domain)));
    if (!tupleq->open(static_cast<uint32_t>(device.attributes.max_cqe), why)) return nullptr;
    if (fit.tuples != settings.tuples || fit.depth != settings.depth)
        parts.owner.warn("the device holds less than UCX_TERN_TM_TUPLES asks for: " +
                         std::to_string(fit.tuples) + " tuples of " + std::to_string(fit.depth) +
                         " receives are used");
    return tupleq;
}

bool TupleQ::open(uint32_t max_cqe, std::string& why) {
    const auto refuse = [&](const char* what) {
        why = std::string(what) + ": " + strerror(errno);
        return false;
    };
    if (!grants_) return refuse("cannot register memory for grants");
    // Room for the loop-back link and one other link, as long as the queue can grow.
    const auto entries = [&](uint32_t links) {
        return static_cast<uint32_t>(std::min<uint64_t>(settings_.completions(links), max_cqe));
    };
    if (!completions_.open(port_.context, entries(2), entries(kFixedLinks),
                           engine_.sleep()->events()))
        return refuse("cannot create a completion queue");
    if (receiver_.wake_fd() < 0) return refuse("cannot create an event descriptor");
    engine_.sleep()->watch(receiver_.wake_fd());
    return true;
}

unsigned TupleQ::advance() {
    unsigned count = completions_.in_use() ? poll() : 0;
    count += receiver_.progress();
    if (answers_.any()) [[unlikely]]
        count += answers_.send();
    if (sender_.has_flushes()) [[unlikely]]
        count += sender_.progress_flushes();
    return count;
}

unsigned TupleQ::poll() {
    if (broken_) return 0;
    ibv_wc completions[kBurst];
    const int count = completions_.poll(kBurst, completions);
    if (count < 0) [[unlikely]]
        engine_.break_down("its completion queue for direct messages cannot be polled");
    for (int i = 0; i < count; ++i) {
        const ibv_wc& each = completions[i];
        if (XrcQueues::is_receive(each.wr_id))
            receiver_.on_received(each);
        else
            on_sent(links_.of(each.wr_id), each.status);
    }
    return count > 0 ? static_cast<unsigned>(count) : 0;
}

// The oldest send of the link is complete: a direct message, or a drain.
void TupleQ::on_sent(XrcLink& link, ibv_wc_status status) {
    const TupleSend send = link.take();
    if (send.channel != nullptr)
        sender_.on_sent(link, send, status);
    else
        receiver_.on_drain_sent(link, send, status);
}

void TupleQ::queue_failed(const void* identity, const std::string& what) {
    if (identity == completions_.get()->cq_context)
        engine_.break_down("the device reports of its completion queue for direct messages: " +
                           what);
    else
        receiver_.on_queue_error(identity, what);
}

void TupleQ::break_down() {
    broken_ = true;
    // A link may be destroyed with its last send, not before.
    links_.for_each([this](XrcLink& link) {
        // If the device works, it accesses no memory of the user's any more.
        if (!link.idle()) (void)verbs::to_error(link.qp());
        for (uint32_t left = link.under_way(); left != 0; --left) on_sent(link, IBV_WC_FATAL_ERR);
    });
}

// Waiting actions and answers need no event here: the completion or frame that they wait for wakes
// the interface.
Status TupleQ::arm() {
    if (completions_.any_kept() || receiver_.cancellation().any_undecided() ||
        receiver_.any_waits())
        return Status::kInProgress;
    if (!completions_.in_use()) return Status::kOk;
    if (receiver_.forget_wake()) return Status::kInProgress;
    if (ibv_req_notify_cq(completions_.get(), 0) != 0) return Status::kDevice;
    return completions_.keep_late() || receiver_.stops_wait() ? Status::kInProgress : Status::kOk;
}

bool TupleQ::control(Channel& channel, uint32_t id, const std::byte* data, uint32_t length) {
    const auto request = [&](const auto& frame) { return answers_.request(channel, frame); };
    switch (static_cast<TupleControlId>(id)) {
        case TupleControlId::kBind:
            return take_frame<WireBind>(data, length, request);
        case TupleControlId::kClose:
            return take_frame<WireClose>(data, length, request);
        case TupleControlId::kConnect:
            return take_frame<WireConnect>(data, length, request);
        case TupleControlId::kBound:
            return take_frame<WireBound>(data, length, [&](const WireBound& frame) {
                return receiver_.on_bound(channel, frame);
            });
        case TupleControlId::kClosed:
            return take_frame<WireClosed>(data, length, [&](const WireClosed& frame) {
                return receiver_.on_closed(channel, frame);
            });
        case TupleControlId::kConnected:
            return take_frame<WireConnected>(data, length, [&](const WireConnected& frame) {
                if (!links_.on_connected(channel, frame)) return false;
                (void)answers_.send();
                return true;
            });
    }
    return false;
}

// All direct sends to the peer are complete, because they hold the channel until then.
Status TupleQ::ended(Channel& channel, Status status) {
    sender_.end_links(channel);
    receiver_.failing(channel);
    if (!sender_.has_peer(channel) && !receiver_.has_peer(channel) && !answers_.has_peer(channel) &&
        !links_.has_peer(channel))
        return status;
    // Takes in the messages that the peer sent before it went.
    while (completions_.in_use() && poll() != 0) {
    }
    answers_.erase(channel);
    const bool lost = sender_.ended(channel);
    links_.erase(channel);
    receiver_.ended(channel);
    if (lost && status == Status::kOk) status = Status::kConnectionReset;
    sender_.end_flushes(channel, status);
    return status;
}

TupleQCounters TupleQ::counters() const {
    const DirectSender::Counters& sent = sender_.counters();
    const LinkTable::Counters& links = links_.counters();
    return {.sent = sent.sent,
            .sent_copied = sent.sent_copied,
            .sent_bytes = sent.sent_bytes,
            .received_bytes = receiver_.received_bytes(),
            .links = links.made,
            .links_lost = links.lost,
            .not_ready = links.not_ready,
            .queues_most = receiver_.binder().queues_most(),
            .unpinned = sent.unpinned + receiver_.unpinned(),
            .stopped = receiver_.stopped(),
            .pauses = receiver_.pauses()};
}

}  // namespace tern
