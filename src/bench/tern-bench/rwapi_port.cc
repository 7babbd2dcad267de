// SPDX-License-Identifier: BSD-3-Clause
// Notified writes, and writes with signals, of rwapi. The two workers are a job of two nodes.
#include <rwapi.h>

#include <cstdlib>
#include <cstring>

#include "bench/measure/exchange.h"
#include "bench/measure/mark.h"
#include "bench/tern-bench/command.h"

namespace bench {
namespace {

void check_rwapi(const char* call, int result) {
    if (result < 0) throw Failure(std::string(call) + ": " + rwapi_strerror(result));
}

// The start-up of the job.
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

int begin_meeting(void* peer) {
    try {
        static_cast<Peer*>(peer)->channel().send(".", 1);
        return 0;
    } catch (const Failure&) {
        return 1;
    }
}

int test_meeting(void* peer) {
    Channel& channel = static_cast<Peer*>(peer)->channel();
    char byte;
    try {
        if (!channel.has_message()) return 0;
        return channel.receive(&byte, 1, kPatienceNs) ? 1 : -1;
    } catch (const Failure&) {
        return -1;
    }
}

class RwapiPort : public Port {
  public:
    RwapiPort(Peer& peer, const WorkerJob& job)
        : peer_(peer), memory_(job.memory, kBothWays), start_up_{&peer,
                                                                 peer.measures() ? 0U : 1U,
                                                                 2,
                                                                 exchange_bytes,
                                                                 begin_meeting,
                                                                 test_meeting} {
        ::setenv("RWAPI_DEVICE", job.device, 1);
        rwapi_params parameters = {};
        parameters.size = sizeof parameters;
        parameters.bootstrap = &start_up_;
        check_rwapi("rwapi_context_create", rwapi_context_create(&parameters, &context_));
        check_rwapi("rwapi_register",
                    rwapi_register(context_, memory_.data(), kBothWays, RWAPI_ALL, &mine_));
        theirs_ = peer.exchange(mine_);
    }
    ~RwapiPort() override {
        rwapi_deregister(context_, mine_);
        rwapi_context_destroy(context_);
    }

    Samples run(const Order& order) override {
        request_ = order.request;
        numbers_.begin(order, order.kind != Order::Kind::kStream);
        Samples samples = run_messages(peer_, *this, order);
        finish();
        numbers_.check();
        return samples;
    }

    void progress() { check_rwapi("rwapi_progress", rwapi_progress(context_)); }

    void send(uint32_t size) {
        const size_t place = numbers_.outgoing(size);
        char* const from = memory_.data() + place;
        numbers_.give(from, size);
        check_rwapi("a write", begin_send(kLongest + place, from, size, numbers_.sent));
    }

    void receive(uint32_t size) {
        wait_for(size);
        numbers_.take(memory_.data() + numbers_.incoming(size), size);
    }

  private:
    // What waits is sent only while rwapi is called.
    void finish() {
        rwapi_id id = 0;
        check_rwapi("rwapi_flush_all", rwapi_flush_all(context_, &id));
        check_rwapi("rwapi_wait", rwapi_wait(context_, id, kPatienceNs / 1000));
        meet_in_progress(peer_, *this);
    }

    int begin_send(size_t to, const char* from, uint32_t size, uint64_t number) {
        switch (request_) {
            case Order::Request::kSignal:
                return rwapi_put_signal(context_, theirs_, to, from, size, kSignalAt, number,
                                        RWAPI_SIGNAL_SET, nullptr);
            case Order::Request::kPut:
                return rwapi_put(context_, theirs_, to, from, size, nullptr);
            default:
                return rwapi_put_notify(context_, theirs_, to, from, size, 0, number, nullptr);
        }
    }

    // Waits for the next message.
    void wait_for(uint32_t size) {
        const uint64_t number = numbers_.taken + 1;
        const auto has_come = [&] {
            if (came_ < number) look(size);
            return came_ >= number;
        };
        wait_until("notifications", has_come, [&] { progress(); });
    }
    void look(uint32_t size) {
        int count = 0;
        switch (request_) {
            case Order::Request::kSignal:
                came_ = rwapi_signal_read(reinterpret_cast<uint64_t*>(memory_.data() + kSignalAt));
                break;
            case Order::Request::kPut:
                count = is_marked(memory_.data() + numbers_.incoming(size), size, numbers_.taken);
                break;
            default:
                count = rwapi_notify_reset(context_, 0, nullptr);
        }
        check_rwapi("a notification", count);
        came_ += static_cast<unsigned>(count);
    }

    Peer& peer_;
    Memory memory_;
    const rwapi_bootstrap start_up_;
    rwapi_context* context_ = nullptr;
    rwapi_net mine_ = {};
    rwapi_net theirs_ = {};
    Order::Request request_ = Order::Request::kWrite;
    Numbers numbers_;
    uint64_t came_ = 0;
};

}  // namespace

const PortKind kRwapiPort = {"rwapi", open<RwapiPort>};

}  // namespace bench
