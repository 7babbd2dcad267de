// SPDX-License-Identifier: BSD-3-Clause
// Faults on demand: what is to go wrong, as text and as plain data of atomics in shared memory, so
// that it can be changed while programs run. Zeroed means no fault.
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

    std::atomic<uint64_t> reg_fail;  ///< the so-manieth registration from now fails; 0 = none
    std::atomic<uint64_t> rnr;       ///< so many receives find no buffer
    std::atomic<uint64_t>
        delay_completions_ns;                ///< added to the time at which a completion is visible
    std::atomic<uint64_t> segment_bytes;     ///< placement in pieces of so many bytes; 0 = off
    std::atomic<uint64_t> segment_pause_ns;  ///< pause between two pieces
    std::atomic<uint32_t>
        drop_qp;  ///< number of the queue pair whose transfers vanish; kAnyQp = the next used
    std::atomic<uint32_t> ports_down;    ///< bit device * kMaxPorts + port - 1
    std::atomic<uint32_t> out_of_order;  ///< pieces of a message are placed in another order
    std::atomic<uint32_t>
        stale_cq;  ///< a completion of a shared receive queue that is gone fails the poll
    std::atomic<uint32_t> device_fatal;  ///< devices have failed: queues cannot be polled
};

/// Applies a comma list of faults; what the list does not name stays as it is. Returns an error
/// text naming the choices, and then changes nothing.
std::optional<std::string> apply_faults(std::string_view list, Faults& faults);

/// The faults in force, in the syntax of apply_faults; "none" if there is none.
std::string describe(const Faults& faults);

/// Lines of "syntax<tab>meaning" for help texts.
std::string faults_help();

/// Counts a registration; true if it is the one to fail.
bool take_registration_failure(Faults& faults);
/// True if a receive is to find no buffer; each true uses up one of the count.
bool take_rnr(Faults& faults);
/// True if transfers of this queue pair vanish. "The next one used" becomes this one.
bool qp_dropped(Faults& faults, uint32_t qpn);
/// `device` counts from 0, `port` from 1.
bool port_down(const Faults& faults, unsigned device, unsigned port);

}  // namespace softhca
