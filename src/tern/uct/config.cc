// SPDX-License-Identifier: BSD-3-Clause
#include "tern/uct/config.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "tern/base/named_values.h"
#include "tern/base/rank_variables.h"
#include "tern/base/trace.h"
#include "tern/uct/compat.h"
#include "tern/verbs/memory.h"
#include "tern/verbs/port.h"

namespace tern {

namespace {

const char* poll_names[] = {"auto", "memory", "cq", nullptr};

// With more receives, 16-bit counts of frames would be ambiguous.
constexpr int kMostReceives = 16384;
constexpr int kLeastSends = 32;
constexpr int kMostSends = 16384;
constexpr size_t kLeastSegment = 1024;
constexpr size_t kMostSegment = Word::kMaxLength & ~7u;
constexpr double kGap = 100e-9;  // seconds; today's HCAs have less
constexpr double kChunkOverhead = 100e-9;
constexpr double kMostBandwidth = 1e15;  // bytes per second; UCX divides bandwidths by each other
constexpr double kNotice = 2e-6;         // seconds until a completion queue shows a frame

struct Range {
    double least, most;
    bool may_be_auto;
};

constexpr Range kAny = {-INFINITY, INFINITY, true};
constexpr Range between(double least, double most) {
    return {least, most, false};
}
constexpr Range auto_or(double least, double most) {
    return {least, most, true};
}

template <class Value>
bool is_within(Value value, Range range, const char* name, std::string& why) {
    if constexpr (std::is_pointer_v<Value>)
        return true;
    else {
        const double number = static_cast<double>(value);
        if ((number >= range.least && number <= range.most) ||
            (range.may_be_auto && value == static_cast<Value>(UCS_ULUNITS_AUTO)))
            return true;
        char text[160];
        snprintf(text, sizeof(text), "UCX_TERN_%s is %g and must be between %g and %g", name,
                 number, range.least, range.most);
        why = text;
        return false;
    }
}

// Latency of a message through an HCA and a switch, in seconds. Slow ports belong to old HCAs (DDR,
// QDR), whose latency is higher too. `bandwidth`: of the port, less the headers of packets.
double usual_latency(double bandwidth) {
    if (bandwidth < 2.4e9) return 2.3e-6;
    return bandwidth < 4.8e9 ? 1.5e-6 : 0.7e-6;
}

uint64_t nanoseconds(double seconds) {
    if (!(seconds < 1e9)) return UINT64_MAX;
    return static_cast<uint64_t>(seconds * 1e9);
}

// The digits of a number, as a string. Defaults stand in the initialisers of the parts' settings;
// the table of settings takes them from there.
template <uint64_t number>
constexpr auto kDigits = [] {
    std::array<char, 21> digits{};
    size_t count = 1;
    for (uint64_t rest = number / 10; rest != 0; rest /= 10) ++count;
    uint64_t rest = number;
    for (size_t i = count; i-- > 0; rest /= 10) digits[i] = static_cast<char>('0' + rest % 10);
    return digits;
}();
template <uint64_t number>
constexpr const char* kText = kDigits<number>.data();

constexpr EngineSettings kEngine;
constexpr RendezvousSettings kRendezvous;
static_assert(kEngine.poll == PollMode::kAuto && kRendezvous.policy.scheme == SchemeSetting::kAuto);

enum class Relax : uint8_t { kNever, kAlways, kIfPossible, kByProcessor };

// All spellings that UCX takes, in any of its versions.
constexpr const char* kRelaxNames[] = {"off", "on", "try", "auto", "n",     "no",
                                       "0",   "y",  "yes", "1",    "maybe", nullptr};
constexpr Relax kRelaxMeanings[] = {Relax::kNever,       Relax::kAlways,    Relax::kIfPossible,
                                    Relax::kByProcessor, Relax::kNever,     Relax::kNever,
                                    Relax::kNever,       Relax::kAlways,    Relax::kAlways,
                                    Relax::kAlways,      Relax::kIfPossible};
static_assert(std::size(kRelaxNames) == std::size(kRelaxMeanings) + 1);

const char* kMtuNames[] = {"default", "256", "512", "1024", "2048", "4096", nullptr};

constexpr uint16_t kAnyPartition = UCS_HEXUNITS_AUTO;

}  // namespace

ucs_config_field_t site_memory_config_table[] = {
#define SITE_MEMORY_SETTING(type, member, name, ucx_type, otherwise, range, meaning) \
    {#name, otherwise, meaning, offsetof(SiteMemoryConfig, member), UCS_CONFIG_TYPE_##ucx_type},
#include "tern/uct/settings.def"
    {nullptr, nullptr, nullptr, 0, {}},
};

ucs_config_field_t site_port_config_table[] = {
#define SITE_SETTING(type, member, name, ucx_type, otherwise, range, meaning) \
    {#name, otherwise, meaning, offsetof(SitePortConfig, member), UCS_CONFIG_TYPE_##ucx_type},
#include "tern/uct/settings.def"
    {nullptr, nullptr, nullptr, 0, {}},
};

ucs_config_field_t config_table[] = {
    {"", "ALLOC=huge,thp,mmap,heap", nullptr, offsetof(TernConfig, super),
     UCS_CONFIG_TYPE_TABLE(uct_iface_config_table)},
    {"IB_", "", nullptr, offsetof(TernConfig, port), UCS_CONFIG_TYPE_TABLE(site_port_config_table)},
#define SETTING(type, member, name, ucx_type, otherwise, range, meaning) \
    {#name, otherwise, meaning, offsetof(TernConfig, member), UCS_CONFIG_TYPE_##ucx_type},
#include "tern/uct/settings.def"
    {nullptr, nullptr, nullptr, 0, {}},
};

namespace {

bool is_in_range(const TernConfig& config, const ibv_device_attr& device, std::string& why) {
#define SETTING(type, member, name, ucx_type, otherwise, range, meaning) \
    if (!is_within(config.member, range, #name, why)) return false;
#define SITE_SETTING(type, member, name, ucx_type, otherwise, range, meaning) \
    if (!is_within(config.port.member, range, #name " (or UCX_IB_" #name ")", why)) return false;
#include "tern/uct/settings.def"
    return true;
}

// The limit of QP_MAX.
uint32_t most_connections(unsigned long setting, const EngineSettings& engine,
                          const ibv_device_attr& device, uint32_t interfaces) {
    if (setting == UCS_ULUNITS_AUTO)
        return engine_limits::usual_connections(
            static_cast<uint32_t>(std::max(device.max_qp, 0)),
            engine.connections_for(static_cast<uint64_t>(device.max_cqe)), base::local_ranks(),
            interfaces);
    return static_cast<uint32_t>(std::min<unsigned long>(setting, EngineSettings::kUnlimited));
}

// UCP crashes at a message of the greatest length if this is also one of the sizes of its receive
// descriptors (UCX_MPOOL_SIZES, by default 64 and 1k; ucs_mpool_set_init of UCX 1.13 to 1.22).
constexpr uint32_t kDescriptor = 1024;

uint32_t segment_size(size_t setting) {
    const uint32_t size = static_cast<uint32_t>(setting) & ~(Word::kUnit - 1);
    return size == kDescriptor ? size - Word::kUnit : size;
}

EngineSettings engine_settings(const TernConfig& config, const Tunables& tunables,
                               const ibv_device_attr& device, uint32_t interfaces) {
    EngineSettings engine;
    engine.segment_size = segment_size(config.segment_size);
    engine.send_queue = config.send_queue;
    engine.send_buffers = config.send_buffers;
    engine.receive_queue = config.receive_queue;
    engine.receive_most = std::max(engine.receive_queue, config.receive_most);
    engine.connections = most_connections(config.connections, engine, device, interfaces);
    engine.inline_bytes = tunables.tx_min_inline;
    engine.block_most =
        std::min(static_cast<uint32_t>(config.block_most) & ~(kStep - 1), kMaxBlock);
    engine.block_first = std::min(tunables.block_min & ~(kStep - 1), engine.block_most);
    engine.block_memory = config.block_memory;
    engine.poll = static_cast<PollMode>(config.poll);
    engine.repeats = tunables.put_repeat != 0;
    engine.batch.after = config.batches != 0 ? tunables.batch_after : EngineSettings::kUnlimited;
    engine.batch.poll = tunables.batch_poll != 0;
    engine.promotion = {.after = config.hot_after,
                        .most = config.hot_most,
                        .window = tunables.hot_window,
                        .keep = tunables.hot_keep};
    engine.retry = {.timeout = verbs::timeout_code(config.timeout),
                    .retries = static_cast<uint8_t>(config.retries),
                    .rnr_timer = verbs::rnr_timer_code(config.rnr_timeout),
                    .rnr_retries = static_cast<uint8_t>(config.rnr_retries)};
    // Several requests within the limit: only an answer shows that the peer lives.
    const double retry_most = std::min(1.0, config.connect_timeout / 4);
    // Asked by datagrams, a peer gets twice as long as the device gives it.
    const double silence = 2 * config.timeout * (config.retries + 1);
    const double retry_first = tunables.connect_retry / 1e3;
    const double four = 4 * std::max(retry_first, retry_most);
    const double probe = std::min(std::max(silence, four), config.connect_timeout);
    engine.handshake = {
        .retry_first = nanoseconds(retry_first),
        .retry_most = nanoseconds(std::max(retry_first, retry_most)),
        .connect_limit = nanoseconds(config.connect_timeout),
        .disconnect_limit = std::min(nanoseconds(config.connect_timeout), nanoseconds(10)),
        .jitter = 25,
        .probe_limit = nanoseconds(probe)};
    return engine;
}

RendezvousSettings rendezvous_settings(const TernConfig& config, const Tunables& tunables) {
    RendezvousSettings rendezvous;
    rendezvous.ring_bytes = static_cast<uint32_t>(config.ring_bytes);
    rendezvous.rings = tunables.rndv_windows;
    rendezvous.chunks_per_ring = tunables.rndv_buffers;
    rendezvous.policy.scheme = static_cast<SchemeSetting>(config.scheme);
    rendezvous.policy.worth_pinning = config.pin_after;
    rendezvous.policy.overlap = tunables.rndv_pin_overlap != 0;
    rendezvous.policy.staging.first = tunables.rndv_chunk_first;
    rendezvous.policy.staging.q = tunables.rndv_chunk_growth;
    rendezvous.policy.staging.most = static_cast<double>(config.ring_bytes) / tunables.rndv_buffers;
    return rendezvous;
}

TupleQSettings tupleq_settings(const TernConfig& config, const Tunables& tunables,
                               const EngineSettings& engine) {
    TupleQSettings tupleq;
    tupleq.tuples = config.tuples;
    tupleq.depth = std::bit_ceil(tunables.tm_depth);
    tupleq.sends = std::min(config.send_queue, 1u << 12);
    tupleq.inline_bytes = engine.inline_bytes;
    tupleq.copy_most = engine.segment_size;
    tupleq.policy.after = tunables.tm_tuple_after;
    tupleq.policy.least = config.tuple_least == UCS_MEMUNITS_AUTO
                              ? uint64_t{engine.segment_size} + 1
                              : config.tuple_least;
    tupleq.retry = engine.retry;
    return tupleq;
}

verbs::PortSettings port_settings(const SitePortConfig& config) {
    const auto or_auto = [](unsigned long setting, unsigned long most) {
        return setting == UCS_ULUNITS_AUTO ? -1 : static_cast<int>(std::min(setting, most));
    };
    const auto partition = static_cast<uint16_t>(config.pkey);
    verbs::PortSettings port;
    port.gid_index = or_auto(config.gid_index, 65535);
    port.global = config.global == UCS_TRY ? -1 : config.global == UCS_YES ? 1 : 0;
    port.pkey = partition == 0 || partition == kAnyPartition ? -1 : partition & 0x7fff;
    port.traffic_class = or_auto(config.traffic_class, 255);
    port.service_level = static_cast<uint8_t>(std::max(or_auto(config.service_level, 15), 0));
    port.path_mtu = static_cast<ibv_mtu>(config.path_mtu);
    port.paths = std::max(or_auto(config.paths, verbs::kMostPaths), 0);
    port.local_subnet = config.local_subnet != 0;
    return port;
}

}  // namespace

bool relaxes_order(int setting, const verbs::Device& device) {
    const Relax wanted = kRelaxMeanings[setting];
    if (wanted == Relax::kNever ||
        (wanted == Relax::kByProcessor && !compat::prefers_relaxed_order()))
        return false;
    if (verbs::takes_relaxed_ordering(device.pd.get())) {
        TERN_DEBUG("%s: pins and receive buffers are registered with relaxed ordering",
                   device.name().c_str());
        return true;
    }
    const int error = errno;
    ucs_log(wanted == Relax::kAlways ? UCS_LOG_LEVEL_WARN : UCS_LOG_LEVEL_DEBUG,
            "tern: %s registers no memory with relaxed ordering: %s; the order of its writes stays "
            "strict",
            device.name().c_str(), strerror(error));
    return false;
}

bool read_config(const TernConfig& config, const ibv_device_attr& device, uint32_t interfaces,
                 Settings& settings, std::string& why) {
    const Tunables& tunables = settings.tunables;
    if (!read_tunables(settings.tunables, why) || !is_in_range(config, device, why)) return false;
    settings.engine = engine_settings(config, tunables, device, interfaces);
    settings.rendezvous = rendezvous_settings(config, tunables);
    settings.direct = tupleq_settings(config, tunables, settings.engine);
    settings.port = port_settings(config.port);
    return true;
}

bool read_costs(const TernConfig& config, const Costs& measured, double bandwidth, Costs& costs,
                std::string& why) {
    costs = measured;
    costs.network = {.latency = usual_latency(bandwidth),
                     .bandwidth = bandwidth,
                     .gap = kGap,
                     .overhead = kChunkOverhead,
                     .notice = kNotice};
    const std::string_view wrong = base::read_named_values(
        config.costs, [&costs](std::string_view name, const std::string& text) {
            const bool is_time = name.ends_with("latency");
            double value = 0;
            if ((is_time ? ucs_config_sscanf_time : ucs_config_sscanf_bw)(text.c_str(), &value,
                                                                          nullptr) == 0 ||
                !(is_time ? value >= 0 : value > 0) || (!is_time && compat::is_auto(value)))
                return false;
            value = std::min(value, kMostBandwidth);
            if (name == "copy")
                costs.copy = {.cache_bandwidth = value, .memory_bandwidth = value};
            else if (name == "net")
                costs.network.bandwidth = value;
            else if (name == "net_latency")
                costs.network.latency = value;
            else if (name == "pin")
                costs.registration.bandwidth = value;
            else if (name == "pin_latency")
                costs.registration.latency = value;
            else
                return false;
            return true;
        });
    if (!wrong.empty()) why = "UCX_TERN_RNDV_COSTS has " + std::string(wrong);
    return wrong.empty();
}

}  // namespace tern
