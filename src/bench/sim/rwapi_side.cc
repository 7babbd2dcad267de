// SPDX-License-Identifier: BSD-3-Clause
// librwapi, whose two contexts are the job. Nothing waits in a call.
#include <rwapi.h>

#include <functional>
#include <iterator>
#include <string>
#include <utility>

#include "bench/measure/clock.h"
#include "bench/sim/side.h"
#include "common/ucx/shared_domain.h"

namespace bench::sim {
namespace {

int check_rwapi(const char* call, int result) {
    if (result < 0) throw Failure(std::string(call) + ": " + rwapi_strerror(result));
    return result;
}

// The start-up of a job of two processes in one thread: when the first one tells its address, the
// second one opens.
struct StartUp {
    struct Rank {
        StartUp* job;
        uint32_t rank;
        bool has_length = false;
        std::string block = {};
    };

    rwapi_bootstrap table(uint32_t rank) {
        return {&ranks[rank], rank, 2, exchange,
                // Contexts are not destroyed: the process ends.
                [](void*) { return 1; }, [](void*) { return -1; }};
    }
    static int exchange(void* context, const void* mine, size_t bytes, void* all) {
        auto& own = *static_cast<Rank*>(context);
        own.block.assign(static_cast<const char*>(mine), bytes);
        // The lengths of addresses come first, and are the same.
        const bool is_length = !std::exchange(own.has_length, true);
        if (!is_length && own.rank == 0) own.job->open_second();
        for (size_t i = 0; i < std::size(own.job->ranks); ++i) {
            const Rank& rank = is_length ? own : own.job->ranks[i];
            std::memcpy(static_cast<char*>(all) + i * bytes, rank.block.data(), bytes);
        }
        return 0;
    }

    std::function<void()> open_second;
    Rank ranks[2] = {{this, 0}, {this, 1}};
};

class RwapiSide : public Side {
  public:
    RwapiSide(Machine& machine, uint32_t rank) : Side(machine), rank_(rank) {}

    void open(const rwapi_bootstrap& start_up) {
        machine_.become(rank_);
        rwapi::SharedDomain::forget();
        rwapi_params parameters = {};
        parameters.size = sizeof parameters;
        parameters.bootstrap = &start_up;
        parameters.full = RWAPI_FULL_AGAIN;
        check_rwapi("rwapi_context_create", rwapi_context_create(&parameters, &context_));
        check_rwapi("rwapi_register", rwapi_register(context_, memory_, kBytes, RWAPI_ALL, &mine_));
        check_rwapi("rwapi_register", rwapi_register(context_, memory_, kBytes,
                                                     RWAPI_ALL | RWAPI_POLLED, &mine_polled_));
    }
    void connect(RwapiSide& peer) {
        theirs_ = peer.mine_;
        theirs_polled_ = peer.mine_polled_;
    }

  private:
    static constexpr uint64_t kWordAt = 2 * kRoom;
    static constexpr uint64_t kBytes = kWordAt + kWord;

    char* out() override { return memory_; }
    char* in() override { return memory_ + kRoom; }

    bool begin_send() override {
        spend(call_cost());
        mark(sent_);
        const uint64_t polls = machine_.polls();
        const int64_t result = post(out() + place(sent_), kRoom + place(sent_), sent_ + 1);
        if (machine_.polls() != polls) spend(kRwapi.poll);  // the queue is full
        if (result == RWAPI_ERR_AGAIN) return false;
        check_rwapi("a write", static_cast<int>(std::min<int64_t>(result, 0)));
        ++sent_;
        return true;
    }
    double call_cost() const {
        const uint32_t size = task().size;
        const auto of = [size](double few, double copied, double many) {
            return size > kRwapi.most_copied ? many : size > kRwapi.most_short ? copied : few;
        };
        switch (task().way) {
            case Way::kPlain:
                return of(kRwapi.write, kRwapi.write_long, kRwapi.write_long);
            case Way::kPolled:
                return of(kRwapi.set_apart, kRwapi.set_copied, kRwapi.set_long);
            case Way::kBehind:
                return of(kRwapi.set, kRwapi.set_copied, kRwapi.set_long);
            default:
                return of(kRwapi.notify, kRwapi.notify_copied, kRwapi.notify_long);
        }
    }
    int64_t post(const char* from, uint64_t to, uint64_t number) {
        const uint32_t size = task().size;
        switch (task().way) {
            case Way::kPlain:
                return rwapi_put(context_, theirs_, to, from, size, nullptr);
            case Way::kSignal:
                return rwapi_put_signal(context_, theirs_, to, from, size, kWordAt, number,
                                        RWAPI_SIGNAL_SET, nullptr);
            case Way::kPolled:
                return rwapi_put_signal(context_, theirs_polled_, to, from, size, kWordAt, number,
                                        RWAPI_SIGNAL_SET, nullptr);
            case Way::kBehind:
                return rwapi_put_signal(context_, theirs_polled_, to, from, size, to + size, number,
                                        RWAPI_SIGNAL_SET, nullptr);
            default:
                return rwapi_put_notify(context_, theirs_, to, from, size, 0, number, nullptr);
        }
    }

    bool has_come(uint64_t end) override {
        switch (task().way) {
            case Way::kPlain:
                return is_there(end - 1);
            case Way::kSignal:
                if (const uint64_t number = read(memory_ + kWordAt); number > came_) {
                    spend(kRwapi.take_signal.of(number - came_));
                    came_ = number;
                    counted(true);
                }
                return came_ >= end;
            case Way::kPolled:
                return read(memory_ + kWordAt) >= end;
            case Way::kBehind:
                return read(in() + place(end - 1) + task().size) >= end;
            default:
                spend(kRwapi.look);
                if (const int count =
                        check_rwapi("rwapi_notify_reset", rwapi_notify_reset(context_, 0, nullptr));
                    count != 0) {
                    const auto taken = static_cast<unsigned>(count);
                    spend(kRwapi.take.of(taken));
                    came_ += taken;
                    counted(true);
                }
                return came_ >= end;
        }
    }
    static uint64_t read(char* word) {
        return rwapi_signal_read(reinterpret_cast<const uint64_t*>(word));
    }
    void prepare() override { came_ = first_to_come(); }

    void poll() override {
        const TransportCosts& tern = costs_of("tern");
        const uint64_t polls = machine_.polls();
        spend(kRwapi.poll + kLook);
        for (int i = check_rwapi("rwapi_progress", rwapi_progress(context_)); i > 0; --i)
            counted(true);
        if (machine_.polls() != polls) spend(tern.full_poll - tern.poll);
    }
    bool settled() override {
        if (flush_ == 0) check_rwapi("rwapi_flush_all", rwapi_flush_all(context_, &flush_));
        int complete = 0;
        check_rwapi("a flush", rwapi_test(context_, flush_, &complete));
        if (complete == 0) return false;
        flush_ = 0;
        return true;
    }

    const uint32_t rank_;
    char* const memory_ = shared_memory(kBytes);
    rwapi_context* context_ = nullptr;
    // Of each side one piece of memory, with two sets of rights.
    rwapi_net mine_ = {}, mine_polled_ = {};
    rwapi_net theirs_ = {}, theirs_polled_ = {};
    uint64_t came_ = 0;  // what is below this number
    rwapi_id flush_ = 0;
};

}  // namespace

Sides rwapi_sides(Machine& machine) {
    auto one = std::make_unique<RwapiSide>(machine, 0);
    auto other = std::make_unique<RwapiSide>(machine, 1);
    static StartUp start_up;
    start_up.open_second = [&] { other->open(start_up.table(1)); };
    one->open(start_up.table(0));
    one->connect(*other);
    other->connect(*one);
    return {std::move(one), std::move(other)};
}

}  // namespace bench::sim
