// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tern-bench/crowd.h"

#include <poll.h>
#include <sys/socket.h>

#include "bench/measure/failure.h"

namespace bench {
namespace {

constexpr int kPatienceMs = 60'000;

}  // namespace

Crowd::Crowd(const Arm& arm, const Setup& setup, uint32_t peers, const Environment& environment)
    : name_(arm.name) {
    for (uint32_t i = 0; i <= peers; ++i) {
        members_.push_back(start(arm, setup, i == 0 ? environment : Environment()));
    }
    for (MemberProcess& member : members_) member.address = receive(member).iface;
    for (uint32_t peer = 1; peer <= peers; ++peer) connect(peer);
}

Crowd::~Crowd() = default;

Crowd::MemberProcess Crowd::start(const Arm& arm, const Setup& setup,
                                  const Environment& environment) {
    auto [mine, theirs] = socket_pair();
    Environment changes = environment_of(arm, setup);
    changes.insert(changes.end(), environment.begin(), environment.end());
    return {std::move(mine),
            Process({kMemberCommand, arm.transport, setup.device, std::to_string(theirs.get())},
                    changes, {theirs.get()})};
}

void Crowd::send(MemberProcess& member, const MemberOrder& order) {
    if (::send(member.control.get(), &order, sizeof order, MSG_NOSIGNAL) !=
        static_cast<ssize_t>(sizeof order)) {
        throw Failure(name_ + ": a process is gone");
    }
}

MemberReply Crowd::receive(MemberProcess& member) {
    pollfd ready{member.control.get(), POLLIN, 0};
    if (::poll(&ready, 1, kPatienceMs) <= 0) throw Failure(name_ + ": a process does not answer");
    MemberReply reply;
    if (::recv(member.control.get(), &reply, sizeof reply, 0) !=
        static_cast<ssize_t>(sizeof reply)) {
        throw Failure(name_ + ": a process has died");
    }
    if (!reply.ok) throw Failure(name_ + ": " + reply.text);
    return reply;
}

void Crowd::connect(uint32_t peer) {
    MemberProcess& middle = members_.front();
    MemberProcess& other = members_[peer];
    MemberOrder there;
    there.kind = MemberOrder::Kind::kCreate;
    there.endpoint = peer - 1;
    there.iface = other.address;
    send(middle, there);
    const MemberReply from_middle = receive(middle);
    MemberOrder back;
    back.kind = MemberOrder::Kind::kCreate;
    back.iface = middle.address;
    send(other, back);
    const MemberReply from_other = receive(other);
    if (!from_middle.needs_connecting) return;
    there.kind = back.kind = MemberOrder::Kind::kConnect;
    there.address = from_other.address;
    back.address = from_middle.address;
    send(middle, there);
    send(other, back);
    receive(middle);
    receive(other);
}

void Crowd::talk(uint32_t peers, uint32_t size, uint64_t rounds, uint64_t count) {
    for (uint64_t round = 0; round < rounds; ++round) {
        for (uint32_t peer = 1; peer <= peers; ++peer) {
            MemberOrder order;
            order.count = count;
            order.size = size;
            order.kind = MemberOrder::Kind::kAnswer;
            send(members_[peer], order);
            order.kind = MemberOrder::Kind::kAsk;
            order.endpoint = peer - 1;
            send(members_.front(), order);
            receive(members_.front());
            receive(members_[peer]);
        }
    }
}

void Crowd::finish() {
    for (MemberProcess& member : members_) send(member, {});
    for (MemberProcess& member : members_) {
        if (!member.process.finish()) throw Failure(name_ + ": a process failed at its end");
    }
}

}  // namespace bench
