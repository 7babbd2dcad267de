// SPDX-License-Identifier: BSD-3-Clause
// What the processes of a job have recorded for `tern-run --explain` (src/tern/loader/record.h),
// and why Tern was asked for and not used, by these records.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tern {

// A connection, as one of its sides saw it.
struct PeerRecord {
    std::string device;
    std::string peer;     // identity of the interface
    std::string address;  // of the peer, as in the log
    uint64_t requests = 0;
    bool hot = false;           // it wrote short messages into blocks
    bool polls_memory = false;  // the device promises the order of bytes
    // Long messages received from the peer.
    uint64_t staged = 0;
    uint64_t placed = 0;
    uint64_t read = 0;
    uint64_t bytes = 0;
};

struct UnusedRecord {
    std::string what;
    std::string why;
    std::string remedy;
};

struct ProcessRecord {
    std::string name() const;

    std::string host;
    uint64_t pid = 0;
    std::optional<unsigned> rank;
    bool by_pmi = false;  // the rank is MPICH's
    std::string program;
    std::string misfit;    // why the library does not fit the process's UCX
    bool queried = false;  // UCX has asked for devices
    uint64_t devices = 0;
    std::string transports;   // UCX_TLS
    std::string net_devices;  // UCX_NET_DEVICES
    std::vector<UnusedRecord> unused;
    std::vector<std::string> interfaces;  // identities
    std::vector<std::string> lanes;       // what UCX has chosen, once for each kind of peer
    uint64_t closed = 0;                  // interfaces that have written their counters
    std::vector<PeerRecord> peers;
    std::map<std::string, uint64_t> counters;  // sums over the interfaces; of "most", the largest
    std::map<std::string, uint64_t> reasons;   // of decisions about long messages
};

// The processes that have records in the folder, ranks first and in order. Lines that are not whole
// are left out.
std::vector<ProcessRecord> read_records(const std::string& folder);

struct NotUsed {
    std::string who;  // "ranks 0-3", for example; empty: all
    std::string why;
    std::string remedy;
};

// `plug_in`: see Transport. `status`: of the command. Empty if Tern was used by all processes that
// could.
std::vector<NotUsed> find_unused(const std::vector<ProcessRecord>& processes, bool plug_in,
                                 int status);

// "ranks 0-3, 7", for example.
std::string names_of(const std::vector<const ProcessRecord*>& processes);

}  // namespace tern
