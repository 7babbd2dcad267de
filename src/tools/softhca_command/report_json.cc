// SPDX-License-Identifier: BSD-3-Clause
// The report as JSON.
#include <cstdio>
#include <string_view>

#include "core/text.h"
#include "tools/softhca_command/report.h"

namespace softhca {
namespace {

/// Writes one JSON value; commas and quotes are its business.
class JsonWriter {
  public:
    void open(char bracket) {
        separate();
        text_ += bracket;
        first_ = true;
    }
    void close(char bracket) {
        text_ += bracket;
        first_ = false;
    }
    void key(std::string_view name) {
        separate();
        quote(name);
        text_ += ": ";
        first_ = true;
    }
    void value(uint64_t number) { raw(std::to_string(number)); }
    void value(double number) { raw(decimal_text(number)); }
    void value(bool truth) { raw(truth ? "true" : "false"); }
    void value(std::string_view text) {
        separate();
        quote(text);
    }
    void value(const char* text) { value(std::string_view(text)); }
    template <typename Value>
    void member(std::string_view name, const Value& content) {
        key(name);
        value(content);
    }
    std::string take() { return std::move(text_); }

  private:
    void raw(std::string_view text) {
        separate();
        text_ += text;
    }
    void separate() {
        if (!first_) text_ += ", ";
        first_ = false;
    }
    void quote(std::string_view text) {
        text_ += '"';
        for (const char c : text) {
            if (c == '"' || c == '\\') text_ += '\\';
            // A process may name itself in any bytes; those outside ASCII need not be UTF-8.
            if (c < ' ' || c == '\x7f') {
                char escape[8];
                std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned char>(c));
                text_ += escape;
            } else {
                text_ += c;
            }
        }
        text_ += '"';
    }

    std::string text_;
    bool first_ = true;
};

void write_model(JsonWriter* json, const NicParameters& nic) {
    json->key("model");
    json->open('{');
    json->member("latency_ns", nic.latency_ns);
    json->member("bandwidth_gb_per_s", nic.bandwidth);
    json->member("gap_ns", nic.gap_ns);
    json->member("completion_ns", nic.completion_ns);
    json->member("registration_ns", nic.registration_ns);
    json->member("registration_bandwidth_gb_per_s", nic.registration_bandwidth);
    json->close('}');
}

void write_ports(JsonWriter* json, const Report& report) {
    json->key("ports");
    json->open('[');
    for (const PortReport& port : report.ports) {
        json->open('{');
        json->member("device", "softhca" + std::to_string(port.device));
        json->member("port", uint64_t{port.port});
        json->member("up", port.up);
        json->close('}');
    }
    json->close(']');
}

void write_objects(JsonWriter* json, const ObjectCounts& counts) {
    json->key("objects");
    json->open('{');
    json->member("queue_pairs", uint64_t{counts.queue_pairs});
    json->member("shared_receive_queues", uint64_t{counts.shared_receive_queues});
    json->member("completion_queues", uint64_t{counts.completion_queues});
    json->member("memory_regions", uint64_t{counts.memory_regions});
    json->member("memory_windows", uint64_t{counts.memory_windows});
    json->close('}');
}

void write_lateness(JsonWriter* json, const LatenessReport& lateness) {
    json->key("lateness");
    json->open('{');
    json->member("operations", lateness.count);
    json->member("late", lateness.late);
    json->member("late_total_ns", lateness.total_ns);
    json->member("max_ns", lateness.max_ns);
    json->key("histogram");
    json->open('[');
    for (const uint64_t bucket : lateness.histogram) json->value(bucket);
    json->close(']');
    json->close('}');
}

void write_process(JsonWriter* json, const ProcessReport& process) {
    json->open('{');
    json->member("pid", static_cast<uint64_t>(process.pid));
    json->member("name", process.name);
    json->member("alive", process.alive);
    json->member("executor", process.thread_executor ? "thread" : "inline");
    write_objects(json, process.objects);
    json->key("counters");
    json->open('{');
    for (const auto& [name, value] : process.counters) json->member(name, value);
    json->close('}');
    write_lateness(json, process.lateness);
    json->close('}');
}

}  // namespace

std::string as_json(const Report& report) {
    JsonWriter json;
    json.open('{');
    json.member("fabric", report.fabric);
    json.member("devices", uint64_t{report.devices});
    json.member("ports_per_device", uint64_t{report.ports_per_device});
    json.member("link_layer", report.ethernet ? "ethernet" : "infiniband");
    json.member("profile", report.profile);
    write_model(&json, report.nic);
    json.member("faults", report.faults);
    write_ports(&json, report);
    json.key("processes");
    json.open('[');
    for (const ProcessReport& process : report.processes) write_process(&json, process);
    json.close(']');
    json.close('}');
    return json.take() + "\n";
}

}  // namespace softhca
