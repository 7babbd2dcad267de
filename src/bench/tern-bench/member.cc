// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tern-bench/member.h"

#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "bench/measure/clock.h"

namespace bench {
namespace {

constexpr uint8_t kMessageId = 6;
constexpr unsigned kPollsAtOnce = 256;

class Member {
  public:
    Member(const char* transport, const char* device) : iface_(transport, device) {
        iface_.on_message(kMessageId, take, this);
    }

    MemberReply introduce() const {
        MemberReply reply;
        reply.ok = true;
        reply.iface = iface_.address();
        return reply;
    }

    MemberReply carry_out(const MemberOrder& order) {
        MemberReply reply;
        switch (order.kind) {
            case MemberOrder::Kind::kCreate: {
                endpoints_.resize(order.endpoint);
                endpoints_.push_back(iface_.create_endpoint(order.iface));
                reply.needs_connecting = endpoints_.back().needs_connecting();
                if (reply.needs_connecting) reply.address = endpoints_.back().address();
                break;
            }
            case MemberOrder::Kind::kConnect:
                endpoints_.at(order.endpoint).connect(order.address, order.iface);
                break;
            case MemberOrder::Kind::kAsk:
            case MemberOrder::Kind::kAnswer:
                talk(endpoints_.at(order.endpoint), order);
                break;
            case MemberOrder::Kind::kQuit:
                break;
        }
        reply.ok = true;
        return reply;
    }

  private:
    void talk(const UctEndpoint& endpoint, const MemberOrder& order) {
        const bool asks = order.kind == MemberOrder::Kind::kAsk;
        for (uint64_t i = 0; i < order.count; ++i) {
            if (asks) send(endpoint, order.size);
            receive();
            if (!asks) send(endpoint, order.size);
        }
        iface_.flush();
    }
    void send(const UctEndpoint& endpoint, uint32_t size) {
        size_ = std::min(size, iface_.max_message());
        Patience patience("room to send");
        for (;;) {
            ssize_t sent = 0;
            if (size_ <= iface_.max_short()) {
                sent =
                    uct_ep_am_short(endpoint.handle(), kMessageId, 0, payload_.data(), size_ - 8);
            } else {
                sent = uct_ep_am_bcopy(endpoint.handle(), kMessageId, pack, this, 0);
            }
            if (sent >= 0) return;
            const auto status = static_cast<ucs_status_t>(sent);
            if (status != UCS_ERR_NO_RESOURCE) throw uct_failure("sending", status);
            iface_.progress();
            patience.spend();
        }
    }
    static size_t pack(void* to, void* self) {
        const uint32_t size = static_cast<Member*>(self)->size_;
        std::memset(to, 0, size);
        return size;
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
        ++static_cast<Member*>(self)->received_;
        return UCS_OK;
    }

    UctIface iface_;
    std::vector<UctEndpoint> endpoints_;
    std::vector<char> payload_ = std::vector<char>(1024);
    uint32_t size_ = 0;
    uint64_t awaited_ = 0;
    uint64_t received_ = 0;
};

bool next(int fd, MemberOrder* order) {
    ssize_t got;
    do {
        got = ::recv(fd, order, sizeof *order, 0);
    } while (got < 0 && errno == EINTR);
    return got == static_cast<ssize_t>(sizeof *order) && order->kind != MemberOrder::Kind::kQuit;
}

void answer(int fd, const MemberReply& reply) {
    if (::send(fd, &reply, sizeof reply, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof reply)) {
        throw call_failed("answering");
    }
}

}  // namespace

int member_main(int argc, char** argv) {
    if (argc != 3) return 2;
    const int fd = std::atoi(argv[2]);
    try {
        Member member(argv[0], argv[1]);
        answer(fd, member.introduce());
        for (MemberOrder order; next(fd, &order);) answer(fd, member.carry_out(order));
    } catch (const std::exception& error) {
        MemberReply reply;
        std::snprintf(reply.text, sizeof reply.text, "%s", error.what());
        ::send(fd, &reply, sizeof reply, MSG_NOSIGNAL);
        return 1;
    }
    return 0;
}

}  // namespace bench
