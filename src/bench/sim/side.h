// SPDX-License-Identifier: BSD-3-Clause
// Two sides that exchange messages in one of several ways: what the benchmarks of notified writes
// compare.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <coroutine>
#include <cstdint>
#include <memory>

#include "bench/measure/clock.h"
#include "bench/measure/mark.h"
#include "bench/sim/benchmarks.h"
#include "bench/sim/machine.h"

namespace bench::sim {

// Messages of a size, in both directions: what one side has to do.
struct Task {
    Way way;
    uint32_t size;
    uint32_t sends;
    uint32_t receives;
    uint32_t at_once;  // tagged messages: sends, or receives that are posted
};

class Side {
  public:
    // Bytes of the memory for the messages of one direction.
    static constexpr uint64_t kRoom = uint64_t{8} << 20;
    static constexpr uint64_t kPlaces = 64;  // of a burst
    // From one place to the next. A word may be behind the message.
    static constexpr uint64_t stride_of(uint32_t size) {
        return (size + 2 * kWord - 1) / kWord * kWord;
    }

    explicit Side(Machine& machine) : machine_(machine) {}
    Side(const Side&) = delete;
    Side& operator=(const Side&) = delete;
    virtual ~Side() = default;

    // Before the messages of a task, when nothing is on its way.
    void begin(const Task& task);
    // Begins the next message. False: not now, call it again after a poll.
    bool send() { return counted(begin_send()); }
    // Prepares for messages that may come.
    virtual void expect() {}
    // Whether the next so many messages have come. Then they are taken.
    bool receive(uint32_t messages);
    // Whether all that was sent has arrived.
    virtual bool settled() { return true; }

    // Ends a step of the program with a poll.
    std::suspend_always step() {
        poll();
        return {};
    }
    // Ends a step without a poll. A call may look at what the other side has done until now, which
    // must have had its turn.
    static std::suspend_always turn() { return {}; }
    uint64_t now() const { return machine_.now(); }
    // Counts what it has done, polls that found nothing apart.
    uint64_t done() const { return done_; }

  protected:
    // A look at a word in memory, in instructions.
    static constexpr double kLook = 6;

    void spend(double instructions) { machine_.spend(ns_of(instructions)); }
    bool counted(bool done) {
        if (done) ++done_;
        return done;
    }
    // Where a message is in the memory of its direction. A message may be on its way while the one
    // before is looked at. Of a burst, many are on their way, so that only the last one can be
    // recognised, which has a place of its own.
    uint64_t place(uint64_t number) const {
        const uint64_t stride = stride_of(task_.size);
        if (task_.at_once == 1) return number % 2 * stride;
        const uint64_t places = std::min(kPlaces, kRoom / stride - 1);
        return (is_recognised(number) ? places : number % places) * stride;
    }
    bool is_recognised(uint64_t number) const { return task_.at_once == 1 || number == last_; }
    void mark(uint64_t number) {
        if (is_recognised(number)) tail(out(), number).store(number);
    }
    // Whether the message is there, by its end.
    bool is_there(uint64_t number) { return tail(in(), number).has(number); }
    const Task& task() const { return task_; }
    uint64_t first_to_come() const { return taken_; }
    virtual char* out() = 0;
    virtual char* in() = 0;
    virtual void prepare() {}
    virtual bool begin_send() = 0;
    // Whether all messages below number `end` have come.
    virtual bool has_come(uint64_t end) = 0;
    virtual void poll() = 0;

    Machine& machine_;
    uint64_t sent_ = 1;  // number of the message that is sent next

  private:
    // The last bytes of the message, which show its number.
    Tail tail(char* memory, uint64_t number) const { return {memory + place(number), task_.size}; }

    Task task_ = {};
    uint64_t last_ = 0;   // the number of the last message, in either direction
    uint64_t taken_ = 1;  // of the one that is waited for
    uint64_t done_ = 0;
};

// Memory that the device copies from and into directly, of which pages that nobody writes to take
// none. It is never given back.
inline char* shared_memory(uint64_t bytes) {
    void* const memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw call_failed("mmap");
    return static_cast<char*>(memory);
}

using Sides = std::array<std::unique_ptr<Side>, 2>;
// Of RDMA writes and sends; of rwapi; of UCP, by a transport.
Sides verbs_sides(Machine& machine);
Sides rwapi_sides(Machine& machine);
Sides ucp_sides(Machine& machine, const TransportCosts& costs);

}  // namespace bench::sim
