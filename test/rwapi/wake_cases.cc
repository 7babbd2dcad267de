// SPDX-License-Identifier: BSD-3-Clause

// A thread that sleeps in a wait is told when something has happened. The waits of these threads
// sleep without a time limit: they end if somebody wakes them, or not at all.

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <thread>

#include "job.h"

namespace job {
namespace {

enum class Place : uint8_t {
    kAwake,
    kDescriptor,  // sleeps by the context's descriptor
    kOther,       // sleeps until the thread at the descriptor tells it
    kHeld,        // is kept from going on
};

class Deadline {
  public:
    void pass() const {
        CHECK(std::chrono::steady_clock::now() < end_);
        usleep(200);
    }

  private:
    std::chrono::steady_clock::time_point end_ =
        std::chrono::steady_clock::now() + std::chrono::microseconds(kLimit);
};

// A thread that waits in the library, and where it is.
class Waiting {
  public:
    // held() keeps the thread from going on between two polls, and after it has slept.
    explicit Waiting(std::function<int()> wait, std::function<bool()> held = nullptr)
        : held_(std::move(held)), thread_([this, wait = std::move(wait)] { run(wait); }) {}
    ~Waiting() { thread_.join(); }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

    static Waiting* current() { return current_; }

    // Runs a system call in which the thread sleeps.
    template <class Sleep>
    int in(Place place, Sleep sleep) {
        place_ = place;
        ++sleeps_;
        const int result = sleep();
        place_ = Place::kAwake;
        return result;
    }
    void hold() {
        if (!held_) return;
        const Deadline deadline;
        while (held_()) {
            place_ = Place::kHeld;
            deadline.pass();
        }
        place_ = Place::kAwake;
    }

    unsigned sleeps() const { return sleeps_; }
    // Waits until the thread sleeps or is held there, and nobody has woken it.
    void until(Place place) const {
        for (const Deadline deadline; !is(place);) deadline.pass();
    }
    bool is(Place place) const {
        const unsigned before = sleeps_;
        if (place_ != place) return false;
        return place == Place::kHeld || (blocked() && place_ == place && sleeps_ == before);
    }
    // Until the wait is over.
    void until_told() const {
        for (const Deadline deadline; !told_;) deadline.pass();
    }

  private:
    void run(const std::function<int()>& wait) {
        current_ = this;
        id_ = static_cast<pid_t>(syscall(SYS_gettid));
        CHECK_OK(wait());
        current_ = nullptr;
        told_ = true;
    }
    // Whether the kernel has the thread sleep.
    bool blocked() const {
        std::ifstream file("/proc/self/task/" + std::to_string(id_) + "/stat");
        std::string line;
        std::getline(file, line);
        const size_t name_end = line.rfind(')');
        return name_end != std::string::npos && line.compare(name_end, 3, ") S") == 0;
    }

    static thread_local Waiting* current_;
    const std::function<bool()> held_;
    std::atomic<Place> place_{Place::kAwake};
    std::atomic<unsigned> sleeps_{0};
    std::atomic<pid_t> id_{0};
    std::atomic<bool> told_{false};
    std::thread thread_;
};

thread_local Waiting* Waiting::current_ = nullptr;

// The next definition of a function that this program replaces.
template <class Function>
Function* original(const char* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

bool is_in_library(const void* code) {
    Dl_info there{}, library{};
    return dladdr(code, &there) != 0 && dladdr(dlsym(RTLD_NEXT, "rwapi_progress"), &library) != 0 &&
           there.dli_fbase == library.dli_fbase;
}

}  // namespace
}  // namespace job

// The library calls these, so they must be visible. Only threads that a case watches are treated
// otherwise.
extern "C" {
#pragma GCC visibility push(default)

int ppoll(pollfd* entries, nfds_t count, const timespec* limit, const sigset_t* mask) {
    static auto* const next = job::original<decltype(ppoll)>("ppoll");
    job::Waiting* const self = job::Waiting::current();
    if (self == nullptr) return next(entries, count, limit, mask);
    const timespec long_enough{job::kLimit / 1'000'000, 0};
    const int events =
        self->in(job::Place::kDescriptor, [&] { return next(entries, count, &long_enough, mask); });
    CHECK(events > 0);  // otherwise nobody has woken the thread
    self->hold();
    return events;
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* end) {
    static auto* const next =
        job::original<decltype(pthread_cond_clockwait)>("pthread_cond_clockwait");
    job::Waiting* const self = job::Waiting::current();
    if (self == nullptr) return next(condition, mutex, clock, end);
    timespec late{};
    clock_gettime(clock, &late);
    late.tv_sec += job::kLimit / 1'000'000;
    const int error =
        self->in(job::Place::kOther, [&] { return next(condition, mutex, clock, &late); });
    CHECK_OK(error);  // otherwise nobody has woken the thread
    return error;
}

int sched_yield() noexcept {
    static auto* const next = job::original<decltype(sched_yield)>("sched_yield");
    job::Waiting* const self = job::Waiting::current();
    // The device's library yields, too.
    if (self == nullptr || !job::is_in_library(__builtin_return_address(0))) return next();
    self->hold();
    return 0;  // on a busy machine, it takes long until polls that yield are over
}

#pragma GCC visibility pop
}

namespace job {
namespace {

constexpr uint32_t kCommand = 0xc0, kAnswer = 0xc1, kMessage = 0xc2, kSlot = 5;
enum What : uint32_t { kNotify, kSignal, kSmall, kEnd };
constexpr uint32_t kCredit = 4;  // small messages

// The next message of this type from the partner. What is to be sent in the default context goes
// on.
Small await(uint32_t type, rwapi_context* context = nullptr) {
    int node = rank() ^ 1;
    Small message;
    for (const Deadline deadline; !try_receive(type, &node, &message, context); deadline.pass())
        CHECK(rwapi_progress(nullptr) >= 0);
    return message;
}

// Two contexts in which threads of even processes sleep. Their partners do as they are told by
// small messages of the default context.
class Scene {
  public:
    Scene() {
        theirs_ = share(&word_, sizeof word_, RWAPI_ALL, &own_, get())[static_cast<size_t>(peer())];
        CHECK_OK(rwapi_register(other(), &word_, sizeof word_, RWAPI_ALL, &own_other_));
        barrier();
    }

    static int peer() { return rank() ^ 1; }
    rwapi_context* get() const { return context_.get(); }
    rwapi_context* other() const { return other_.get(); }
    const rwapi_net& own() const { return own_; }
    const rwapi_net& own_other() const { return own_other_; }

    // The value of the next signal.
    uint64_t expect() { return ++value_; }
    bool has(uint64_t value) const { return rwapi_signal_read(&word_) >= value; }
    // What a thread does.
    std::function<int()> wait_for(uint64_t value) const {
        return [this, value] { return rwapi_signal_wait(get(), &word_, value, -1); };
    }
    static std::function<int()> wait_for_slot(rwapi_context* context) {
        return [context] { return rwapi_notify_wait(context, kSlot, nullptr, -1); };
    }

    void tell(What what) const {
        send(peer(), {kCommand, what, value_});
        await(kAnswer);
    }
    void obey() const {
        for (;;) {
            const Small order = await(kCommand);
            send(peer(), {kAnswer, 0, 0});
            rwapi_id id = 0;
            switch (order.number) {
                case kNotify:
                    CHECK_OK(rwapi_put_notify(get(), theirs_, 0, nullptr, 0, kSlot, 1, &id));
                    break;
                case kSignal:
                    CHECK_OK(rwapi_put_signal(get(), theirs_, 0, nullptr, 0, 0, order.word,
                                              RWAPI_SIGNAL_SET, &id));
                    break;
                case kSmall:
                    send_small();
                    break;
                default:
                    return;
            }
            wait(id, get());
        }
    }

  private:
    // All for which there is credit; then, when there is credit again, one more.
    void send_small() const {
        rwapi_id id = 0;
        for (uint32_t i = 0; i < kCredit; ++i) send(peer(), {kMessage, 0, 0}, other());
        CHECK_OK(rwapi_flush_all(other(), &id));
        wait(id, other());
        send(peer(), {kAnswer, 0, 0});
        int error;
        const rwapi_small small{};
        for (const Deadline deadline;
             (error = rwapi_context_send(other(), peer(), &small)) == RWAPI_ERR_AGAIN;
             deadline.pass())
            CHECK(rwapi_progress(other()) >= 0 && rwapi_progress(nullptr) >= 0);
        CHECK_OK(error);
        send(peer(), {kAnswer, 0, 0});
    }

    const Context context_{{.threads = RWAPI_THREAD_MULTIPLE, .wait = RWAPI_WAIT_SLEEP}};
    const Context other_{{.threads = RWAPI_THREAD_MULTIPLE,
                          .credit = kCredit,
                          .wait = RWAPI_WAIT_SLEEP,
                          .full = RWAPI_FULL_AGAIN}};
    rwapi_net own_{}, theirs_{}, own_other_{};
    alignas(8) uint64_t word_ = 0;
    uint64_t value_ = 0;
};

// One sleeps by the descriptor, and the other until it is told.
void until_both_sleep(const Waiting& watcher, const Waiting& other) {
    unsigned sleeps;
    do {
        sleeps = watcher.sleeps();
        watcher.until(Place::kDescriptor);
        other.until(Place::kOther);
    } while (!watcher.is(Place::kDescriptor) || watcher.sleeps() != sleeps);
}

// What the watcher has handled it tells at once, and not only when it sleeps again.
void handled_by_the_watcher(Scene& scene) {
    std::atomic<bool> release = false;
    const uint64_t next = scene.expect();
    const Waiting watcher(Scene::wait_for_slot(scene.get()),
                          [&, next] { return !release && scene.has(next); });
    watcher.until(Place::kDescriptor);
    const Waiting other(scene.wait_for(next));
    until_both_sleep(watcher, other);
    scene.tell(kSignal);
    other.until_told();
    release = true;
    scene.tell(kNotify);
}

// A thread that does not wait has handled it: the watcher tells that before it sleeps.
void handled_by_a_third(Scene& scene) {
    std::atomic<bool> held = false;
    const uint64_t next = scene.expect();
    const Waiting watcher(Scene::wait_for_slot(scene.get()), [&] { return held.load(); });
    watcher.until(Place::kDescriptor);
    const Waiting other(scene.wait_for(next));
    until_both_sleep(watcher, other);
    held = true;
    CHECK(rwapi_progress(scene.get()) >= 0);  // wakes the watcher
    watcher.until(Place::kHeld);
    scene.tell(kSignal);
    for (const Deadline deadline; !scene.has(next); deadline.pass())
        CHECK(rwapi_progress(scene.get()) >= 0);
    held = false;
    other.until_told();
    scene.tell(kNotify);
}

// When the watcher has what it waits for, another thread watches the descriptor.
void watcher_leaves(Scene& scene) {
    const uint64_t next = scene.expect();
    const Waiting watcher(Scene::wait_for_slot(scene.get()));
    watcher.until(Place::kDescriptor);
    const Waiting other(scene.wait_for(next));
    until_both_sleep(watcher, other);
    scene.tell(kNotify);
    watcher.until_told();
    other.until(Place::kDescriptor);
    scene.tell(kSignal);
}

// A write to this process itself makes no event.
void own_writes(const Scene& scene) {
    const Waiting watcher(Scene::wait_for_slot(scene.get()));
    watcher.until(Place::kDescriptor);
    CHECK_OK(rwapi_put_notify(scene.get(), scene.own(), 0, nullptr, 0, kSlot, 1, nullptr));
    watcher.until_told();
    CHECK_EQ(rwapi_notify_reset(scene.get(), kSlot, nullptr), 1);
}

// A thread takes messages that have come; that there is credit for more, the sleeping one tells.
void work_for_the_watcher(const Scene& scene) {
    const Waiting watcher(Scene::wait_for_slot(scene.other()));
    scene.tell(kSmall);
    await(kAnswer);
    watcher.until(Place::kDescriptor);
    rwapi_small small;
    int node;
    for (uint32_t i = 0; i < kCredit; ++i)
        CHECK_EQ(rwapi_context_receive(scene.other(), &node, &small), 1);
    await(kAnswer);
    CHECK_OK(rwapi_put_notify(scene.other(), scene.own_other(), 0, nullptr, 0, kSlot, 1, nullptr));
}

void woken_sleepers() {
    Scene scene;
    if (rank() % 2 != 0) {
        scene.obey();
    } else {
        for (int round = 0; round < 3; ++round) {
            for (void (*const act)(Scene&) :
                 {handled_by_the_watcher, handled_by_a_third, watcher_leaves}) {
                act(scene);
                CHECK_EQ(rwapi_notify_reset(scene.get(), kSlot, nullptr), 1);
            }
            own_writes(scene);
        }
        work_for_the_watcher(scene);
        scene.tell(kEnd);
    }
    barrier();
}

}  // namespace

const std::vector<Case> wake_cases = {{"woken-sleepers", woken_sleepers}};

}  // namespace job
