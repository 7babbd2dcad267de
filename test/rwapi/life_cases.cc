// SPDX-License-Identifier: BSD-3-Clause

// Start-up, and peers that die.

#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <thread>

#include "job.h"

namespace job {
namespace {

// The last process kills itself amid traffic. Calls that concern it fail, the others go on.
void killed_peer() {
    std::vector<uint64_t> words(1024);
    rwapi_net own;
    const auto regions = share(words.data(), words.size() * 8, RWAPI_ALL, &own);
    const int victim = size() - 1;
    if (rank() == victim) {
        // At any time: sometimes before the others write, and while this one writes.
        const uint64_t begun = seed();
        std::printf("# TERN_TEST_SEED=%llu\n", static_cast<unsigned long long>(begun));
        std::fflush(stdout);
        Random random(begun);
        for (uint64_t left = random.below(2000); left > 0; --left) {
            const auto node = at(static_cast<int>(random.below(at(victim))));
            if (random.below(4) == 0)
                rwapi_put_signal(nullptr, regions[node], 4096, &words[100], 2000, 8000, 1,
                                 RWAPI_SIGNAL_ADD, nullptr);
            rwapi_progress(nullptr);
        }
        kill(getpid(), SIGKILL);
    }
    // Until it is noticed, which may be at any of these calls.
    std::vector<uint64_t> source(1024, 7);
    int error = 0;
    for (;;) {
        rwapi_id id = 0;
        error = rwapi_put_notify(nullptr, regions[at(victim)], 0, source.data(), 8192, 1, 1, &id);
        if (error == 0 && id != 0) error = rwapi_wait(nullptr, id, kLimit);
        if (error == 0) error = rwapi_peer_status(nullptr, victim);
        if (error != 0) break;
    }
    CHECK_EQ(error, RWAPI_ERR_PEER);
    rwapi_small small{};
    CHECK_EQ(rwapi_send(victim, &small), RWAPI_ERR_PEER);
    CHECK_EQ(rwapi_peer_status(nullptr, victim), RWAPI_ERR_PEER);
    CHECK_EQ(rwapi_put(nullptr, regions[at(victim)], 0, source.data(), 8, nullptr), RWAPI_ERR_PEER);
    rwapi_id id;
    CHECK_EQ(rwapi_flush(nullptr, victim, &id), RWAPI_ERR_PEER);
    // The survivors, which flush all: what the victim has lost has been told.
    CHECK_OK(rwapi_flush_all(nullptr, &id));
    wait(id);
    const int next = (rank() + 1) % victim;
    for (uint64_t round = 1; round <= 100; ++round) {
        CHECK_OK(rwapi_put_notify(nullptr, regions[at(next)], 0, &round, 8, 2, round, &id));
        wait(id);
        uint64_t value = 0;
        CHECK_OK(rwapi_notify_wait(nullptr, 2, &value, kLimit));
        CHECK_EQ(value, round);
        CHECK_EQ(words[0], round);
        CHECK_EQ(rwapi_notify_reset(nullptr, 2, nullptr), 1);
        send((rank() + victim - 1) % victim, {3, 0, round});
        CHECK_EQ(receive(next, 3).word, round);
    }
    CHECK(rwapi_peer_status(nullptr, next) >= 0);  // it may have come to the end
}

// The last process dies before anybody has spoken with it.
void killed_early() {
    const int victim = size() - 1;
    if (rank() == victim) kill(getpid(), SIGKILL);
    rwapi_small small{};
    int error;
    while ((error = rwapi_send(victim, &small)) == 0) continue;
    CHECK_EQ(error, RWAPI_ERR_PEER);
    CHECK_EQ(rwapi_peer_status(nullptr, victim), RWAPI_ERR_PEER);
    CHECK_EQ(rwapi_send(victim, &small), RWAPI_ERR_PEER);
    // The others speak with each other.
    for (int node = 0; node < victim; ++node) send(node, {3, 0, 0});
    for (int node = 0; node < victim; ++node) receive(node, 3);
}

// Everybody has a message from everybody.
void greet(rwapi_context* context) {
    for (int node = 0; node < size(); ++node) send(node, {1, 0, 0}, context);
    for (int node = 0; node < size(); ++node) receive(node, 1, context);
}

// Makes progress until this process knows that a peer has gone, and sends nothing to it before.
void wait_until_gone(int node, rwapi_context* context) {
    using std::chrono::steady_clock;
    const auto end = steady_clock::now() + std::chrono::microseconds(kLimit);
    while (rwapi_peer_status(context, node) == 0) {
        CHECK(rwapi_progress(context) >= 0);
        CHECK(steady_clock::now() < end);
        sched_yield();
    }
    const int status = rwapi_peer_status(context, node);
    CHECK(status == RWAPI_ERR_PEER || status == 1);
    rwapi_small small{};
    CHECK_EQ(rwapi_context_send(context, node, &small), RWAPI_ERR_PEER);
}

// The last process is killed. The one before it notices this, and leaves in good order. The others,
// which only wait, notice both.
void killed_and_left() {
    const int victim = size() - 1, leaver = size() - 2;
    CHECK(leaver > 0);
    greet(nullptr);
    barrier();
    if (rank() == victim) kill(getpid(), SIGKILL);
    wait_until_gone(victim, nullptr);
    if (rank() == leaver) return;
    wait_until_gone(leaver, nullptr);
    for (int node = 0; node < leaver; ++node) send(node, {3, 0, 0});
    for (int node = 0; node < leaver; ++node) receive(node, 3);
}

// Waits that do not say for whom end when a peer dies, if the context is to report this, until it
// has been told which one, and in any case when nobody is left.
void killed_waits() {
    const Context reports({.on_peer_death = RWAPI_DEATH_REPORT}), goes_on({});
    const int victim = size() - 1;
    const bool alone = size() == 2;
    for (rwapi_context* context : {reports.get(), goes_on.get()}) greet(context);
    barrier();
    if (rank() == victim) kill(getpid(), SIGKILL);
    uint64_t word = 0, value = 0;
    uint32_t slot;
    CHECK_EQ(rwapi_notify_wait(reports.get(), 5, &value, kLimit), RWAPI_ERR_PEER);
    CHECK_EQ(rwapi_signal_wait(reports.get(), &word, 1, kLimit), RWAPI_ERR_PEER);
    CHECK_EQ(rwapi_peer_status(reports.get(), victim), RWAPI_ERR_PEER);
    wait_until_gone(victim, goes_on.get());
    const int later = alone ? RWAPI_ERR_PEER : RWAPI_ERR_TIMEOUT;
    for (rwapi_context* context : {reports.get(), goes_on.get()}) {
        CHECK_EQ(rwapi_notify_wait(context, 5, &value, 1000), later);
        CHECK_EQ(rwapi_notify_waitsome(context, 0, 9, &slot, 1000), later);
        CHECK_EQ(rwapi_signal_wait(context, &word, 1, 1000), later);
    }
    // What is there already is not withheld.
    word = 1;
    CHECK_OK(rwapi_signal_wait(goes_on.get(), &word, 1, 1000));
    for (int node = 0; node < victim; ++node) send(node, {3, 0, 0});
    for (int node = 0; node < victim; ++node) receive(node, 3);
}

// A start-up by the default context's messages, with a barrier that never ends, or at once. It must
// outlive the context.
struct OddStart {
    using Exchange = int (*)(void*, const void*, size_t, void*);

    explicit OddStart(int (*barrier_test)(void*), Exchange exchange_by = exchange)
        : bootstrap{nullptr,     static_cast<uint32_t>(rank()), static_cast<uint32_t>(size()),
                    exchange_by, [](void*) { return 0; },       barrier_test} {
        params.size = sizeof params;
        params.bootstrap = &bootstrap;
    }
    OddStart(const OddStart&) = delete;
    OddStart& operator=(const OddStart&) = delete;

    static int exchange(void*, const void* mine, size_t bytes, void* all) {
        const Shared shared = allocate(bytes * at(size() + 1));
        std::byte* const own = shared.memory + bytes * at(size());
        std::memcpy(own, mine, bytes);
        for (int node = 0; node < size(); ++node) {
            wait(rwapi_write(node, rwapi_net_add(shared.nets[at(rank())], bytes * at(size())),
                             rwapi_net_add(shared.nets[at(node)], bytes * at(rank())), bytes));
            flush(node);
        }
        barrier();
        std::memcpy(all, shared.memory, bytes * at(size()));
        barrier();
        return rwapi_free(shared.memory);
    }
    static int hang(void*) { return 0; }
    static int pass(void*) { return 1; }

    const rwapi_bootstrap bootstrap;
    rwapi_params params{};
};

// The connection to the launcher breaks. Nobody counts as dead: peers that have spoken with each
// other go on, and only what needs another peer's address fails, as does the end.
void lost_launcher() {
    if (size() < 4) return;
    rwapi_context* context = nullptr;
    const rwapi_params params{.size = sizeof params, .on_peer_death = RWAPI_DEATH_REPORT};
    CHECK_OK(rwapi_context_create(&params, &context));
    static uint64_t word;
    rwapi_net own;
    CHECK_OK(rwapi_register(context, &word, sizeof word, RWAPI_ALL, &own));
    const auto nets = [&] {  // by the other context
        std::vector<rwapi_net> all(at(size()));
        for (int node = 0; node < size(); ++node)
            for (uint32_t i = 0; i < 2; ++i) send(node, {i, 0, own.word[i]});
        for (int node = 0; node < size(); ++node)
            for (uint32_t i = 0; i < 2; ++i) all[at(node)].word[i] = receive(node, i).word;
        return all;
    }();
    const int next = (rank() + 1) % size(), across = (rank() + 2) % size();
    const int previous = (rank() + size() - 1) % size();
    const auto talk = [&] {
        for (const int node : {previous, next}) send(node, {1, 0, 0}, context);
        for (const int node : {previous, next}) receive(node, 1, context);
    };
    talk();
    barrier();
    const int fd = std::atoi(std::getenv("PMI_FD")), kept = dup(fd);
    int ends[2];
    CHECK_OK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    CHECK_EQ(dup2(ends[0], fd), fd);
    for (const int end : ends) close(end);
    const uint64_t value = 7;
    const rwapi_small small{};
    for (int round = 0; round < 2; ++round) {
        CHECK_EQ(rwapi_context_send(context, across, &small), RWAPI_ERR_START);
        CHECK_EQ(rwapi_put(context, nets[at(across)], 0, &value, 8, nullptr), RWAPI_ERR_START);
        // It probes meanwhile.
        CHECK_EQ(rwapi_notify_wait(context, 5, nullptr, 500'000), RWAPI_ERR_TIMEOUT);
        for (int node = 0; node < size(); ++node) CHECK_OK(rwapi_peer_status(context, node));
        talk();
        CHECK_OK(rwapi_put_notify(context, nets[at(next)], 0, &value, 8, 6, 1, nullptr));
        CHECK_OK(rwapi_notify_wait(context, 6, nullptr, kLimit));
        CHECK_EQ(rwapi_notify_reset(context, 6, nullptr), 1);
        CHECK_EQ(word, value);
    }
    barrier();
    CHECK_EQ(rwapi_context_destroy(context), RWAPI_ERR_START);
    barrier();
    CHECK_EQ(rwapi_finalize(), RWAPI_ERR_START);
    // The test's launcher is to take this for a good end.
    char answer[64];
    CHECK_EQ(write(kept, "cmd=finalize\n", 13), 13);
    CHECK(read(kept, answer, sizeof answer) > 0);
}

// The last process leaves a context in good order, which does not wait for the others. They only
// wait, and notice it.
void left() {
    const OddStart start(OddStart::pass);
    rwapi_context* context = nullptr;
    CHECK_OK(rwapi_context_create(&start.params, &context));
    greet(context);
    barrier();
    const int leaver = size() - 1;
    if (rank() != leaver) {
        wait_until_gone(leaver, context);
        for (int node = 0; node < leaver; ++node) send(node, {3, 0, 0}, context);
        for (int node = 0; node < leaver; ++node) receive(node, 3, context);
    } else {
        CHECK_OK(rwapi_context_destroy(context));
    }
    barrier();
    if (rank() != leaver) CHECK_OK(rwapi_context_destroy(context));
}

// An exchange that damages the address of the next process: the parts have other lengths, and the
// same sum. `kDevice`: bytes of the device's address that are left.
template <uint8_t kDevice>
int damaging_exchange(void* context, const void* mine, size_t bytes, void* all) {
    const int error = OddStart::exchange(context, mine, bytes, all);
    if (error != 0 || bytes == sizeof(uint32_t)) return error;  // the lengths come first
    // After the magic number, the slots, the incarnation and the credit.
    auto* const lengths = static_cast<uint8_t*>(all) + at((rank() + 1) % size()) * bytes + 18;
    lengths[1] = static_cast<uint8_t>(lengths[1] + lengths[0] - kDevice);
    lengths[0] = kDevice;
    return 0;
}

// What a launcher returns may be damaged: that peer cannot be reached, and nothing else happens.
void damaged_addresses() {
    for (const auto exchange : {damaging_exchange<0>, damaging_exchange<1>}) {
        const OddStart start(OddStart::pass, exchange);
        rwapi_context* context = nullptr;
        CHECK_OK(rwapi_context_create(&start.params, &context));
        const int next = (rank() + 1) % size();
        rwapi_small small{};
        int error = rwapi_context_send(context, next, &small);
        while (rwapi_peer_status(context, next) == 0) {
            CHECK(error == 0 || error == RWAPI_ERR_PEER);
            CHECK(rwapi_progress(context) >= 0);
        }
        CHECK_EQ(rwapi_context_send(context, next, &small), RWAPI_ERR_PEER);
        barrier();
        (void)rwapi_context_destroy(context);
        barrier();
    }
}

// The end of a survivor's context is bounded, though the barrier never ends, and though a peer that
// is alive does not answer.
void killed_finalize() {
    using std::chrono::microseconds;
    using std::chrono::seconds;
    using std::chrono::steady_clock;
    const OddStart start(OddStart::hang);
    rwapi_context* context = nullptr;
    CHECK_OK(setenv("RWAPI_FINALIZE_TIMEOUT", "x", 1));
    CHECK_EQ(rwapi_context_create(&start.params, &context), RWAPI_ERR_INVALID);
    CHECK_OK(setenv("RWAPI_FINALIZE_TIMEOUT", "1", 1));
    CHECK_OK(rwapi_context_create(&start.params, &context));
    const int victim = size() - 1;
    if (rank() == victim) {
        for (int node = 0; node < victim; ++node) receive(node, 1, context);
        kill(getpid(), SIGKILL);
    }
    send(victim, {1, 0, 0}, context);
    while (rwapi_peer_status(context, victim) == 0) CHECK(rwapi_progress(context) >= 0);
    if (rank() == 1) {
        // Without progress of the context.
        send(0, {3, 0, 0});
        receive(0, 2);
    }
    if (rank() == 0) {
        receive(1, 3);
        send(1, {1, 0, 0}, context);
    }
    const auto begin = steady_clock::now();
    const int error = rwapi_context_destroy(context);
    CHECK(steady_clock::now() - begin < microseconds(kLimit));
    CHECK_EQ(error, RWAPI_ERR_TIMEOUT);  // nobody knows whether the others are there
    if (rank() == 0) send(1, {2, 0, 0});
}

// Addresses go to all, and a barrier holds each process until the last one is there.
void shares_and_barriers() {
    constexpr uint64_t kRounds = 50;
    const Context own({});
    for (rwapi_context* context : {static_cast<rwapi_context*>(nullptr), own.get()}) {
        std::vector<uint64_t> words(at(size()));
        rwapi_net mine;
        CHECK_OK(rwapi_register(context, words.data(), 8 * words.size(), RWAPI_ALL, &mine));
        std::vector<rwapi_net> nets(at(size()));
        CHECK_EQ(rwapi_share(context, mine, nullptr), RWAPI_ERR_INVALID);
        CHECK_OK(rwapi_share(context, mine, nets.data()));
        for (int node = 0; node < size(); ++node) CHECK_EQ(rwapi_net_node(nets[at(node)]), node);
        // The words of all are the same after each barrier.
        for (uint64_t round = 1; round <= kRounds; ++round) {
            if (rank() == static_cast<int>(round) % size()) usleep(1000);
            for (const rwapi_net& net : nets)
                CHECK_OK(rwapi_put(context, net, 8 * at(rank()), &round, 8, nullptr));
            rwapi_id id;
            CHECK_OK(rwapi_flush_all(context, &id));
            wait(id, context);
            CHECK_OK(rwapi_barrier(context));
            for (const uint64_t& word : words) CHECK_EQ(rwapi_signal_read(&word), round);
            CHECK_OK(rwapi_barrier(context));
        }
        // Some have nothing to give.
        CHECK_OK(rwapi_share(context, rank() % 2 == 0 ? mine : rwapi_net{}, nets.data()));
        for (size_t node = 0; node < nets.size(); ++node)
            CHECK_EQ(nets[node].word[0] != 0, node % 2 == 0);
        CHECK_OK(rwapi_deregister(context, mine));
    }
}

// Keys come with the addresses: a write needs nothing of its target, and a mistake is the call's.
void shared_keys() {
    if (size() == 1) return;
    rwapi_net mine;
    auto* const words = static_cast<uint64_t*>(rwapi_alloc(64, &mine));
    CHECK(words != nullptr);
    std::vector<rwapi_net> nets(at(size()));
    CHECK_OK(rwapi_share(nullptr, mine, nets.data()));
    const int partner = rank() ^ 1;
    if (partner < size()) {
        // Once they are connected, the odd one computes until it has the data.
        send(partner, {1, 0, 0});
        receive(partner, 1);
        const uint64_t value = 5;
        if (rank() % 2 == 0) {
            const rwapi_net net = nets[at(partner)];
            CHECK_EQ(rwapi_put(nullptr, net, 60, &value, 8, nullptr), RWAPI_ERR_RANGE);
            CHECK_OK(rwapi_put(nullptr, rwapi_net_add(net, 8), 0, &value, 8, nullptr));
            flush(partner);
        } else {
            const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(kLimit);
            while (rwapi_signal_read(&words[1]) != value)
                CHECK(std::chrono::steady_clock::now() < end);
        }
    }
    // A later region at the same place of the owner's table, and one whose key is asked for.
    CHECK_OK(rwapi_barrier(nullptr));
    CHECK_OK(rwapi_free(words));
    const Shared later = allocate(64);
    CHECK_OK(rwapi_share(nullptr, later.nets[at(rank())], nets.data()));
    for (const rwapi_net& net : nets)
        CHECK_OK(rwapi_put(nullptr, net, 8 * at(rank()), &net, 8, nullptr));
    rwapi_id id;
    CHECK_OK(rwapi_flush_all(nullptr, &id));
    wait(id);
    CHECK_OK(rwapi_barrier(nullptr));
    for (size_t node = 0; node < nets.size(); ++node)
        CHECK_EQ(reinterpret_cast<uint64_t*>(later.memory)[node], nets[at(rank())].word[0]);
    CHECK_OK(rwapi_barrier(nullptr));
}

// The last process dies before it comes to a collective call. The others do not wait for it, and
// have each other's addresses, as far as they could come.
void killed_in_a_barrier() {
    greet(nullptr);
    barrier();
    const int victim = size() - 1;
    if (rank() == victim) kill(getpid(), SIGKILL);
    std::vector<rwapi_net> nets(at(size()));
    rwapi_net mine;
    static uint64_t word;
    CHECK_OK(rwapi_register(nullptr, &word, sizeof word, RWAPI_ALL, &mine));
    for (int i = 0; i < 200; ++i) {
        // Without the dead one, some can be ahead by more than one barrier.
        if (i % 50 == rank()) usleep(20'000);
        CHECK_EQ(rwapi_barrier(nullptr), RWAPI_ERR_PEER);
    }
    CHECK_EQ(rwapi_share(nullptr, mine, nets.data()), RWAPI_ERR_PEER);
    CHECK_EQ(nets[at(victim)].word[0], 0u);
    CHECK_EQ(rwapi_net_node(nets[at(rank())]), rank());
    for (int node = 0; node < victim; ++node) send(node, {3, 0, 0});
    for (int node = 0; node < victim; ++node) receive(node, 3);
}

// The context of rwapi_init with parameters and a table, and all that memory needs in another one.
void parameters() {
    CHECK_OK(rwapi_finalize());
    CHECK_OK(rwapi_init_params(nullptr));
    const OddStart start(OddStart::pass);
    rwapi_context* context = nullptr;
    CHECK_OK(rwapi_context_create(&start.params, &context));
    rwapi_net mine;
    CHECK(rwapi_context_alloc(nullptr, 0, &mine) == nullptr);
    void* const memory = rwapi_context_alloc(context, 64, &mine);
    CHECK(memory != nullptr);
    const int next = (rank() + 1) % size();
    std::vector<rwapi_net> nets(at(size()));
    CHECK_OK(rwapi_share(context, mine, nets.data()));
    *static_cast<int*>(memory) = 100 + rank();
    rwapi_id id;
    CHECK_OK(rwapi_put(context, nets[at(next)], 8, memory, 4, &id));
    wait(id, context);
    CHECK_EQ(rwapi_write(next, mine, nets[at(next)], 4), RWAPI_ERR_FOREIGN);
    CHECK_OK(rwapi_flush_all(context, &id));
    wait(id, context);
    CHECK_OK(rwapi_barrier(context));
    CHECK_EQ(static_cast<int*>(memory)[2], 100 + (rank() + size() - 1) % size());
    CHECK_EQ(rwapi_free(memory), RWAPI_ERR_INVALID);
    CHECK_OK(rwapi_deregister(context, mine));
    CHECK_EQ(rwapi_deregister(context, mine), RWAPI_ERR_STALE);
    barrier();
    CHECK_OK(rwapi_context_destroy(context));
    CHECK_OK(rwapi_finalize());
    // Two slots, and any thread may use it.
    rwapi_params params{};
    params.size = sizeof params;
    params.threads = RWAPI_THREAD_MULTIPLE;
    params.slots = 2;
    CHECK_OK(rwapi_init_params(&params));
    CHECK_EQ(rwapi_init_params(&params), RWAPI_ERR_STATE);
    CHECK_EQ(is_set(nullptr, 1, nullptr), 0);
    CHECK_EQ(is_set(nullptr, 2, nullptr), RWAPI_ERR_RANGE);
    std::thread([] { CHECK_OK(rwapi_barrier(nullptr)); }).join();
}

}  // namespace

const std::vector<Case> life_cases = {{"killed-peer", killed_peer},
                                      {"killed-early", killed_early},
                                      {"killed-and-left", killed_and_left},
                                      {"killed-finalize", killed_finalize},
                                      {"killed-waits", killed_waits},
                                      {"killed-in-a-barrier", killed_in_a_barrier},
                                      {"shares-and-barriers", shares_and_barriers},
                                      {"shared-keys", shared_keys},
                                      {"parameters", parameters},
                                      {"left", left},
                                      {"lost-launcher", lost_launcher},
                                      {"damaged-addresses", damaged_addresses}};

}  // namespace job
