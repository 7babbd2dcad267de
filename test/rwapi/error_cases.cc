// SPDX-License-Identifier: BSD-3-Clause

// Each error is told once, whatever asks for it.

#include <sched.h>

#include <algorithm>

#include "job.h"

namespace job {
namespace {

constexpr size_t kBytes = 4096;

// Puts that fail at two peers, flushes of one and of all, waits, and the end, in all orders; and
// the same with a death of the first peer: a write to memory that it has deregistered ends the
// connection. Each error is returned once, by a call that concerns it, or by the end. The keys have
// not come when a put is begun, so that its error is not the call's.
enum Step { kFirst, kSecond, kNamed, kFlushFirst, kFlushAll, kNamedFlushAll, kDeath };

// Does these steps in a context of its own. asks: flushes of all follow, until all is told.
void tell_errors(const std::vector<int>& steps, bool asks) {
    static std::byte memory[64], doomed[64], source[64];
    rwapi_context* context = nullptr;
    CHECK_OK(rwapi_context_create(nullptr, &context));
    rwapi_net own[3];
    CHECK_OK(rwapi_register(context, memory, 64, RWAPI_WRITE, &own[0]));
    CHECK_OK(rwapi_register(context, memory, 64, RWAPI_READ, &own[1]));
    CHECK_OK(rwapi_register(context, doomed, 64, RWAPI_WRITE, &own[2]));
    const auto writable = exchange(own[0], context);
    const auto readable = exchange(own[1], context);
    std::vector<rwapi_net> gone(at(size()));
    CHECK_OK(rwapi_share(context, own[2], gone.data()));  // the keys, too
    CHECK_OK(rwapi_deregister(context, own[2]));
    CHECK_OK(rwapi_barrier(context));
    std::vector<int> told;  // errors that calls have returned
    bool dead = false;
    const auto tell = [&](int error) {
        if (error < 0) told.push_back(error);
        return error;
    };
    const auto until_complete = [&](auto begin) {
        rwapi_id id = 0;
        const int error = tell(begin(&id));
        return error == 0 ? tell(rwapi_wait(context, id, kLimit)) : error;
    };
    const auto flush_all = [&] {
        return until_complete([&](rwapi_id* id) { return rwapi_flush_all(context, id); });
    };
    for (const int step : rank() == 0 ? steps : std::vector<int>()) {
        int of_first = dead ? RWAPI_ERR_PEER : 0;  // what a call returns that concerns the first
        switch (step) {
            case kFirst:
                of_first = tell(rwapi_put(context, writable[1], 60, source, 8, nullptr));
                break;
            case kSecond:
                tell(rwapi_put(context, readable[2], 0, source, 8, nullptr));
                break;
            case kNamed: {  // a wait that times out takes nothing
                rwapi_id ids[2] = {0, 0};
                tell(rwapi_put_signal(context, rwapi_net_add(writable[2], 1), 0, source, 8, 8, 1,
                                      RWAPI_SIGNAL_SET, &ids[0]));
                const int got = tell(rwapi_get(context, readable[1], 0, source, 8, &ids[1]));
                if (dead) of_first = got;
                const int error = rwapi_wait_all(context, ids, 2, 0);
                tell(error != RWAPI_ERR_TIMEOUT ? error : rwapi_wait_all(context, ids, 2, kLimit));
                break;
            }
            case kFlushFirst: {
                const int flushed =
                    until_complete([&](rwapi_id* id) { return rwapi_flush(context, 1, id); });
                if (dead) of_first = flushed;
                break;
            }
            case kFlushAll:
                tell(rwapi_flush_all(context, nullptr));
                break;
            case kNamedFlushAll:
                CHECK(flush_all() != RWAPI_ERR_PEER);
                break;
            case kDeath: {
                rwapi_id id = 0;
                CHECK_OK(rwapi_put(context, gone[1], 0, source, 8, &id));
                while (rwapi_peer_status(context, 1) == 0) CHECK(rwapi_progress(context) >= 0);
                dead = true;
                of_first = rwapi_peer_status(context, 1);
                break;
            }
            default:
                break;
        }
        if (dead) CHECK_EQ(of_first, RWAPI_ERR_PEER);
    }
    if (asks && rank() == 0) {  // each flush of all returns one of what is left
        for (int i = 0; i < 5; ++i) flush_all();
        CHECK_OK(flush_all());
    }
    // Until then, the others answer.
    Small done;
    for (int node = 1; rank() == 0 && node < size(); ++node) send(node, {6, 0, 0});
    for (int node = 0; rank() != 0 && !try_receive(6, &node, &done); sched_yield())
        CHECK(rwapi_progress(context) >= 0);
    barrier();
    const int end = rwapi_context_destroy(context);
    const auto count = [&](int error) { return std::ranges::count(told, error); };
    if (rank() != 0) {
        CHECK_OK(end);
    } else {
        const auto of_death = count(RWAPI_ERR_PEER);
        CHECK_EQ(told.size(), at(count(RWAPI_ERR_RANGE) + count(RWAPI_ERR_RIGHTS) + of_death));
        CHECK(dead || of_death == 0);
        const auto range = 1 - count(RWAPI_ERR_RANGE), rights = 2 - count(RWAPI_ERR_RIGHTS);
        CHECK(range >= 0 && rights >= 0 && (!asks || rights + (dead ? 0 : range) == 0));
        // What concerns the dead peer only is no error of the end.
        CHECK((end == RWAPI_ERR_RANGE && range != 0 && !dead) ||
              (end == RWAPI_ERR_RIGHTS && rights != 0) ||
              (end == 0 && rights + (dead ? 0 : range) == 0));
    }
    barrier();
}

// Each so many of all orders of these steps.
void tell_in_all_orders(std::vector<int> steps, unsigned each) {
    if (size() < 3) return;
    unsigned order = 0;
    do {
        if (order % each == 0) tell_errors(steps, order / each % 2 == 0);
        ++order;
    } while (std::ranges::next_permutation(steps).found);
}

void errors_once() {
    tell_in_all_orders({kFirst, kSecond, kNamed, kFlushFirst, kFlushAll, kNamedFlushAll}, 5);
}

void errors_with_a_death() {
    tell_in_all_orders({kFirst, kSecond, kNamed, kFlushFirst, kFlushAll, kNamedFlushAll, kDeath},
                       53);
}

// A flush whose id nobody has takes no error away from the end.
void error_of_flush_all() {
    if (size() == 1) return;
    static std::byte memory[64];
    rwapi_context* context = nullptr;
    CHECK_OK(rwapi_context_create(nullptr, &context));
    rwapi_net own;
    CHECK_OK(rwapi_register(context, memory, 64, RWAPI_ALL, &own));
    const auto nets = exchange(own, context);
    CHECK_OK(rwapi_put(context, nets[at((rank() + 1) % size())], 60, memory, 8, nullptr));
    CHECK_OK(rwapi_flush_all(context, nullptr));
    CHECK_EQ(rwapi_context_destroy(context), RWAPI_ERR_RANGE);
}

// An error for which nobody asks is that of the end.
void error_at_the_end() {
    if (size() == 1) return;
    const Shared shared = allocate(kBytes);
    const int next = (rank() + 1) % size();
    const rwapi_net here = shared.nets[at(rank())];
    barrier();
    CHECK_OK(rwapi_free(allocate(kBytes).memory));
    const Shared freed = allocate(kBytes);
    CHECK_OK(rwapi_free(freed.memory));
    barrier();
    CHECK(rwapi_write(next, here, freed.nets[at(next)], 8) > 0);
    flush(next);
    CHECK_EQ(rwapi_finalize(), RWAPI_ERR_STALE);
}

}  // namespace

const std::vector<Case> error_cases = {{"error-at-the-end", error_at_the_end},
                                       {"errors-once", errors_once},
                                       {"errors-with-a-death", errors_with_a_death},
                                       {"error-of-flush-all", error_of_flush_all}};

}  // namespace job
