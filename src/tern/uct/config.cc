// SPDX-License-Identifier: BSD-3-Clause
#include "tern/uct/config.h"

#include <algorithm>
#include <array>
#include <bit>

#include "tern/base/named_values.h"
#include "tern/base/rank_variables.h"
#include "tern/uct/compat.h"
#include "tern/verbs/port_paths.h"

namespace tern {

namespace {

const char* poll_names[] = {"auto", "memory", "cq", nullptr};

// With more receives, 16-bit counts of frames would be ambiguous.
constexpr unsigned kMostReceives = 16384;
constexpr unsigned kLeastSends = 32;
constexpr unsigned kMostSends = 16384;
constexpr size_t kLeastSegment = 1024;
constexpr size_t kMostSegment = Word::kMaxLength & ~7u;
constexpr double kGap = 100e-9;  // seconds; today's HCAs have less
constexpr double kChunkOverhead = 100e-9;
constexpr double kMostBandwidth = 1e15;  // bytes per second; UCX divides bandwidths by each other
constexpr double kNotice = 2e-6;         // seconds until a completion queue shows a frame

struct Range {
    const char* name;
    double value;
    double least;
    double most;
};

bool check(std::initializer_list<Range> ranges, std::string& why) {
    for (const Range& range : ranges) {
        if (range.value >= range.least && range.value <= range.most) continue;
        char text[160];
        snprintf(text, sizeof(text), "UCX_TERN_%s is %g and must be between %g and %g", range.name,
                 range.value, range.least, range.most);
        why = text;
        return false;
    }
    return true;
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
constexpr TupleQSettings kTupleQ;
static_assert(kEngine.poll == PollMode::kAuto && kRendezvous.policy.scheme == SchemeSetting::kAuto);

}  // namespace

#define TERN_FIELD(...) TERN_FIELD_OF(TernConfig, __VA_ARGS__)

ucs_config_field_t config_table[] = {
    TERN_FIELD("", "ALLOC=huge,thp,mmap,heap", nullptr, super,
               UCS_CONFIG_TYPE_TABLE(uct_iface_config_table)),

    TERN_FIELD("SEG_SIZE", kText<kEngine.segment_size>,
               "Largest active message, and size of a buffer of the shared receive queue and of "
               "the send pool.",
               messages.segment_size, UCS_CONFIG_TYPE_MEMUNITS),
    TERN_FIELD("TX_QUEUE_LEN", kText<kEngine.send_queue>,
               "Work requests that the send queue of each of the first 64 connections of an "
               "interface holds. The others hold\n"
               "21, or as many as this if it is less.",
               messages.send_queue, UCS_CONFIG_TYPE_UINT),
    TERN_FIELD(
        "QP_MAX", "auto",
        "Connections of an interface beyond which those that neither side uses are ended, "
        "the longest unused first.\n"
        "Their endpoints connect again when they are used. The limit is soft: no connection "
        "is refused for it.\n"
        "inf: no limit; auto: half of the device's queue pairs divided by the node's ranks, if the "
        "launcher tells their\n"
        "number, and by the interfaces of the process, or half of what fits into a completion "
        "queue, at least 16 and at\n"
        "most 4096; without that number, a sixteenth of the queue pairs, at least 64. If the "
        "device has no queue pair left,\n"
        "idle connections are ended below the limit too. No effect with TM_ENABLE.",
        messages.connections, UCS_CONFIG_TYPE_ULUNITS),
    TERN_FIELD("TX_BUFFERS", kText<kEngine.send_buffers>,
               "Most buffers of the send pool, which all connections of an interface share. It "
               "grows as it is used.",
               messages.send_buffers, UCS_CONFIG_TYPE_UINT),
    TERN_FIELD("RX_QUEUE_LEN", kText<kEngine.receive_queue>,
               "Buffers of the receive queue that all connections of an interface share.",
               messages.receive_queue, UCS_CONFIG_TYPE_UINT),
    TERN_FIELD("RX_QUEUE_MAX", kText<kEngine.receive_most>,
               "Buffers to which this queue grows, 8 for each of the peers that send to it at a "
               "time, if messages come faster than they are taken, and 2 for each notified write "
               "of a transfer.\n"
               "RX_QUEUE_LEN or less: it does not grow.",
               messages.receive_most, UCS_CONFIG_TYPE_UINT),
    TERN_FIELD(
        "POLL", "auto",
        "How a receiver notices short messages:\n"
        " memory - senders that talk much get a block, which is polled; right only if the device "
        "writes in ascending order of address\n"
        " cq     - by the completion queue; no sender gets a block\n"
        " auto   - memory if the device promises the order, else cq",
        messages.poll, UCS_CONFIG_TYPE_ENUM(poll_names)),
    TERN_FIELD("BATCH", "y",
               "Whether short messages of a stream go together, while others to the same peer are "
               "under way. They wait no longer\n"
               "than 50 us. Needs UCX's asynchronous thread.",
               messages.batches, UCS_CONFIG_TYPE_BOOL),
    TERN_FIELD("PUT_REPEAT", kEngine.repeats ? "y" : "n",
               "Whether a notified write of rwapi that repeats the notification of earlier ones is "
               "one write with immediate\n"
               "data, from the third one on. If not, it is two writes.",
               messages.repeats, UCS_CONFIG_TYPE_BOOL),
    TERN_FIELD("HOT_AFTER", kText<kEngine.promotion.after>,
               "Messages, within a window, after which a sender gets a block (becomes hot).",
               blocks.after, UCS_CONFIG_TYPE_UINT),
    TERN_FIELD("HOT_MAX", kText<kEngine.promotion.most>,
               "Most senders that have a block at a time. 0 turns the fast path off.", blocks.most,
               UCS_CONFIG_TYPE_UINT),
    TERN_FIELD(
        "HOT_MEMORY", kText<kEngine.block_memory>,
        "Memory of all blocks of an interface. When it is used up, senders get blocks of the "
        "first size.",
        blocks.memory, UCS_CONFIG_TYPE_MEMUNITS),
    TERN_FIELD("BLOCK_MAX", kText<kEngine.block_most>,
               "Largest size that a block grows to when it is full too often or too small for the "
               "messages.",
               blocks.most_bytes, UCS_CONFIG_TYPE_MEMUNITS),

    {"IB_", "", nullptr, offsetof(TernConfig, port), UCS_CONFIG_TYPE_TABLE(site_port_config_table)},
    TERN_FIELD("TIMEOUT", "1s", "Time until a packet that was not acknowledged is sent again.",
               retry.timeout, UCS_CONFIG_TYPE_TIME),
    TERN_FIELD("RETRY_COUNT", "6",
               "How often a packet is sent again before the peer counts as dead. Some devices take "
               "7 for infinite.",
               retry.retries, UCS_CONFIG_TYPE_UINT),
    TERN_FIELD("RNR_TIMEOUT", "1ms",
               "Time until a message is sent again that found no receive buffer.",
               retry.rnr_timeout, UCS_CONFIG_TYPE_TIME),
    TERN_FIELD("RNR_RETRY_COUNT", "7", "How often such a message is sent again; 7 is infinite.",
               retry.rnr_retries, UCS_CONFIG_TYPE_UINT),
    TERN_FIELD("CONNECT_TIMEOUT", "5m",
               "How long a peer may take to answer a connection request. If UCX runs no "
               "asynchronous thread,\n"
               "a peer answers only while it calls progress: the timeout must then be longer than "
               "a peer computes without\n"
               "communicating. A check of a peer that has no connection gives up earlier, after "
               "2 * TIMEOUT * (RETRY_COUNT + 1)\n"
               "or 4 s, whichever is longer.",
               retry.connect_timeout, UCS_CONFIG_TYPE_TIME),
    TERN_FIELD(
        "PROTO", "y",
        "Whether UCP's protocols (UCX_PROTO_ENABLE=y) choose by the model of costs, and long "
        "messages need no\n"
        "acknowledgement of their own. If not, UCP's own protocols run over Tern.",
        proto, UCS_CONFIG_TYPE_BOOL),
    TERN_FIELD("RNDV_SCHEME", "auto",
               "How long messages are received:\n"
               " superpipeline - copied through rings while they are on the wire\n"
               " zcopy         - in place, in memory that is pinned for it\n"
               " auto          - as the cost model decides",
               rendezvous.scheme, UCS_CONFIG_TYPE_ENUM(kSchemeSettings)),
    TERN_FIELD(
        "RNDV_WINDOW", kText<kRendezvous.ring_bytes>,
        "Size of a ring: registered memory through which a long message is received, or sent.",
        rendezvous.ring_bytes, UCS_CONFIG_TYPE_MEMUNITS),
    TERN_FIELD("RNDV_PIN_AFTER", kText<kRendezvous.policy.worth_pinning>,
               "A buffer is pinned from its use of this number on, if zero-copy is then faster.",
               rendezvous.pin_after, UCS_CONFIG_TYPE_UINT),
    TERN_FIELD("RNDV_COSTS", "",
               "Parameters of the cost model that replace what is measured: NAME=VALUE, separated "
               "by commas, for example\n"
               "copy=10GBs,pin_latency=5us\n"
               " copy        - bandwidth of copies by a processor\n"
               " net         - bandwidth of the network, instead of the rate of the port\n"
               " net_latency - latency of the network, instead of what is usual for that rate\n"
               " pin         - bandwidth of a registration, its fixed cost apart\n"
               " pin_latency - fixed cost of a registration",
               costs, UCS_CONFIG_TYPE_STRING),
    TERN_FIELD(
        "TM_ENABLE", "n",
        "Whether the transport offers UCX to match tagged messages with receives. try is yes.",
        tags.matching, UCS_CONFIG_TYPE_TERNARY),
    TERN_FIELD("TM_TUPLES", "64",
               "Largest number of tags received, and of tags sent, whose messages the device may "
               "place directly into posted\n"
               "receives. Each of these tags has a queue on the device. Needs XRC; 0: none.",
               tags.tuples, UCS_CONFIG_TYPE_UINT),
    TERN_FIELD(
        "TM_TUPLE_MIN", "auto",
        "Length, in bytes, of the shortest message for which a tag gets a queue, and of the "
        "shortest receive that is\n"
        "given to the device; those of more than 4 MiB never are. auto: messages longer than "
        "SEG_SIZE, which would be\nannounced first.",
        tags.tuple_least, UCS_CONFIG_TYPE_MEMUNITS),
    TERN_FIELD("COUNTERS", "",
               "File to which each interface appends a line of JSON with its counters when it is "
               "closed. \"-\" is\n"
               "standard error; %p is replaced by the process id.",
               counters, UCS_CONFIG_TYPE_STRING),
    TERN_FIELD("COUNTERS_INTERVAL", "0s",
               "While the program runs, each interface also writes its counters to the file "
               "COUNTERS.PID-NUMBER.running,\n"
               "which it replaces at this interval, but only as it makes progress, and removes "
               "when it is closed. 0: never.",
               counters_interval, UCS_CONFIG_TYPE_TIME),
    {nullptr, nullptr, nullptr, 0, {}},
};

namespace {

double or_auto(unsigned long setting, double otherwise) {
    return setting == UCS_ULUNITS_AUTO ? otherwise : static_cast<double>(setting);
}

bool is_in_range(const TernConfig& config, const ibv_device_attr& device, std::string& why) {
    return check(
        {{"SEG_SIZE", static_cast<double>(config.messages.segment_size), kLeastSegment,
          kMostSegment},
         {"TX_QUEUE_LEN", double(config.messages.send_queue), kLeastSends,
          double(std::min(kMostSends, static_cast<unsigned>(device.max_qp_wr)))},
         {"TX_BUFFERS", double(config.messages.send_buffers), 1, 1 << 20},
         {"RX_QUEUE_LEN", double(config.messages.receive_queue), 16,
          double(std::min(kMostReceives, static_cast<unsigned>(device.max_srq_wr)))},
         {"HOT_AFTER", double(config.blocks.after), 1, UINT32_MAX},
         {"BLOCK_MAX", double(config.blocks.most_bytes), kMinBlock, kMaxBlock + kStep},
         {"RNDV_WINDOW", double(config.rendezvous.ring_bytes), SubBlocks::kSlot,
          double(WireRing::kMostSlots) * SubBlocks::kSlot},
         {"TM_TUPLES", double(config.tags.tuples), 0, 1024},
         {"TRAFFIC_CLASS (or UCX_IB_TRAFFIC_CLASS)", or_auto(config.port.traffic_class, 0), 0, 255},
         {"SL (or UCX_IB_SL)", or_auto(config.port.service_level, 0), 0, 15},
         {"NUM_PATHS (or UCX_IB_NUM_PATHS)",
          double(std::min<unsigned long>(config.port.paths, verbs::kMostPaths)), 1,
          verbs::kMostPaths},
         {"RETRY_COUNT", double(config.retry.retries), 0, 7},
         {"RNR_RETRY_COUNT", double(config.retry.rnr_retries), 0, 7}},
        why);
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
    engine.segment_size = segment_size(config.messages.segment_size);
    engine.send_queue = config.messages.send_queue;
    engine.send_buffers = config.messages.send_buffers;
    engine.receive_queue = config.messages.receive_queue;
    engine.receive_most = std::max(engine.receive_queue, config.messages.receive_most);
    engine.connections = most_connections(config.messages.connections, engine, device, interfaces);
    engine.inline_bytes = tunables.tx_min_inline;
    engine.block_most =
        std::min(static_cast<uint32_t>(config.blocks.most_bytes) & ~(kStep - 1), kMaxBlock);
    engine.block_first = std::min(tunables.block_min & ~(kStep - 1), engine.block_most);
    engine.block_memory = config.blocks.memory;
    engine.poll = static_cast<PollMode>(config.messages.poll);
    engine.repeats = config.messages.repeats != 0;
    engine.batch.after =
        config.messages.batches != 0 ? tunables.batch_after : EngineSettings::kUnlimited;
    engine.batch.poll = tunables.batch_poll != 0;
    engine.promotion = {.after = config.blocks.after,
                        .most = config.blocks.most,
                        .window = tunables.hot_window,
                        .keep = tunables.hot_keep};
    engine.retry = {.timeout = verbs::timeout_code(config.retry.timeout),
                    .retries = static_cast<uint8_t>(config.retry.retries),
                    .rnr_timer = verbs::rnr_timer_code(config.retry.rnr_timeout),
                    .rnr_retries = static_cast<uint8_t>(config.retry.rnr_retries)};
    // Several requests within the limit: only an answer shows that the peer lives.
    const double retry_most = std::min(1.0, config.retry.connect_timeout / 4);
    // Asked by datagrams, a peer gets twice as long as the device gives it.
    const double silence = 2 * config.retry.timeout * (config.retry.retries + 1);
    const double retry_first = tunables.connect_retry / 1e3;
    const double four = 4 * std::max(retry_first, retry_most);
    const double probe = std::min(std::max(silence, four), config.retry.connect_timeout);
    engine.handshake = {
        .retry_first = nanoseconds(retry_first),
        .retry_most = nanoseconds(std::max(retry_first, retry_most)),
        .connect_limit = nanoseconds(config.retry.connect_timeout),
        .disconnect_limit = std::min(nanoseconds(config.retry.connect_timeout), nanoseconds(10)),
        .jitter = 25,
        .probe_limit = nanoseconds(probe)};
    return engine;
}

RendezvousSettings rendezvous_settings(const TernConfig& config, const Tunables& tunables) {
    RendezvousSettings rendezvous;
    rendezvous.ring_bytes = static_cast<uint32_t>(config.rendezvous.ring_bytes);
    rendezvous.rings = tunables.rndv_windows;
    rendezvous.chunks_per_ring = tunables.rndv_buffers;
    rendezvous.policy.scheme = static_cast<SchemeSetting>(config.rendezvous.scheme);
    rendezvous.policy.worth_pinning = config.rendezvous.pin_after;
    rendezvous.policy.overlap = tunables.rndv_pin_overlap != 0;
    rendezvous.policy.staging.first = tunables.rndv_chunk_first;
    rendezvous.policy.staging.q = tunables.rndv_chunk_growth;
    rendezvous.policy.staging.most =
        static_cast<double>(config.rendezvous.ring_bytes) / tunables.rndv_buffers;
    return rendezvous;
}

TupleQSettings tupleq_settings(const TernConfig& config, const Tunables& tunables,
                               const EngineSettings& engine) {
    TupleQSettings tupleq;
    tupleq.tuples = config.tags.tuples;
    tupleq.depth = std::bit_ceil(tunables.tm_depth);
    tupleq.sends = std::min(config.messages.send_queue, 1u << 12);
    tupleq.inline_bytes = engine.inline_bytes;
    tupleq.copy_most = engine.segment_size;
    tupleq.policy.after = tunables.tm_tuple_after;
    tupleq.policy.least = config.tags.tuple_least == UCS_MEMUNITS_AUTO
                              ? uint64_t{engine.segment_size} + 1
                              : config.tags.tuple_least;
    tupleq.retry = engine.retry;
    return tupleq;
}

}  // namespace

bool read_config(const TernConfig& config, const Tunables& tunables, const ibv_device_attr& device,
                 uint32_t interfaces, EngineSettings& engine, RendezvousSettings& rendezvous,
                 TupleQSettings& tupleq, verbs::PortSettings& port, std::string& why) {
    if (!is_in_range(config, device, why)) return false;
    engine = engine_settings(config, tunables, device, interfaces);
    rendezvous = rendezvous_settings(config, tunables);
    tupleq = tupleq_settings(config, tunables, engine);
    port = port_settings(config.port);
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
