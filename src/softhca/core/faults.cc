// SPDX-License-Identifier: BSD-3-Clause
#include "faults.h"

#include <functional>
#include <type_traits>

#include "text.h"

namespace softhca {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr uint32_t kMaxQpn = 0xffffff;

static_assert(Faults::kMaxDevices * Faults::kMaxPorts <= 32, "ports_down has one bit per port");
static_assert(std::is_standard_layout_v<Faults> && std::atomic<uint64_t>::is_always_lock_free);

// A copy of the values of Faults, so that a list of faults applies as a whole or not at all.
struct Values {
    uint64_t reg_fail = 0, create_fail = 0, post_fail = 0, rnr = 0, delay_completions_ns = 0,
             segment_bytes = 0, segment_pause_ns = 0, lose = 0;
    uint32_t drop_qp = 0, ports_down = 0, out_of_order = 0, stale_cq = 0, device_fatal = 0;
};

Values load(const Faults& faults) {
    return {faults.reg_fail.load(kRelaxed),
            faults.create_fail.load(kRelaxed),
            faults.post_fail.load(kRelaxed),
            faults.rnr.load(kRelaxed),
            faults.delay_completions_ns.load(kRelaxed),
            faults.segment_bytes.load(kRelaxed),
            faults.segment_pause_ns.load(kRelaxed),
            faults.lose.load(kRelaxed),
            faults.drop_qp.load(kRelaxed),
            faults.ports_down.load(kRelaxed),
            faults.out_of_order.load(kRelaxed),
            faults.stale_cq.load(kRelaxed),
            faults.device_fatal.load(kRelaxed)};
}

// Stores only values that the list changed: a count that another process uses up meanwhile stays
// used up.
template <typename Number>
void store_changed(std::atomic<Number>& target, Number before, Number after) {
    if (before != after) target.store(after, kRelaxed);
}

void store(Faults& faults, const Values& before, const Values& after) {
    store_changed(faults.reg_fail, before.reg_fail, after.reg_fail);
    store_changed(faults.create_fail, before.create_fail, after.create_fail);
    store_changed(faults.post_fail, before.post_fail, after.post_fail);
    store_changed(faults.rnr, before.rnr, after.rnr);
    store_changed(faults.delay_completions_ns, before.delay_completions_ns,
                  after.delay_completions_ns);
    store_changed(faults.segment_pause_ns, before.segment_pause_ns, after.segment_pause_ns);
    store_changed(faults.segment_bytes, before.segment_bytes, after.segment_bytes);
    store_changed(faults.lose, before.lose, after.lose);
    store_changed(faults.drop_qp, before.drop_qp, after.drop_qp);
    store_changed(faults.ports_down, before.ports_down, after.ports_down);
    store_changed(faults.out_of_order, before.out_of_order, after.out_of_order);
    store_changed(faults.stale_cq, before.stale_cq, after.stale_cq);
    store_changed(faults.device_fatal, before.device_fatal, after.device_fatal);
}

std::optional<uint32_t> parse_qpn(std::string_view text) {
    if (text == "any") return Faults::kAnyQp;
    if (text == "none") return 0;
    const auto number = parse_number(text);
    if (!number || *number > kMaxQpn) return std::nullopt;
    return static_cast<uint32_t>(*number);
}

constexpr uint32_t port_bit(unsigned device, unsigned port) {
    return 1u << (device * Faults::kMaxPorts + port - 1);
}

// Parses DEVICE:PORT, where DEVICE is a number or a name; without a value, all ports.
std::optional<uint32_t> parse_ports(const ListEntry& entry) {
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

template <typename Number, typename Value>
bool assign(Number& target, const std::optional<Value>& value) {
    if (value) target = *value;
    return value.has_value();
}

bool set_count(Values& values, const ListEntry& entry, uint64_t Values::*field) {
    return assign(values.*field, parse_number(entry.value));
}

bool set_segment(Values& values, const ListEntry& entry) {
    const size_t colon = entry.value.find(':');
    if (colon == std::string_view::npos) return false;
    const auto bytes = parse_bytes(entry.value.substr(0, colon));
    const auto pause = parse_time_ns(entry.value.substr(colon + 1));
    return assign(values.segment_bytes, bytes) && assign(values.segment_pause_ns, pause);
}

bool set_port_down(Values& values, const ListEntry& entry) {
    const auto ports = parse_ports(entry);
    values.ports_down |= ports.value_or(0);
    return ports.has_value();
}

bool set_port_up(Values& values, const ListEntry& entry) {
    const auto ports = parse_ports(entry);
    values.ports_down &= ~ports.value_or(0);
    return ports.has_value();
}

enum class Argument { kNone, kRequired, kOptional };

struct Syntax {
    std::string_view key;
    Argument argument;
    const char* syntax;
    const char* meaning;
    bool (*set)(Values& values, const ListEntry& entry);
};

constexpr Syntax kSyntax[] = {
    {"reg-fail", Argument::kRequired, "reg-fail=N",
     "the N-th memory registration from now fails with ENOMEM; 0: none",
     [](Values& values, const ListEntry& entry) {
         return set_count(values, entry, &Values::reg_fail);
     }},
    {"create-fail", Argument::kRequired, "create-fail=N",
     "the N-th creation of a queue or an address handle from now fails with ENOMEM; 0: none",
     [](Values& values, const ListEntry& entry) {
         return set_count(values, entry, &Values::create_fail);
     }},
    {"post-fail", Argument::kRequired, "post-fail=N",
     "the N-th post of sends or receives from now fails as if the queue was full",
     [](Values& values, const ListEntry& entry) {
         return set_count(values, entry, &Values::post_fail);
     }},
    {"drop-qp", Argument::kRequired, "drop-qp=QPN",
     "the transfers of this queue pair vanish; any: of the next one used; none",
     [](Values& values, const ListEntry& entry) {
         return assign(values.drop_qp, parse_qpn(entry.value));
     }},
    {"delay-completions", Argument::kRequired, "delay-completions=TIME",
     "completions become visible later (us, or ns, ms, s)",
     [](Values& values, const ListEntry& entry) {
         return assign(values.delay_completions_ns, parse_time_ns(entry.value));
     }},
    {"rnr", Argument::kRequired, "rnr=N", "the next N messages find no receive buffer",
     [](Values& values, const ListEntry& entry) { return set_count(values, entry, &Values::rnr); }},
    {"lose", Argument::kRequired, "lose=N", "one of N datagrams vanishes, on average; 0: none",
     [](Values& values, const ListEntry& entry) {
         return set_count(values, entry, &Values::lose);
     }},
    {"port-down", Argument::kOptional, "port-down[=DEVICE:PORT]",
     "a port goes down; all ports without a value", set_port_down},
    {"port-up", Argument::kOptional, "port-up[=DEVICE:PORT]",
     "a port comes up again; all ports without a value", set_port_up},
    {"segment", Argument::kRequired, "segment=BYTES:PAUSE",
     "data is placed in pieces with a pause between; 0:0 ends it", set_segment},
    {"out-of-order", Argument::kNone, "out-of-order",
     "the pieces of a message are placed in another order",
     [](Values& values, const ListEntry&) {
         values.out_of_order = 1;
         return true;
     }},
    {"stale-cq", Argument::kNone, "stale-cq",
     "a completion of a shared receive queue that is gone fails the poll",
     [](Values& values, const ListEntry&) {
         values.stale_cq = 1;
         return true;
     }},
    {"device-fatal", Argument::kNone, "device-fatal",
     "devices fail: their completion queues cannot be polled, and programs are told",
     [](Values& values, const ListEntry&) {
         values.device_fatal = 1;
         return true;
     }},
    {"none", Argument::kNone, "none", "ends all faults",
     [](Values& values, const ListEntry&) {
         values = {};
         return true;
     }},
};

std::string all_syntax() {
    std::string text;
    for (const Syntax& fault : kSyntax) {
        if (!text.empty()) text += ", ";
        text += fault.syntax;
    }
    return text;
}

std::optional<std::string> apply_fault(const ListEntry& entry, Values& values) {
    for (const Syntax& fault : kSyntax) {
        if (entry.key != fault.key) continue;
        const bool fits = entry.has_value ? fault.argument != Argument::kNone
                                          : fault.argument != Argument::kRequired;
        if (fits && fault.set(values, entry)) return std::nullopt;
        std::string text(entry.key);
        if (entry.has_value) text.append("=").append(entry.value);
        return "'" + text + "' is not of the form " + fault.syntax + " (" + fault.meaning + ")";
    }
    return "unknown fault '" + std::string(entry.key) + "'; choose from " + all_syntax();
}

void describe_ports(uint32_t down, const std::function<void(const std::string&)>& add) {
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
    const Values before = load(faults);
    Values after = before;
    auto error =
        for_each_entry(list, [&](const ListEntry& entry) { return apply_fault(entry, after); });
    if (!error) store(faults, before, after);
    return error;
}

std::string describe(const Faults& faults) {
    const Values values = load(faults);
    std::string text;
    const auto add = [&](const std::string& entry) { text += (text.empty() ? "" : ",") + entry; };
    if (values.reg_fail != 0) add("reg-fail=" + std::to_string(values.reg_fail));
    if (values.create_fail != 0) add("create-fail=" + std::to_string(values.create_fail));
    if (values.post_fail != 0) add("post-fail=" + std::to_string(values.post_fail));
    if (values.drop_qp != 0)
        add("drop-qp=" +
            (values.drop_qp == Faults::kAnyQp ? "any" : std::to_string(values.drop_qp)));
    if (values.delay_completions_ns != 0)
        add("delay-completions=" + time_text(values.delay_completions_ns));
    if (values.rnr != 0) add("rnr=" + std::to_string(values.rnr));
    if (values.lose != 0) add("lose=" + std::to_string(values.lose));
    describe_ports(values.ports_down, add);
    if (values.segment_bytes != 0)
        add("segment=" + std::to_string(values.segment_bytes) + ":" +
            time_text(values.segment_pause_ns));
    if (values.out_of_order != 0) add("out-of-order");
    if (values.stale_cq != 0) add("stale-cq");
    if (values.device_fatal != 0) add("device-fatal");
    return text.empty() ? "none" : text;
}

std::string faults_help() {
    std::string text;
    for (const Syntax& fault : kSyntax)
        text.append(fault.syntax).append("\t").append(fault.meaning).append("\n");
    return text;
}

bool take_registration_failure(Faults& faults) {
    return count_down(faults.reg_fail) == 1;
}

bool take_creation_failure(Faults& faults) {
    return count_down(faults.create_fail) == 1;
}

bool take_post_failure(Faults& faults) {
    return count_down(faults.post_fail) == 1;
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
    uint32_t dropped = faults.drop_qp.load(kRelaxed);
    if (dropped == Faults::kAnyQp && faults.drop_qp.compare_exchange_strong(dropped, qpn, kRelaxed))
        return true;
    return dropped != 0 && dropped == qpn;
}

bool port_down(const Faults& faults, unsigned device, unsigned port) {
    if (device >= Faults::kMaxDevices || port < 1 || port > Faults::kMaxPorts) return false;
    return (faults.ports_down.load(kRelaxed) & port_bit(device, port)) != 0;
}

}  // namespace softhca
