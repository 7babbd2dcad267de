// SPDX-License-Identifier: BSD-3-Clause
#include "tools/softhca_command/report.h"

#include <algorithm>
#include <cstring>

namespace softhca {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

constexpr struct {
    const char* name;
    std::atomic<uint64_t> Counters::*field;
} kCounters[] = {
    {"messages", &Counters::messages},
    {"bytes", &Counters::bytes},
    {"completions", &Counters::completions},
    {"events", &Counters::events},
    {"rnr_naks", &Counters::rnr_naks},
    {"retransmissions", &Counters::retransmissions},
    {"errors", &Counters::errors},
    {"dropped", &Counters::dropped},
    {"registered_bytes", &Counters::registered_bytes},
};

/// A text in shared memory may lack its end.
template <size_t size>
std::string bounded(const char (&text)[size]) {
    return {text, ::strnlen(text, size)};
}

LatenessReport read_lateness(const Lateness& lateness) {
    LatenessReport report{lateness.count.load(kRelaxed),
                          lateness.late.load(kRelaxed),
                          lateness.total_ns.load(kRelaxed),
                          lateness.max_ns.load(kRelaxed),
                          {}};
    for (size_t i = 0; i < report.histogram.size(); ++i) {
        report.histogram[i] = lateness.histogram[i].load(kRelaxed);
    }
    return report;
}

ProcessReport read_process(const FabricView& fabric, uint32_t slot, const ProcessSlot& process) {
    ProcessReport report;
    report.pid = process.pid.load(kRelaxed);
    report.name = bounded(process.name);
    report.alive = fabric.alive(process);
    report.thread_executor = process.thread_executor != 0;
    report.objects = fabric.count_objects(slot);
    for (const auto& counter : kCounters) {
        report.counters.emplace_back(counter.name,
                                     (process.counters.*counter.field).load(kRelaxed));
    }
    report.lateness = read_lateness(process.lateness);
    return report;
}

}  // namespace

void LatenessReport::add(const LatenessReport& other) {
    count += other.count;
    late += other.late;
    total_ns += other.total_ns;
    max_ns = std::max(max_ns, other.max_ns);
    for (size_t i = 0; i < histogram.size(); ++i) histogram[i] += other.histogram[i];
}

Report make_report(const std::string& name, FabricView* fabric) {
    const FabricHeader& header = fabric->header();
    Report report;
    report.fabric = name;
    report.devices = std::min(header.config.devices, kMaxDevices);
    report.ports_per_device = std::min(header.config.ports, kMaxPorts);
    report.ethernet = header.config.link_layer == LinkLayer::ethernet;
    report.profile = bounded(header.config.profile);
    report.nic = header.config.nic;
    report.faults = describe(header.faults);
    for (uint32_t device = 0; device < report.devices; ++device) {
        for (uint32_t port = 1; port <= report.ports_per_device; ++port) {
            report.ports.push_back({device, port, !port_down(header.faults, device, port)});
        }
    }
    for (uint32_t slot = 0; slot < kMaxProcesses; ++slot) {
        const ProcessSlot& process = header.slots[slot];
        if (process.state.load(std::memory_order_acquire) == SlotState::free) continue;
        report.processes.push_back(read_process(*fabric, slot, process));
    }
    std::ranges::sort(report.processes, {}, &ProcessReport::pid);
    return report;
}

}  // namespace softhca
