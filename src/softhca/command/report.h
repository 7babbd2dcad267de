// SPDX-License-Identifier: BSD-3-Clause
// The contents of `softhca status`, read once and printed as text or as JSON.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "softhca/inspect/fabric_view.h"

namespace softhca {

struct LatenessReport {
    uint64_t count = 0;
    uint64_t late = 0;
    uint64_t total_ns = 0;  // of late operations
    uint64_t max_ns = 0;
    std::array<uint64_t, Lateness::kBuckets> histogram = {};

    void add(const LatenessReport& other);
};

// Of the device's queues: now, and at most so far. By QueueUsage::Kind.
struct QueueReport {
    QueueAmounts live = {};
    QueueAmounts peak = {};
};

struct ProcessReport {
    int32_t pid = 0;
    std::string name;
    bool alive = false;
    bool thread_executor = false;
    ObjectCounts objects;
    QueueReport queues;
    std::vector<std::pair<const char*, uint64_t>> counters;  // the name and value of each
    LatenessReport lateness;
};

struct PortReport {
    uint32_t device;
    uint32_t port;
    bool up;
};

struct Report {
    std::string fabric;
    uint32_t devices = 0;
    uint32_t ports_per_device = 0;
    bool ethernet = false;
    std::string personality;
    std::string profile;
    NicParameters nic = {};
    std::string faults;
    std::vector<PortReport> ports;
    std::string queue_driver;
    QueueReport queues;  // of all processes that live; at most at one time
    std::vector<ProcessReport> processes;
};

Report make_report(const std::string& name, FabricView* fabric);
std::string as_text(const Report& report);
std::string as_json(const Report& report);

}  // namespace softhca
