// SPDX-License-Identifier: BSD-3-Clause
#include "traffic.h"

#include <algorithm>
#include <sstream>
#include <utility>

namespace uct_test {
namespace {

constexpr std::size_t kSlots = 8;
constexpr std::byte kScribble{0xee};

uint64_t scramble(uint64_t value) {
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}

}  // namespace

Stream::Message Stream::at(uint64_t number, const uct_iface_attr_t& sender) const {
    uint64_t random = scramble(seed + scramble(number + 1));
    const auto pick = [&](uint64_t from, uint64_t to) {
        random = scramble(random + 0x9e3779b97f4a7c15u);
        return from + random % (to - from + 1);
    };
    Kind kinds[3];
    std::size_t choices = 0;
    if (shorts) kinds[choices++] = Kind::kShort;
    if (bcopies) kinds[choices++] = Kind::kBcopy;
    if (zcopies) kinds[choices++] = Kind::kZcopy;
    Message message{};
    message.kind = kinds[pick(0, choices - 1)];
    message.id = static_cast<uint8_t>(id + pick(0, 1));
    const std::size_t limit = std::min<std::size_t>(longest(message.kind, sender), most);
    message.length = std::max(shortest(message.kind),
                              pick(0, pick(0, 9) ? std::min<std::size_t>(typical, limit) : limit));
    message.random = pick(0, UINT64_MAX - 1);
    return message;
}

Sender::Sender(Entity& from, const Endpoint& ep, const Stream& stream)
    : from_(from),
      ep_(ep),
      stream_(stream),
      pending_([this] {
          const ucs_status_t status = send();
          if (status == UCS_ERR_NO_RESOURCE) return status;
          is_pending_ = false;
          return UCS_OK;
      }),
      slot_size_(std::min<std::size_t>(from.attr().cap.am.max_zcopy, stream.most) + 8),
      memory_(from.host(), stream.zcopies ? kSlots * slot_size_ : 8) {
    for (std::size_t i = 0; stream.zcopies && i < kSlots; ++i) slots_.emplace_back();
}

Sender::~Sender() {
    const auto nothing = [](uct_pending_req_t*, void*) {};
    if (is_pending_) uct_ep_pending_purge(ep_.get(), nothing, nullptr);
    EXPECT_TRUE(eventually({&from_}, [&] { return outstanding_ == 0; }))
        << "completions are missing";
}

bool Sender::step(unsigned most) {
    bool any = false;
    for (unsigned i = 0; i < most; ++i) {
        if (next_ == stream_.count || is_pending_ || status_ != UCS_OK || !has_buffer()) break;
        if (send() == UCS_ERR_NO_RESOURCE) {
            if (stream_.at(next_, from_.attr()).random & 1) wait();
            break;
        }
        any = true;
    }
    return any;
}

void Sender::wait() {
    const ucs_status_t status = uct_ep_pending_add(ep_.get(), &pending_, 0);
    if (status == UCS_OK) {
        is_pending_ = true;
    } else if (status != UCS_ERR_BUSY) {
        status_ = status;
    }
}

bool Sender::has_buffer() {
    return stream_.at(next_, from_.attr()).kind != Kind::kZcopy ||
           std::ranges::any_of(slots_, [](const Slot& it) { return !it.busy; });
}

ucs_status_t Sender::send() {
    const Stream::Message message = stream_.at(next_, from_.attr());
    const Bytes content = pattern(message.random, message.length);
    ucs_status_t status;
    if (message.kind == Kind::kShort) {
        status = am_short(ep_, message.id, content);
    } else if (message.kind == Kind::kBcopy) {
        status = am_bcopy(ep_, message.id, content);
    } else {
        status = send_zcopy(message, content);
    }
    if (status == UCS_OK || status == UCS_INPROGRESS) {
        ++next_;
    } else if (status != UCS_ERR_NO_RESOURCE) {
        status_ = status;
    }
    return status;
}

ucs_status_t Sender::send_zcopy(const Stream::Message& message, Bytes content) {
    const auto slot = std::ranges::find_if(slots_, [](const Slot& it) { return !it.busy; });
    const std::size_t at = slot_size_ * static_cast<std::size_t>(slot - slots_.begin());
    std::byte* const buffer = memory_.data() + at;
    const std::size_t head = std::min<std::size_t>(
        {content.size(), from_.attr().cap.am.max_hdr, message.random >> 8 & 63});
    const std::size_t body = content.size() - head;
    std::ranges::copy(content.subspan(head), buffer);
    // Up to four pieces, some of them perhaps empty.
    const std::size_t pieces =
        std::min<std::size_t>(from_.attr().cap.am.max_iov, 1 + (message.random >> 16 & 3));
    std::vector<uct_iov_t> iov;
    for (std::size_t i = 0; i < pieces; ++i) {
        const std::size_t begin = body * i / pieces;
        iov.push_back(memory_.iov(at + begin, body * (i + 1) / pieces - begin));
    }
    slot->completion.count = 1;
    slot->completion.status = UCS_OK;
    const int calls = slot->completion.calls;
    const auto finish = [this, &it = *slot, buffer, calls] {
        if (it.completion.status != UCS_OK) status_ = it.completion.status;
        // The user may overwrite the buffer now: the peer must not receive these bytes.
        std::fill_n(buffer, slot_size_, kScribble);
        if (it.completion.calls > calls + 1) status_ = UCS_ERR_ALREADY_EXISTS;
        it.busy = false;
        --outstanding_;
    };
    slot->completion.then = finish;
    slot->busy = true;
    ++outstanding_;
    const ucs_status_t status =
        am_zcopy(ep_, message.id, content.first(head), iov, &slot->completion);
    if (status == UCS_OK) {
        finish();
    } else if (status != UCS_INPROGRESS) {
        slot->busy = false;
        --outstanding_;
    }
    return status;
}

Receiver::Receiver(Entity& at, const Stream& stream, const uct_iface_attr_t& sender)
    : at_(at), stream_(stream), sender_(sender) {
    for (int i = 0; i < 2; ++i) {
        const auto id = static_cast<uint8_t>(stream.id + i);
        at.handle(id, [this, id](Bytes message) { take(id, message); });
    }
}

Receiver::~Receiver() {
    for (int i = 0; i < 2; ++i) at_.forget(static_cast<uint8_t>(stream_.id + i));
}

void Receiver::take(uint8_t id, Bytes message) {
    const uint64_t number = next_++;
    if (!wrong_.empty()) return;
    std::ostringstream text;
    text << "seed " << stream_.seed << ", message " << number << ": ";
    if (number >= stream_.count) {
        text << "there should be none";
        wrong_ = text.str();
        return;
    }
    const Stream::Message expected = stream_.at(number, sender_);
    const bool length_fits = expected.length == message.size();
    if (expected.id == id && length_fits &&
        same(message, pattern(expected.random, message.size()))) {
        return;
    }
    text << name(expected.kind) << " of " << expected.length << " bytes, id " << int{expected.id};
    if (expected.id != id || !length_fits) {
        text << ", came as " << message.size() << " bytes, id " << int{id};
    } else {
        const Bytes content = pattern(expected.random, message.size());
        const auto at = std::ranges::mismatch(message, content).in1 - message.begin();
        text << ", differs from byte " << at << " on, which is "
             << std::to_integer<int>(message[static_cast<std::size_t>(at)]);
    }
    wrong_ = text.str();
}

Flow::Flow(Entity& a, Entity& b, const Stream& stream)
    : from(a), to(b), own(a.connect(b)), receiver(b, stream, a.attr()), sender(a, own, stream) {}

Flow::Flow(Entity& a, const Endpoint& ep, Entity& b, const Stream& stream)
    : from(a), to(b), receiver(b, stream, a.attr()), sender(a, ep, stream) {}

testing::AssertionResult run(const std::vector<Flow*>& flows, milliseconds limit) {
    Group who;
    std::vector<Sender*> senders;
    std::vector<Receiver*> receivers;
    for (Flow* flow : flows) {
        for (Entity* entity : {&flow->from, &flow->to}) {
            if (std::ranges::find(who, entity) == who.end()) who.push_back(entity);
        }
        senders.push_back(&flow->sender);
        receivers.push_back(&flow->receiver);
    }
    return run(who, senders, receivers, limit);
}

testing::AssertionResult run(const Group& who, const std::vector<Sender*>& senders,
                             const std::vector<Receiver*>& receivers, milliseconds limit) {
    auto end = Clock::now() + limit;
    uint64_t moved = 0;
    std::minstd_rand random(42);
    for (unsigned round = 0;; ++round) {
        bool done = true;
        for (Sender* sender : senders) {
            sender->step(1 + random() % 16);
            if (sender->status() != UCS_OK) {
                return testing::AssertionFailure() << "message " << sender->sent() << ": "
                                                   << ucs_status_string(sender->status());
            }
            done &= sender->done();
        }
        for (Entity* entity : who) {
            if (random() % 4) entity->progress();
        }
        for (const Receiver* receiver : receivers) {
            if (!receiver->wrong().empty()) return testing::AssertionFailure() << receiver->wrong();
            done &= receiver->done();
        }
        if (done) return testing::AssertionSuccess();
        if (round % 256 == 0) sched_yield();
        if (round % 64 != 0) continue;
        uint64_t moved_by_now = 0;
        for (const Sender* sender : senders) moved_by_now += sender->sent();
        for (const Receiver* receiver : receivers) moved_by_now += receiver->received();
        if (std::exchange(moved, moved_by_now) != moved_by_now)
            end = Clock::now() + limit;
        else if (Clock::now() > end)
            break;
    }
    testing::AssertionResult result = testing::AssertionFailure();
    result << "nothing has moved for " << limit.count() << " ms:";
    for (const Sender* sender : senders) {
        result << " sent " << sender->sent() << ", outstanding " << sender->outstanding()
               << (sender->is_pending() ? ", pending;" : ";");
    }
    for (const Receiver* receiver : receivers)
        result << " received " << receiver->received() << ";";
    return result;
}

}  // namespace uct_test
