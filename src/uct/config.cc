// SPDX-License-Identifier: BSD-3-Clause
#include "uct/config.h"

#include <algorithm>
#include <bit>

#include "uct/compat.h"

namespace tern {

namespace {

const char* poll_names[] = {"auto", "memory", "cq", nullptr};
const char* mtu_names[] = {"default", "256", "512", "1024", "2048", "4096", nullptr};

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

}  // namespace

#define TERN_FIELD(_name, _default, _help, _member, _type) \
    { _name, _default, _help, offsetof(TernConfig, _member), _type }

ucs_config_field_t config_table[] = {
    TERN_FIELD("", "ALLOC=huge,thp,mmap,heap", nullptr, super,
               UCS_CONFIG_TYPE_TABLE(uct_iface_config_table)),

    TERN_FIELD("SEG_SIZE", "8256",
               "Largest active message, and size of a buffer of the shared receive queue and of "
               "the send pool.",
               segment_size, UCS_CONFIG_TYPE_MEMUNITS),
    TERN_FIELD("TX_QUEUE_LEN", "256", "Work requests that a connection's send queue holds.",
               send_queue, UCS_CONFIG_TYPE_UINT),
    TERN_FIELD("TX_BUFFERS", "1024",
               "Most buffers of the send pool, which all connections of an interface share. It "
               "grows as it is used.",
               send_buffers, UCS_CONFIG_TYPE_UINT),
    TERN_FIELD("TX_MIN_INLINE", "128",
               "Bytes that a work request carries inline, at least; what a device gives beyond "
               "that is used.",
               inline_bytes, UCS_CONFIG_TYPE_UINT),
    TERN_FIELD("RX_QUEUE_LEN", "512",
               "Buffers of the receive queue that all connections of an interface share.",
               receive_queue, UCS_CONFIG_TYPE_UINT),
    TERN_FIELD(
        "POLL", "auto",
        "How a receiver notices short messages:\n"
        " memory - senders that talk much get a block, which is polled; right only if the device "
        "writes in ascending order of address\n"
        " cq     - by the completion queue; no sender gets a block\n"
        " auto   - memory if the device promises the order, else cq",
        poll, UCS_CONFIG_TYPE_ENUM(poll_names)),
    TERN_FIELD("HOT_AFTER", "16",
               "Messages, within a window, after which a sender gets a block (becomes hot).",
               hot_after, UCS_CONFIG_TYPE_UINT),
    TERN_FIELD("HOT_MAX", "32",
               "Most senders that have a block at a time. 0 turns the fast path off.", hot_most,
               UCS_CONFIG_TYPE_UINT),
    TERN_FIELD("HOT_WINDOW", "4096",
               "Length of a window, in messages received by the interface. Hot senders that sent "
               "little in it lose\n"
               "their block.",
               hot_window, UCS_CONFIG_TYPE_UINT),
    TERN_FIELD("HOT_KEEP", "16",
               "Messages that a hot sender must send in a window to keep its block.", hot_keep,
               UCS_CONFIG_TYPE_UINT),
    TERN_FIELD("BLOCK_MIN", "4k", "Size of a sender's first block.", block_first,
               UCS_CONFIG_TYPE_MEMUNITS),
    TERN_FIELD("BLOCK_MAX", "32k",
               "Largest size that a block grows to when it is full too often or too small for the "
               "messages.",
               block_most, UCS_CONFIG_TYPE_MEMUNITS),

    TERN_FIELD(
        "GID_INDEX", "auto",
        "Entry of the port's GID table to use. auto takes, on Ethernet, the first RoCE v2 entry "
        "that is not\n"
        "link-local, and a link-local one only if there is no other.",
        gid_index, UCS_CONFIG_TYPE_ULUNITS),
    TERN_FIELD("IS_GLOBAL", "try",
               "Whether packets carry a global routing header: yes, no, or try, which is yes on "
               "Ethernet, without a\n"
               "LID, and if GID_INDEX is set.",
               global, UCS_CONFIG_TYPE_TERNARY),
    TERN_FIELD("PKEY", "0x0", "Partition to use. 0 takes the first with full membership.", pkey,
               UCS_CONFIG_TYPE_HEX),
    TERN_FIELD("TRAFFIC_CLASS", "0", "Traffic class of packets with a global routing header.",
               traffic_class, UCS_CONFIG_TYPE_UINT),
    TERN_FIELD("SL", "0", "Service level; on Ethernet the priority.", service_level,
               UCS_CONFIG_TYPE_UINT),
    TERN_FIELD("PATH_MTU", "default", "Largest packet. default takes the port's active MTU.",
               path_mtu, UCS_CONFIG_TYPE_ENUM(mtu_names)),
    TERN_FIELD("TIMEOUT", "0.5s", "Time until a packet that was not acknowledged is sent again.",
               timeout, UCS_CONFIG_TYPE_TIME),
    TERN_FIELD("RETRY_COUNT", "6",
               "How often a packet is sent again before the peer counts as dead. Some devices take "
               "7 for infinite.",
               retries, UCS_CONFIG_TYPE_UINT),
    TERN_FIELD("RNR_TIMEOUT", "1ms",
               "Time until a message is sent again that found no receive buffer.", rnr_timeout,
               UCS_CONFIG_TYPE_TIME),
    TERN_FIELD("RNR_RETRY_COUNT", "7", "How often such a message is sent again; 7 is infinite.",
               rnr_retries, UCS_CONFIG_TYPE_UINT),
    TERN_FIELD("CONNECT_TIMEOUT", "5m",
               "How long a peer may take to answer a connection request or a probe. If UCX runs no "
               "asynchronous thread,\n"
               "a peer answers only while it calls progress: the timeout must then be longer than "
               "a peer computes without\n"
               "communicating.",
               connect_timeout, UCS_CONFIG_TYPE_TIME),
    TERN_FIELD("CONNECT_RETRY", "20ms",
               "Time until a connection request is repeated first; it then doubles up to 1s.",
               connect_retry, UCS_CONFIG_TYPE_TIME),
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
               " auto          - as the model of their costs says",
               scheme, UCS_CONFIG_TYPE_ENUM(kSchemeSettings)),
    TERN_FIELD(
        "RNDV_WINDOW", "256k",
        "Size of a ring: registered memory through which a long message is received, or sent.",
        window, UCS_CONFIG_TYPE_MEMUNITS),
    TERN_FIELD("RNDV_WINDOWS", "16",
               "Largest number of rings for receiving, and of rings for sending. So many long "
               "messages are copied at a time;\n"
               "others wait. A ring is registered when it is first needed.",
               windows, UCS_CONFIG_TYPE_UINT),
    TERN_FIELD("RNDV_BUFFERS", "3", "How many of the longest chunks fit a ring.", window_chunks,
               UCS_CONFIG_TYPE_UINT),
    TERN_FIELD("RNDV_CHUNK_FIRST", "12k", "Length of the first chunk of a message.", chunk_first,
               UCS_CONFIG_TYPE_MEMUNITS),
    TERN_FIELD("RNDV_CHUNK_GROWTH", "1.5",
               "Ratio of the length of a chunk to that of the chunk before it.", chunk_growth,
               UCS_CONFIG_TYPE_DOUBLE),
    TERN_FIELD("RNDV_PIN_AFTER", "2",
               "A buffer is pinned from its use of this number on, if zero-copy is then faster.",
               pin_after, UCS_CONFIG_TYPE_UINT),
    TERN_FIELD("RNDV_PIN_OVERLAP", "y",
               "Whether memory is pinned piece by piece, each while the piece before it is on the "
               "wire. If not, all of a\n"
               "buffer is pinned first.",
               pin_overlap, UCS_CONFIG_TYPE_BOOL),
    TERN_FIELD("RNDV_COPY_BW", "auto",
               "Bandwidth of copies by a processor; auto: measured. The cost model uses this and "
               "the next four settings.",
               copy_bandwidth, UCS_CONFIG_TYPE_BW),
    TERN_FIELD("RNDV_NET_BW", "auto", "Bandwidth of the network; auto: the rate of the port.",
               net_bandwidth, UCS_CONFIG_TYPE_BW),
    TERN_FIELD("RNDV_NET_LATENCY", "0us",
               "Latency of the network; 0: what is usual for the rate of the port.", net_latency,
               UCS_CONFIG_TYPE_TIME),
    TERN_FIELD("RNDV_PIN_BW", "auto",
               "Bandwidth of a registration, its fixed cost apart; auto: measured.", pin_bandwidth,
               UCS_CONFIG_TYPE_BW),
    TERN_FIELD("RNDV_PIN_LATENCY", "0us", "Fixed cost of a registration; 0: measured.", pin_latency,
               UCS_CONFIG_TYPE_TIME),
    TERN_FIELD(
        "TM_ENABLE", "n",
        "Whether the transport offers UCX to match tagged messages with receives. try is yes.",
        tag_matching, UCS_CONFIG_TYPE_TERNARY),
    TERN_FIELD("TM_LIST_SIZE", "1024",
               "Largest number of receives that UCX may post to the transport at a time; UCX keeps "
               "further ones to itself.",
               tag_receives, UCS_CONFIG_TYPE_UINT),
    TERN_FIELD("TM_TUPLES", "64",
               "Largest number of tags received, and of tags sent, whose messages the device may "
               "place directly into posted\n"
               "receives. Each of these tags has a queue on the device. Needs XRC; 0: none.",
               tuples, UCS_CONFIG_TYPE_UINT),
    TERN_FIELD("TM_DEPTH", "16",
               "Receives of such a tag that are given to the device at a time, rounded up to a "
               "power of two. A peer with a\n"
               "smaller depth refuses.",
               tuple_depth, UCS_CONFIG_TYPE_UINT),
    TERN_FIELD("TM_TUPLE_AFTER", "8",
               "A tag gets such a queue after this many messages from one peer whose receives were "
               "posted in time.",
               tuple_after, UCS_CONFIG_TYPE_UINT),
    TERN_FIELD(
        "TM_TUPLE_MIN", "auto",
        "Length, in bytes, of the shortest message that counts for TM_TUPLE_AFTER, and of the "
        "shortest receive that is\n"
        "given to the device; those of more than 4 MiB never are. auto: messages longer than "
        "SEG_SIZE, which would be\nannounced first.",
        tuple_least, UCS_CONFIG_TYPE_MEMUNITS),
    TERN_FIELD("COUNTERS", "",
               "File to which each interface appends a line of JSON with its counters when it is "
               "closed. \"-\" is\n"
               "standard error; %p is replaced by the process id.",
               counters, UCS_CONFIG_TYPE_STRING),
    {nullptr, nullptr, nullptr, 0, {}},
};

bool read_config(const TernConfig& config, const ibv_device_attr& device, EngineSettings& engine,
                 RendezvousSettings& rendezvous, TupleQSettings& tupleq, verbs::PortSettings& port,
                 std::string& why) {
    if (!check({{"SEG_SIZE", static_cast<double>(config.segment_size), kLeastSegment, kMostSegment},
                {"TX_QUEUE_LEN", double(config.send_queue), kLeastSends,
                 double(std::min(kMostSends, static_cast<unsigned>(device.max_qp_wr)))},
                {"TX_BUFFERS", double(config.send_buffers), 1, 1 << 20},
                {"RX_QUEUE_LEN", double(config.receive_queue), 16,
                 double(std::min(kMostReceives, static_cast<unsigned>(device.max_srq_wr)))},
                {"HOT_AFTER", double(config.hot_after), 1, UINT32_MAX},
                {"HOT_WINDOW", double(config.hot_window), 1, UINT32_MAX},
                {"BLOCK_MIN", double(config.block_first), kMinBlock, kMaxBlock},
                {"BLOCK_MAX", double(config.block_most), double(config.block_first), kMaxBlock},
                {"RNDV_WINDOW", double(config.window), SubBlocks::kSlot,
                 double(WireRing::kMostSlots) * SubBlocks::kSlot},
                {"RNDV_WINDOWS", double(config.windows), 1, 1 << 16},
                {"RNDV_BUFFERS", double(config.window_chunks), 1, WireRing::kMostSlots},
                {"RNDV_CHUNK_FIRST", double(config.chunk_first), 1, 1 << 30},
                {"RNDV_CHUNK_GROWTH", config.chunk_growth, 1, 1000},
                {"TM_LIST_SIZE", double(config.tag_receives), 1, 1 << 20},
                {"TM_TUPLES", double(config.tuples), 0, 1024},
                {"TM_DEPTH", double(config.tuple_depth), 1, 1024},
                {"TM_TUPLE_AFTER", double(config.tuple_after), 1, UINT32_MAX},
                {"TRAFFIC_CLASS", double(config.traffic_class), 0, 255},
                {"SL", double(config.service_level), 0, 15},
                {"RETRY_COUNT", double(config.retries), 0, 7},
                {"RNR_RETRY_COUNT", double(config.rnr_retries), 0, 7}},
               why))
        return false;
    engine.segment_size = static_cast<uint32_t>(config.segment_size) & ~(Word::kUnit - 1);
    engine.send_queue = config.send_queue;
    engine.send_buffers = config.send_buffers;
    engine.receive_queue = config.receive_queue;
    engine.inline_bytes = config.inline_bytes;
    engine.block_first = static_cast<uint32_t>(config.block_first) & ~(Word::kUnit - 1);
    engine.block_most = static_cast<uint32_t>(config.block_most) & ~(Word::kUnit - 1);
    engine.poll = static_cast<PollMode>(config.poll);
    engine.promotion = {.after = config.hot_after,
                        .most = config.hot_most,
                        .window = config.hot_window,
                        .keep = config.hot_keep};
    engine.retry = {.timeout = verbs::timeout_code(config.timeout),
                    .retries = static_cast<uint8_t>(config.retries),
                    .rnr_timer = verbs::rnr_timer_code(config.rnr_timeout),
                    .rnr_retries = static_cast<uint8_t>(config.rnr_retries)};
    // Asks a peer several times within the limit: only its answers show that the peer lives.
    const double retry_most = std::min(1.0, config.connect_timeout / 4);
    engine.handshake = {
        .retry_first = nanoseconds(config.connect_retry),
        .retry_most = nanoseconds(std::max(config.connect_retry, retry_most)),
        .connect_limit = nanoseconds(config.connect_timeout),
        .disconnect_limit = std::min(nanoseconds(config.connect_timeout), nanoseconds(10))};
    rendezvous.ring_bytes = static_cast<uint32_t>(config.window);
    rendezvous.rings = config.windows;
    rendezvous.chunks_per_ring = config.window_chunks;
    rendezvous.policy.scheme = static_cast<SchemeSetting>(config.scheme);
    rendezvous.policy.worth_pinning = config.pin_after;
    rendezvous.policy.overlap = config.pin_overlap != 0;
    rendezvous.policy.staging.first = static_cast<double>(config.chunk_first);
    rendezvous.policy.staging.q = config.chunk_growth;
    rendezvous.policy.staging.most = static_cast<double>(config.window) / config.window_chunks;
    tupleq.tuples = config.tuples;
    tupleq.depth = std::bit_ceil(config.tuple_depth);
    tupleq.sends = std::min(config.send_queue, 1u << 12);
    tupleq.inline_bytes = engine.inline_bytes;
    tupleq.copy_most = engine.segment_size;
    tupleq.policy.after = config.tuple_after;
    tupleq.policy.least = config.tuple_least == UCS_MEMUNITS_AUTO
                              ? uint64_t{engine.segment_size} + 1
                              : config.tuple_least;
    tupleq.retry = engine.retry;
    port.gid_index = config.gid_index == UCS_ULUNITS_AUTO
                         ? -1
                         : static_cast<int>(std::min(config.gid_index, 65535ul));
    port.global = config.global == UCS_TRY ? -1 : config.global == UCS_YES ? 1 : 0;
    port.pkey = config.pkey == 0 ? -1 : static_cast<int>(config.pkey & 0x7fff);
    port.traffic_class = static_cast<uint8_t>(config.traffic_class);
    port.service_level = static_cast<uint8_t>(config.service_level);
    port.path_mtu = static_cast<ibv_mtu>(config.path_mtu);
    return true;
}

Costs read_costs(const TernConfig& config, const Costs& measured, double bandwidth) {
    Costs costs = measured;
    costs.network = {
        .latency = config.net_latency != 0 ? config.net_latency : usual_latency(bandwidth),
        .bandwidth = compat::is_auto(config.net_bandwidth)
                         ? bandwidth
                         : std::min(config.net_bandwidth, kMostBandwidth),
        .gap = kGap,
        .overhead = kChunkOverhead,
        .notice = kNotice};
    if (!compat::is_auto(config.copy_bandwidth))
        costs.copy = {.cache_bandwidth = config.copy_bandwidth,
                      .memory_bandwidth = config.copy_bandwidth};
    if (!compat::is_auto(config.pin_bandwidth)) costs.registration.bandwidth = config.pin_bandwidth;
    if (config.pin_latency != 0) costs.registration.latency = config.pin_latency;
    return costs;
}

}  // namespace tern
