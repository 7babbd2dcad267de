// SPDX-License-Identifier: BSD-3-Clause
// What the cases of rwapi-job share: each process of a job runs the same case.
#pragma once

#include <rwapi.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

// Ends the process at once, and so the job.
#define CHECK(condition)                                             \
    do {                                                             \
        if (!(condition)) job::fail(__FILE__, __LINE__, #condition); \
    } while (false)
#define CHECK_EQ(left, right) job::check_equal(__FILE__, __LINE__, #left, left, #right, right)
#define CHECK_OK(call) CHECK_EQ(call, 0)

namespace job {

constexpr int64_t kLimit = 120'000'000;  // of a wait, in microseconds

[[noreturn]] void fail(const char* file, int line, const char* what);

template <class Left, class Right>
void check_equal(const char* file, int line, const char* left_text, const Left& left,
                 const char* right_text, const Right& right) {
    if (left == static_cast<Left>(right)) return;
    const std::string text = std::string(left_text) + " is " +
                             std::to_string(static_cast<long long>(left)) + ", not " + right_text +
                             " (" + std::to_string(static_cast<long long>(right)) + ")";
    fail(file, line, text.c_str());
}

// The place of a node in a table of all.
inline size_t at(int node) {
    return static_cast<size_t>(node);
}

inline int rank() {
    return rwapi_rank();
}
inline int size() {
    return rwapi_size();
}
// Whether the transport is rc_verbs; otherwise it is Tern.
inline bool over_rc_verbs() {
    const char* const name = std::getenv("RWAPI_TLS");
    return name != nullptr && std::strcmp(name, "rc_verbs") == 0;
}

// A small message of the cases: a type, a number, and eight bytes more.
struct Small {
    uint32_t type;
    uint32_t number;
    uint64_t word;
};

void send(int node, const Small& message, rwapi_context* context = nullptr);
// The next message from this node (kAny: from anyone) with this type; others wait for their turn.
// try_receive stores the node and the message, if there is one.
constexpr int kAny = -1;
bool try_receive(uint32_t type, int* node, Small* message, rwapi_context* context = nullptr);
Small receive(int node, uint32_t type, rwapi_context* context = nullptr);
// After it, no process but the first has messages to send, so that it may kill itself.
void barrier(rwapi_context* context = nullptr);

// A context with these parameters, which is destroyed without a check.
class Context {
  public:
    explicit Context(rwapi_params params) {
        params.size = sizeof params;
        CHECK_OK(rwapi_context_create(&params, &context_));
    }
    ~Context() { (void)rwapi_context_destroy(context_); }
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;

    rwapi_context* get() const { return context_; }

  private:
    rwapi_context* context_ = nullptr;
};

// Memory of rwapi_alloc that every process has; `nets` are its addresses.
struct Shared {
    std::byte* memory;
    std::vector<rwapi_net> nets;
};
Shared allocate(size_t bytes);

// Registers memory in a context and gives each process the others' addresses, this one's included.
// Their keys have come.
std::vector<rwapi_net> share(void* memory, size_t bytes, int rights, rwapi_net* mine,
                             rwapi_context* context = nullptr);

// The addresses of all processes, by messages and so without their keys: the first operation with
// one fetches it.
std::vector<rwapi_net> exchange(const rwapi_net& mine, rwapi_context* context = nullptr);

void wait(rwapi_id id, rwapi_context* context = nullptr);
void flush(int node);
// A flush of what has been begun to the node, and its error, which is 0 if there is none.
int flushed(int node);

// Bytes that depend on a seed and their place.
void fill(std::byte* memory, size_t length, uint64_t seed);
bool matches(const std::byte* memory, size_t length, uint64_t seed);

// Random numbers from the seed that the environment's TERN_TEST_SEED gives, or the clock.
class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed) {}
    uint64_t next() {
        uint64_t z = state_ += 0x9e3779b97f4a7c15ull;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ z >> 27) * 0x94d049bb133111ebull;
        return z ^ z >> 31;
    }
    uint64_t below(uint64_t bound) { return next() % bound; }

  private:
    uint64_t state_;
};
uint64_t seed();
// The first process's seed, for all; it is printed.
uint64_t common_seed();

// What a test has found, or its error.
inline int tested(rwapi_context* context, rwapi_id id) {
    int complete = -99;
    const int error = rwapi_test(context, id, &complete);
    return error != 0 ? error : complete;
}
inline int is_set(rwapi_context* context, uint32_t slot, uint64_t* value) {
    int set = -99;
    const int error = rwapi_notify_test(context, slot, &set, value);
    return error != 0 ? error : set;
}

struct Case {
    const char* name;
    void (*run)();
    int full = RWAPI_FULL_WAIT;  // of the context that NULL names
};
extern const std::vector<Case> paper_cases, notify_cases, wrong_cases, error_cases, traffic_cases,
    life_cases, context_cases, polled_cases, list_cases, order_cases, repeat_cases, wait_cases,
    wake_cases;

}  // namespace job
