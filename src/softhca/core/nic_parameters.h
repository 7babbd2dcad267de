// SPDX-License-Identifier: BSD-3-Clause
// The parameters of the timing model: their names, their values as text, and changes to them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "softhca/core/text.h"

namespace softhca {

// What it costs to register memory, or to deregister it.
struct MemoryCosts {
    uint64_t fixed_ns = 0;
    double bandwidth = 0;  // bytes per ns; 0: infinite

    uint64_t time_ns(uint64_t bytes) const;
};

// What one queue pair adds, which is slower than the port: time between the end of a request and
// the start of the next one, and least time between two starts.
struct QueuePairSpacing {
    uint64_t gap_ns = 0;
    uint64_t write_ns = 0, send_ns = 0, read_ns = 0;
    uint64_t inline_ns = 0;  // of writes and sends of inline data; 0: as of other data
};

// LogP-like parameters. All zero is the ideal NIC, which takes no time.
struct NicParameters {
    uint64_t latency_ns = 0;     // end to end, for the first byte of a write
    double bandwidth = 0;        // bytes per ns (GB/s); 0: infinite
    uint64_t gap_ns = 0;         // between the end of a message and the start of the next one
    uint64_t interval_ns = 0;    // at least, between the starts of two messages on a link
    uint64_t completion_ns = 0;  // from data visible in memory to its completion visible
    MemoryCosts registration = {};
    MemoryCosts deregistration = {};
    uint64_t send_ns = 0;         // what the receiver's completion of a send takes in addition
    uint64_t read_ns = 0;         // round trip of a read of no bytes; 0: twice the latency
    uint64_t atomic_ns = 0;       // round trip of an atomic; 0: as a read
    uint64_t gather_ns = 0;       // to fetch data that is not inline
    double inline_bandwidth = 0;  // of inline data on its way to the NIC; 0: infinite
    // At which the bytes of the first packet arrive, which is stored before it is forwarded; 0: the
    // bandwidth.
    double packet_bandwidth = 0;
    QueuePairSpacing queue_pair = {};
    uint64_t read_interval_ns = 0;    // interval of reads at the responder; 0: interval_ns
    uint64_t atomic_interval_ns = 0;  // interval of atomics at the responder; 0: interval_ns
    // How long a message that takes a receive occupies the receiver's port in addition.
    uint64_t receive_interval_ns = 0;

    // Whether anything takes time.
    bool models_time() const;
};

// The parameters in the syntax of apply_model_overrides(): "latency=2.3us,bandwidth=2,...". Leaves
// out those that are 0, except for the first seven.
std::string describe(const NicParameters& nic);
// "latency, bandwidth, ..."
std::string parameter_names();
// The value of a parameter as JSON has it: ns, or GB/s.
struct ParameterValue {
    std::string name;  // "latency_ns", "bandwidth_gb_per_s"
    double value;
    bool is_time;
};
std::vector<ParameterValue> parameter_values(const NicParameters& nic);

// The group of a parameter; "" if it belongs to none. The figures of a group are of one host: a
// quotient of figures of two hosts says nothing of an adapter.
std::string_view group_of(std::string_view parameter);
// Sets one parameter: a time (us, or with suffix ns, us, ms, s) or a bandwidth (GB/s). On error,
// returns a text that names the choices.
std::optional<std::string> set_parameter(const ListEntry& entry, NicParameters& nic);
// Sets those of a comma list of key=value. On error, leaves `nic` as it was.
std::optional<std::string> apply_model_overrides(std::string_view list, NicParameters& nic);
// The NIC, `factor` times as slow.
NicParameters slowed(const NicParameters& nic, uint64_t factor);

}  // namespace softhca
