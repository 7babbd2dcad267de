// SPDX-License-Identifier: BSD-3-Clause
// Notified writes of rwapi. The two workers are a job of two nodes.
#include <rwapi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "bench/measure/machine.h"
#include "bench/tern-bench/arms.h"
#include "bench/tern-bench/exchange.h"

namespace bench {
namespace {

void check(const char* call, int result) {
    if (result < 0) throw Failure(std::string(call) + ": " + rwapi_strerror(result));
}

// The start-up of the job: rwapi calls it, also from a thread of its own at the end.
int exchange_bytes(void* peer_argument, const void* mine, size_t bytes, void* all) {
    Peer& peer = *static_cast<Peer*>(peer_argument);
    char* const own = static_cast<char*>(all) + (peer.measures() ? 0 : bytes);
    char* const other = static_cast<char*>(all) + (peer.measures() ? bytes : 0);
    try {
        std::memcpy(own, mine, bytes);
        peer.channel().send(mine, bytes);
        return peer.channel().receive(other, bytes, kPatienceNs) ? 0 : 1;
    } catch (const Failure&) {
        return 1;
    }
}

int meet_peer(void* peer) {
    try {
        static_cast<Peer*>(peer)->meet();
        return 0;
    } catch (const Failure&) {
        return 1;
    }
}

// One half of the memory for what goes, the other for what comes.
class RwapiPort : public Port {
  public:
    RwapiPort(Peer& peer, Memory::Kind kind)
        : peer_(peer),
          memory_(kind, 2 * kLongest),
          start_up_{&peer, peer.measures() ? 0U : 1U, 2, exchange_bytes, meet_peer} {
        rwapi_params parameters = {};
        parameters.size = sizeof parameters;
        parameters.bootstrap = &start_up_;
        check("rwapi_context_create", rwapi_context_create(&parameters, &context_));
        check("rwapi_register",
              rwapi_register(context_, memory_.data(), 2 * kLongest, RWAPI_ALL, &mine_));
        Key key = {RWAPI_KEY_MAX, {}};
        check("rwapi_region_pack",
              rwapi_region_pack(context_, mine_, key.bytes.data(), &key.length));
        const Key theirs = peer.exchange(key);
        check("rwapi_region_unpack",
              rwapi_region_unpack(context_, theirs.bytes.data(), theirs.length, &theirs_));
    }
    ~RwapiPort() override {
        rwapi_deregister(context_, theirs_);
        rwapi_deregister(context_, mine_);
        rwapi_context_destroy(context_);
    }

    Samples run(const Order& order) override {
        marks_ = order.kind != Order::Kind::kStream;
        const Samples samples = order.kind == Order::Kind::kStream ? stream(peer_, *this, order)
                                : order.kind == Order::Kind::kExchanges
                                    ? both_ways(peer_, *this, order)
                                    : ping_pong(peer_, *this, order);
        finish();
        if (wrong_ != 0) throw Failure("a notification came before its data");
        return samples;
    }

    void progress() { check("rwapi_progress", rwapi_progress(context_)); }

    void send(uint32_t size) {
        char* const from = memory_.data() + place(sent_, size);
        if (marks_) mark(from, size, sent_);
        int result;
        while ((result = rwapi_put_notify(context_, theirs_, kLongest + place(sent_, size), from,
                                          size, 0, sent_ + 1, nullptr)) == RWAPI_ERR_AGAIN)
            progress();
        check("rwapi_put_notify", result);
        ++sent_;
    }

    void receive(uint32_t size) {
        Patience patience("notifications");
        while (came_ == taken_) {
            const int count = rwapi_notify_reset(context_, 0, nullptr);
            if (count > 0) {
                came_ += static_cast<unsigned>(count);
            } else {
                progress();
                patience.spend();
            }
        }
        const char* const in = memory_.data() + kLongest + place(taken_, size);
        if (marks_ && !is_marked(in, size, taken_)) ++wrong_;
        ++taken_;
    }

    void exchange(uint32_t size) {
        send(size);
        receive(size);
    }

  private:
    // What waits is sent only while rwapi is called.
    void finish() {
        rwapi_id id = 0;
        check("rwapi_flush_all", rwapi_flush_all(context_, &id));
        check("rwapi_wait", rwapi_wait(context_, id, kPatienceNs / 1000));
    }

    struct Key {
        size_t length;
        std::array<unsigned char, RWAPI_KEY_MAX> bytes;
    };

    // Two messages at least have places of their own: a message may be on its way while the one
    // before is looked at.
    static uint64_t place(uint64_t number, uint32_t size) {
        constexpr uint64_t kPlaces = 64;
        return number % std::min(kPlaces, kLongest / size) * size;
    }

    Peer& peer_;
    Memory memory_;
    const rwapi_bootstrap start_up_;
    rwapi_context* context_ = nullptr;
    rwapi_region mine_ = 0;
    rwapi_region theirs_ = 0;
    bool marks_ = false;
    uint64_t sent_ = 0;
    uint64_t came_ = 0;
    uint64_t taken_ = 0;
    uint64_t wrong_ = 0;
};

}  // namespace

std::unique_ptr<Port> open_rwapi_port(Peer& peer, const WorkerJob& job) {
    const bool shared = std::strcmp(job.what, "shared") == 0;
    ::setenv("RWAPI_DEVICE", job.device, 1);
    return std::make_unique<RwapiPort>(peer,
                                       shared ? Memory::Kind::kShared : Memory::Kind::kPrivate);
}

}  // namespace bench
