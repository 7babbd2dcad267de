// SPDX-License-Identifier: BSD-3-Clause
// Fault injection: parses faults and holds them as atomics in shared memory, so that they can
// change while programs run. All zero means no fault.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace softhca {

struct Faults {
    static constexpr uint32_t kAnyQp = 0xffffffffu;
    static constexpr unsigned kMaxDevices = 16;
    static constexpr unsigned kMaxPorts = 2;

    std::atomic<uint64_t> reg_fail;     // the N-th registration from now fails; 0: none
    std::atomic<uint64_t> create_fail;  // likewise, of a queue or an address handle
    std::atomic<uint64_t> post_fail;    // likewise, a post
    std::atomic<uint64_t> rnr;          // the next N messages find no receive
    // added to the time at which a completion becomes visible
    std::atomic<uint64_t> delay_completions_ns;
    std::atomic<uint64_t> segment_bytes;     // bytes of a piece in which data is placed; 0: off
    std::atomic<uint64_t> segment_pause_ns;  // pause between two pieces
    // number of the queue pair whose transfers vanish; kAnyQp: the next one used
    std::atomic<uint64_t> drop_qp;
    std::atomic<uint64_t> ports_down;    // bit device * kMaxPorts + port - 1
    std::atomic<uint64_t> out_of_order;  // the pieces of a message are placed in another order
    std::atomic<uint64_t> swap_writes;   // a write is placed before the one that it follows
    std::atomic<uint64_t> replay_write;  // the N-th write from now is placed again; 0: none
    std::atomic<uint64_t> stale_cq;      // completions of a destroyed SRQ fail the poll
    std::atomic<uint64_t> device_fatal;  // devices have failed; polls fail
    std::atomic<uint64_t> lose;          // one of N datagrams on average vanishes; 0: none
    std::atomic<uint64_t> datagrams;     // sent while `lose` was in force
};

// Applies a comma list of faults; faults that the list does not name stay as they are. On a syntax
// error, returns a text that names the choices, and changes nothing.
std::optional<std::string> apply_faults(std::string_view list, Faults& faults);

// The faults in force, in the syntax of apply_faults(); "none" if there is none.
std::string describe(const Faults& faults);

// A line for each fault, for help texts.
std::string faults_help();

// Counts a registration, a creation or a post by the fault of that kind, and returns whether it
// must fail.
bool take_failure(std::atomic<uint64_t>& fault);
// Whether a message must find no receive; each true uses up one of the count.
bool take_rnr(Faults& faults);
// Counts a datagram, and returns whether it vanishes: which ones do is the same each time, without
// a pattern that a program could repeat.
bool take_loss(Faults& faults);
// Whether transfers of this queue pair vanish. If the fault is for the next queue pair used, this
// one becomes it.
bool qp_dropped(Faults& faults, uint32_t qpn);
// `device` counts from 0, `port` from 1.
bool port_down(const Faults& faults, unsigned device, unsigned port);

}  // namespace softhca
