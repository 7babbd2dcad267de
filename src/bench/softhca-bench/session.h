// SPDX-License-Identifier: BSD-3-Clause
// What a section of the benchmark works with.
#pragma once

#include <string>

#include "bench/measure/device.h"
#include "bench/measure/memory.h"
#include "bench/measure/peer.h"
#include "bench/softhca-bench/options.h"
#include "bench/softhca-bench/row.h"

namespace softhca::bench {

/// Where rows go.
class RowSink {
  public:
    virtual ~RowSink() = default;
    virtual void put(const Row& row) = 0;
};

struct Session {
    const Options& options;
    std::string title;  ///< of the section
    Peer& peer;
    Device& device;
    Memory& shared;  ///< common to both processes, each has a half
    RowSink& rows;

    /// This process's half.
    char* shared_half() { return shared.data() + (peer.measures() ? 0 : shared.size() / 2); }
    /// Hands a row over; does nothing in the process that answers.
    void report(Row row) {
        if (!peer.measures()) return;
        set_text(row.section, sizeof row.section, title);
        set_text(row.device, sizeof row.device, device.name());
        rows.put(row);
    }
};

constexpr size_t kMemory = size_t{8} << 20;  ///< of a link: half of it for either direction

// The sections. Both processes call them at the same time.
void measure_small_messages(Session& session);
void measure_bandwidth(Session& session);
void measure_model(Session& session);

}  // namespace softhca::bench
