// SPDX-License-Identifier: BSD-3-Clause
// Functions of libibverbs that fail or wait when a test wants it: this program defines them, and
// they call those of the library.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tern::test {

enum class Verb : uint8_t {
    kCreateQp,
    kCreateCq,
    kCreateSrq,
    kCreateAh,
    kModifyQp,
    kRegMr,
    // After watch_posts():
    kPostSend,
    kPostRecv,
    kPostSrqRecv,
};
constexpr unsigned kVerbs = 9;
// For instances of tests: "CreateQp".
std::string verb_name(const testing::TestParamInfo<Verb>& verb);

// While it exists, calls of `verb` fail with `error`: the n-th (from 1) and those after it, `times`
// in all.
class VerbsFault {
  public:
    VerbsFault(Verb verb, unsigned nth, int error, unsigned times = 1);
    ~VerbsFault();
    VerbsFault(const VerbsFault&) = delete;
    VerbsFault& operator=(const VerbsFault&) = delete;

    // Calls so far.
    unsigned calls() const;

  private:
    Verb verb_;
};

// While it exists, `before` is called before each address handle is made, by any thread, and may
// wait. An errno value makes the call fail.
class AddressHandleHook {
  public:
    explicit AddressHandleHook(std::function<int(const ibv_ah_attr&)> before);
    ~AddressHandleHook();
    AddressHandleHook(const AddressHandleHook&) = delete;
    AddressHandleHook& operator=(const AddressHandleHook&) = delete;
};

// While it exists, the device has these limits: a queue pair that asks for more inline data is
// refused, and a completion queue cannot be resized.
class PoorDevice {
  public:
    explicit PoorDevice(uint32_t max_inline, bool resizes = true);
    ~PoorDevice();
    PoorDevice(const PoorDevice&) = delete;
    PoorDevice& operator=(const PoorDevice&) = delete;
};

// While it exists, the device refuses with `error` to make a queue pair whose creator names the
// operations that it will send.
class NoOperationLists {
  public:
    explicit NoOperationLists(int error);
    ~NoOperationLists();
    NoOperationLists(const NoOperationLists&) = delete;
    NoOperationLists& operator=(const NoOperationLists&) = delete;
};

// While it exists, each completion queue serves so many reliable queue pairs at most, as if each
// interface had a device of its own.
class QueuePairLimit {
  public:
    explicit QueuePairLimit(unsigned most);
    ~QueuePairLimit();
    QueuePairLimit(const QueuePairLimit&) = delete;
    QueuePairLimit& operator=(const QueuePairLimit&) = delete;

    // Calls that were refused.
    unsigned refused() const;
};

// While it exists, the device never reports IBV_EVENT_QP_LAST_WQE_REACHED.
class NoLastReceive {
  public:
    NoLastReceive();
    ~NoLastReceive();
    NoLastReceive(const NoLastReceive&) = delete;
    NoLastReceive& operator=(const NoLastReceive&) = delete;
};

// While it exists, the registrations of memory that succeed are listed.
class RegistrationList {
  public:
    struct Entry {
        const void* address;
        size_t length;
        unsigned access;
    };
    RegistrationList();
    ~RegistrationList();
    RegistrationList(const RegistrationList&) = delete;
    RegistrationList& operator=(const RegistrationList&) = delete;

    static std::vector<Entry> entries();
};

// Queue pairs of the program that exist, XRC apart.
int queue_pairs();

// Has the calls of ibv_post_send(), ibv_post_recv() and ibv_post_srq_recv() on this context
// counted, from now on.
void watch_posts(ibv_context* context);

// The next call of ibv_get_async_event(), on any context, returns this event of a completion queue,
// shared receive queue or queue pair with this context (verbs::next_identity()).
void raise_event(ibv_event_type type, const void* identity, uint32_t qp_num = 0);
// Whether that call is still to come.
bool event_waits();

// The context of the completion queue that was made last.
const void* last_completion_queue();

// The datagram queue pair that was made last.
ibv_qp* last_datagram_qp();

}  // namespace tern::test
