// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tern-bench/crowd.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bench/measure/clock.h"
#include "tools/common/library.h"

namespace bench {
namespace {

constexpr uint8_t kMessageId = 6;
constexpr unsigned kPollsAtOnce = 256;

// An order for a member, and its reply. Plain data.
struct MemberOrder {
    enum class Kind : uint8_t { kCreate, kConnect, kAsk, kAnswer, kQuit };

    Kind kind = Kind::kQuit;
    uint32_t endpoint = 0;
    uint64_t count = 0;            // kAsk, kAnswer: round trips
    uint32_t size = 0;             // kAsk, kAnswer: of messages, reduced to the transport's limit
    IfaceAddress iface = {};       // kCreate, kConnect
    EndpointAddress address = {};  // kConnect
};
struct MemberReply {
    bool ok = false;
    char text[256] = {};  // the error
    bool needs_connecting = false;
    IfaceAddress iface = {};       // in the reply before the first order
    EndpointAddress address = {};  // in the reply to kCreate
};
struct MemberJob {
    char transport[32] = {};
    char device[64] = {};
};

class Talker {
  public:
    explicit Talker(const MemberJob& job) : iface_(job.transport, job.device) {
        iface_.on_message(kMessageId, take, this);
    }

    IfaceAddress address() const { return iface_.address(); }

    void carry_out(const MemberOrder& order, MemberReply* reply) {
        switch (order.kind) {
            case MemberOrder::Kind::kCreate:
                endpoints_.resize(order.endpoint);
                endpoints_.push_back(iface_.create_endpoint(order.iface));
                reply->needs_connecting = iface_.connects_endpoints();
                if (reply->needs_connecting)
                    reply->address = UctIface::address_of(endpoints_.back());
                break;
            case MemberOrder::Kind::kConnect:
                UctIface::connect(endpoints_.at(order.endpoint), order.address, order.iface);
                break;
            default:
                talk(endpoints_.at(order.endpoint), order);
        }
    }

  private:
    void talk(const UctEndpoint& endpoint, const MemberOrder& order) {
        const bool asks = order.kind == MemberOrder::Kind::kAsk;
        const uint32_t size = std::min(order.size, iface_.max_message());
        for (uint64_t i = 0; i < order.count; ++i) {
            if (asks) iface_.send(endpoint, kMessageId, 0, size);
            receive();
            if (!asks) iface_.send(endpoint, kMessageId, 0, size);
        }
        iface_.flush();
    }
    void receive() {
        ++awaited_;
        Patience patience("a message");
        for (unsigned polls = 1; received_ < awaited_; ++polls) {
            iface_.progress();
            patience.spend();
            // There may be more members than CPUs.
            if (polls % kPollsAtOnce == 0) ::sched_yield();
        }
    }
    static ucs_status_t take(void* self, void*, size_t, unsigned) {
        ++static_cast<Talker*>(self)->received_;
        return UCS_OK;
    }

    UctIface iface_;
    std::vector<UctEndpoint> endpoints_;
    uint64_t awaited_ = 0;
    uint64_t received_ = 0;
};

MemberReply reply_of(Channel& control, const std::string& name) {
    const auto reply = control.take<MemberReply>();
    if (!reply.ok) throw Failure(name + ": " + reply.text);
    return reply;
}

}  // namespace

Crowd::Crowd(const Arm& arm, const Setup& setup, uint32_t peers) {
    for (uint32_t i = 0; i <= peers; ++i) members_.push_back(start(arm, setup));
    for (Member& member : members_) member.address = reply_of(member.control, arm.name).iface;
    for (uint32_t peer = 1; peer <= peers; ++peer) connect(members_[peer], peer - 1);
}

Crowd::Member Crowd::start(const Arm& arm, const Setup& setup) {
    auto [mine, theirs] = Channel::make(arm.name + ": a process");
    Process process({tools::program_path(), kMemberCommand, std::to_string(theirs.fd())},
                    environment_of(arm, setup), {theirs.fd()});
    MemberJob job;
    arm.what.copy(job.transport, sizeof job.transport - 1);
    setup.device.copy(job.device, sizeof job.device - 1);
    mine.put(job);
    return {std::move(mine), std::move(process)};
}

void Crowd::connect(Member& other, uint32_t endpoint) {
    Member& middle = members_.front();
    MemberOrder there;
    there.kind = MemberOrder::Kind::kCreate;
    there.endpoint = endpoint;
    there.iface = other.address;
    MemberOrder back;
    back.kind = MemberOrder::Kind::kCreate;
    back.iface = middle.address;
    const auto both = [&] {
        middle.control.put(there);
        other.control.put(back);
        return std::pair(reply_of(middle.control, "the middle"), reply_of(other.control, "a peer"));
    };
    const auto [from_middle, from_other] = both();
    if (!from_middle.needs_connecting) return;
    there.kind = back.kind = MemberOrder::Kind::kConnect;
    there.address = from_other.address;
    back.address = from_middle.address;
    both();
}

void Crowd::talk(uint32_t peers, uint32_t size, uint64_t rounds, uint64_t count) {
    Member& middle = members_.front();
    for (uint64_t i = 0; i < rounds * peers; ++i) {
        MemberOrder order;
        order.count = count;
        order.size = size;
        order.kind = MemberOrder::Kind::kAnswer;
        Member& other = members_[1 + i % peers];
        other.control.put(order);
        order.kind = MemberOrder::Kind::kAsk;
        order.endpoint = static_cast<uint32_t>(i % peers);
        middle.control.put(order);
        reply_of(middle.control, "the middle");
        reply_of(other.control, "a peer");
    }
}

void Crowd::finish() {
    for (Member& member : members_) member.control.put(MemberOrder());
    for (Member& member : members_) {
        if (!member.process.finish()) throw Failure("a process of many failed at its end");
    }
}

int member_main(const char* descriptor) {
    Channel control(std::atoi(descriptor));
    MemberReply reply;
    try {
        Talker talker(control.take<MemberJob>());
        reply.ok = true;
        reply.iface = talker.address();
        control.put(reply);
        for (MemberOrder order; control.receive(&order, sizeof order, 0);) {
            if (order.kind == MemberOrder::Kind::kQuit) break;
            talker.carry_out(order, &reply);
            control.put(reply);
        }
    } catch (const std::exception& error) {
        reply.ok = false;
        std::snprintf(reply.text, sizeof reply.text, "%s", error.what());
        try {
            control.put(reply);
        } catch (const std::exception&) {
            std::fprintf(stderr, "member: %s\n", error.what());
        }
        return 1;
    }
    return 0;
}

}  // namespace bench
