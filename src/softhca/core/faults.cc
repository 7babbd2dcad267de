// SPDX-License-Identifier: BSD-3-Clause
#include "faults.h"

#include <algorithm>
#include <functional>
#include <type_traits>

#include "text.h"

namespace softhca {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr uint32_t kMaxQpn = 0xffffff;

static_assert(Faults::kMaxDevices * Faults::kMaxPorts <= 32, "ports_down has one bit per port");
static_assert(std::is_standard_layout_v<Faults> && std::atomic<uint64_t>::is_always_lock_free);

using Field = std::atomic<uint64_t> Faults::*;
using Value = std::optional<uint64_t>;

// What lists of faults set; a pause before what it is for.
constexpr Field kFields[] = {&Faults::reg_fail,
                             &Faults::create_fail,
                             &Faults::post_fail,
                             &Faults::rnr,
                             &Faults::segment_pause_ns,
                             &Faults::segment_bytes,
                             &Faults::drop_qp,
                             &Faults::ports_down,
                             &Faults::out_of_order,
                             &Faults::swap_writes,
                             &Faults::replay_write,
                             &Faults::stale_cq,
                             &Faults::device_fatal,
                             &Faults::lose,
                             &Faults::delay_completions_ns};

// Copies the values that differ from those `before`: a count that another process uses up meanwhile
// stays used up.
void copy_changed(const Faults& before, const Faults& from, Faults& to) {
    for (const Field field : kFields) {
        const uint64_t value = (from.*field).load(kRelaxed);
        if (value != (before.*field).load(kRelaxed)) (to.*field).store(value, kRelaxed);
    }
}

Value parse_qpn(std::string_view text) {
    if (text == "any") return Faults::kAnyQp;
    if (text == "none") return 0;
    const auto number = parse_number(text);
    if (!number || *number > kMaxQpn) return std::nullopt;
    return number;
}

constexpr uint32_t port_bit(unsigned device, unsigned port) {
    return 1u << (device * Faults::kMaxPorts + port - 1);
}

// Parses DEVICE:PORT, where DEVICE is a number or a name; without a value, all ports.
Value parse_ports(const ListEntry& entry) {
    constexpr std::string_view kDeviceName = "softhca";
    if (!entry.has_value) return UINT32_MAX;
    const size_t colon = entry.value.find(':');
    if (colon == std::string_view::npos) return std::nullopt;
    std::string_view name = entry.value.substr(0, colon);
    if (name.starts_with(kDeviceName)) name.remove_prefix(kDeviceName.size());
    const auto device = parse_number(name);
    const auto port = parse_number(entry.value.substr(colon + 1));
    if (!device || !port || *device >= Faults::kMaxDevices || *port < 1 ||
        *port > Faults::kMaxPorts)
        return std::nullopt;
    return port_bit(static_cast<unsigned>(*device), static_cast<unsigned>(*port));
}

bool set_segment(Faults& faults, const ListEntry& entry) {
    const size_t colon = entry.value.find(':');
    if (colon == std::string_view::npos) return false;
    const Value bytes = parse_bytes(entry.value.substr(0, colon));
    const Value pause = parse_time_ns(entry.value.substr(colon + 1));
    if (!bytes || !pause) return false;
    faults.segment_bytes = *bytes;
    faults.segment_pause_ns = *pause;
    return true;
}

bool set_port_down(Faults& faults, const ListEntry& entry) {
    const Value ports = parse_ports(entry);
    faults.ports_down |= ports.value_or(0);
    return ports.has_value();
}

bool set_port_up(Faults& faults, const ListEntry& entry) {
    const Value ports = parse_ports(entry);
    faults.ports_down &= ~ports.value_or(0);
    return ports.has_value();
}

bool end_all(Faults& faults, const ListEntry&) {
    for (const Field field : kFields) (faults.*field).store(0, kRelaxed);
    return true;
}

std::string number_text(uint64_t value) {
    return std::to_string(value);
}

std::string qpn_text(uint64_t number) {
    return number == Faults::kAnyQp ? "any" : std::to_string(number);
}

// A fault is one value, which `parse` reads and `text` writes, or 1 without these; or it has
// functions of its own.
struct Syntax {
    const char* syntax;  // begins with the key
    const char* meaning;
    Field field = nullptr;
    Value (*parse)(std::string_view) = nullptr;
    std::string (*text)(uint64_t) = nullptr;
    bool (*set)(Faults&, const ListEntry&) = nullptr;

    std::string_view key() const {
        const std::string_view whole = syntax;
        return whole.substr(0, whole.find_first_of("[="));
    }
    bool fits(const ListEntry& entry) const {
        const char after = syntax[key().size()];
        return after == '[' || entry.has_value == (after == '=');
    }
    bool apply(const ListEntry& entry, Faults& faults) const {
        if (!fits(entry)) return false;
        if (set != nullptr) return set(faults, entry);
        const Value value = parse == nullptr ? 1 : parse(entry.value);
        if (value) (faults.*field).store(*value, kRelaxed);
        return value.has_value();
    }
};

constexpr Syntax kSyntax[] = {
    {"reg-fail=N", "the N-th memory registration from now fails with ENOMEM; 0: none",
     &Faults::reg_fail, parse_number, number_text},
    {"create-fail=N",
     "the N-th creation of a queue or an address handle from now fails with ENOMEM; 0: none",
     &Faults::create_fail, parse_number, number_text},
    {"post-fail=N", "the N-th post of sends or receives from now fails as if the queue was full",
     &Faults::post_fail, parse_number, number_text},
    {"drop-qp=QPN", "the transfers of this queue pair vanish; any: of the next one used; none",
     &Faults::drop_qp, parse_qpn, qpn_text},
    {"delay-completions=TIME", "completions become visible later (us, or ns, ms, s)",
     &Faults::delay_completions_ns, parse_time_ns, time_text},
    {"rnr=N", "the next N messages find no receive buffer", &Faults::rnr, parse_number,
     number_text},
    {"lose=N", "one of N datagrams vanishes, on average; 0: none", &Faults::lose, parse_number,
     number_text},
    {.syntax = "port-down[=DEVICE:PORT]",
     .meaning = "a port goes down; all ports without a value",
     .set = set_port_down},
    {.syntax = "port-up[=DEVICE:PORT]",
     .meaning = "a port comes up again; all ports without a value",
     .set = set_port_up},
    {.syntax = "segment=BYTES:PAUSE",
     .meaning = "data is placed in pieces with a pause between; 0:0 ends it",
     .set = set_segment},
    {"out-of-order", "the pieces of a message are placed in another order", &Faults::out_of_order},
    {"swap-writes",
     "of two RDMA writes without immediate data, one behind the other, the second is placed first",
     &Faults::swap_writes},
    {"replay-write=N",
     "the N-th such write from now is placed once more, behind the next request; 0: none",
     &Faults::replay_write, parse_number, number_text},
    {"stale-cq", "a completion of a shared receive queue that is gone fails the poll",
     &Faults::stale_cq},
    {"device-fatal",
     "devices fail: their completion queues cannot be polled, and programs are told",
     &Faults::device_fatal},
    {.syntax = "none", .meaning = "ends all faults", .set = end_all},
};

std::optional<std::string> apply_fault(const ListEntry& entry, Faults& faults) {
    for (const Syntax& fault : kSyntax) {
        if (entry.key != fault.key()) continue;
        if (fault.apply(entry, faults)) return std::nullopt;
        std::string text(entry.key);
        if (entry.has_value) text.append("=").append(entry.value);
        return "'" + text + "' is not of the form " + fault.syntax + " (" + fault.meaning + ")";
    }
    return "unknown fault '" + std::string(entry.key) + "'; choose from " +
           joined(kSyntax, &Syntax::syntax);
}

void describe_ports(uint64_t down, const std::function<void(const std::string&)>& add) {
    if (down == UINT32_MAX) return add("port-down");
    for (unsigned device = 0; device < Faults::kMaxDevices; ++device) {
        for (unsigned port = 1; port <= Faults::kMaxPorts; ++port)
            if (down & port_bit(device, port))
                add("port-down=softhca" + std::to_string(device) + ":" + std::to_string(port));
    }
}

// Decrements a count unless it is 0; returns the value before.
uint64_t count_down(std::atomic<uint64_t>& count) {
    uint64_t value = count.load(kRelaxed);
    while (value != 0 && !count.compare_exchange_weak(value, value - 1, kRelaxed)) {
    }
    return value;
}

}  // namespace

std::optional<std::string> apply_faults(std::string_view list, Faults& faults) {
    const Faults none = {};
    Faults before = {};
    copy_changed(none, faults, before);
    Faults after = {};
    copy_changed(none, before, after);
    auto error =
        for_each_entry(list, [&](const ListEntry& entry) { return apply_fault(entry, after); });
    if (!error) copy_changed(before, after, faults);
    return error;
}

std::string describe(const Faults& faults) {
    std::string text;
    const auto add = [&](const std::string& entry) { text += (text.empty() ? "" : ",") + entry; };
    for (const Syntax& fault : kSyntax) {
        if (fault.set == set_port_down) describe_ports(faults.ports_down, add);
        if (const uint64_t bytes = faults.segment_bytes; fault.set == set_segment && bytes != 0)
            add("segment=" + std::to_string(bytes) + ":" + time_text(faults.segment_pause_ns));
        const uint64_t value = fault.field == nullptr ? 0 : (faults.*fault.field).load(kRelaxed);
        if (value == 0) continue;
        const std::string key(fault.key());
        add(fault.text == nullptr ? key : key + "=" + fault.text(value));
    }
    return text.empty() ? "none" : text;
}

std::string faults_help() {
    constexpr size_t kWidth = 26;
    std::string text;
    for (const Syntax& fault : kSyntax) {
        std::string syntax = fault.syntax;
        syntax.resize(std::max(syntax.size(), kWidth), ' ');
        text.append("  ").append(syntax).append(" ").append(fault.meaning).append("\n");
    }
    return text;
}

bool take_failure(std::atomic<uint64_t>& fault) {
    return count_down(fault) == 1;
}

bool take_rnr(Faults& faults) {
    return count_down(faults.rnr) != 0;
}

bool take_loss(Faults& faults) {
    const uint64_t one_of = faults.lose.load(kRelaxed);
    if (one_of == 0) [[likely]]
        return false;
    // SplitMix64
    uint64_t mixed = (faults.datagrams.fetch_add(1, kRelaxed) + 1) * 0x9e3779b97f4a7c15;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    return (mixed ^ mixed >> 31) % one_of == 0;
}

bool qp_dropped(Faults& faults, uint32_t qpn) {
    uint64_t dropped = faults.drop_qp.load(kRelaxed);
    if (dropped == Faults::kAnyQp && faults.drop_qp.compare_exchange_strong(dropped, qpn, kRelaxed))
        return true;
    return dropped != 0 && dropped == qpn;
}

bool port_down(const Faults& faults, unsigned device, unsigned port) {
    if (device >= Faults::kMaxDevices || port < 1 || port > Faults::kMaxPorts) return false;
    return (faults.ports_down.load(kRelaxed) & port_bit(device, port)) != 0;
}

}  // namespace softhca
