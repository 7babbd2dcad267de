// SPDX-License-Identifier: BSD-3-Clause
// What the device offers, refuses and returns: a personality is the rules of one kind of real
// device, and `strict` those of all of them together. All processes of a fabric have the same one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace softhca {

// Values of rules that are neither numbers nor yes or no.
namespace rule {
enum Rounding : int32_t { kExact = 0, kPowerOfTwo = 1, kPowerLessOne = 2 };
enum InlineRounding : int32_t {
    kInlineExact = 0,
    kInlineWqe = 1,
    kInlineSge = 2,
    kInlinePower = 3
};
enum TooMuchInline : int32_t { kInlineRefused = 0, kInlineClamped = 1 };
enum EarlySend : int32_t { kEarlyRefused = 0, kEarlyQueued = 1, kEarlyRefusedAndQueued = 2 };
enum InOrder : int32_t { kNever = 0, kAlways = 1, kReadyToSend = 2 };
enum GidTable : int32_t { kVersion2 = 0, kVersions1And2 = 1, kVersion1 = 2 };
enum GrhRequired : int32_t { kNoGrhFlag = 0, kGrhOnEthernet = 1, kGrhAlways = 2 };
enum Numbers : int32_t { kOldestFirst = 0, kLowestFirst = 1, kNewestFirst = 2 };
}  // namespace rule

// One value for each rule; the table in personality.cc describes them. Limits are at least 1, and
// not above those of the device itself (verbs/limits.h); features are 0 or 1; errors are what a
// verb returns, in the sign that it returns.
struct Personality {
    struct Ports {
        int32_t ethernet;  // whether they are so unless the settings say otherwise
        int32_t grh_required, gid_table;
        int32_t lmc;
    } ports;
    struct Limits {
        int32_t inline_data, message;  // bytes
        int32_t send_sge, recv_sge, srq_sge, read_sge;
        int32_t queue_entries, srq_entries, cqe;
        int32_t qps;   // of a device
        int32_t srqs;  // of each process
        int32_t rd_atomic;
    } limits;
    struct Rounding {
        int32_t queue, least_queue;
        int32_t cq, least_cq;
        int32_t inline_data;
    } rounding;
    struct Capabilities {
        int32_t uc, srq, xrc, multicast;
        int32_t srq_resize, cq_resize, cq_moderation;
        int32_t atomics, write_imm, windows, device_memory, dma_buf, null_mr, mr_change, odp;
        int32_t parent_domain, cq_ex, wr_api, timestamps;
    } has;
    struct Errors {
        int32_t create;  // 0: errno stays as it was
        int32_t limit, opcode, early;
        int32_t inline_data, sge, recv_sge, srq_sge;
        int32_t full, recv_full, srq_full;
    } errors;
    struct SendQueue {
        int32_t inline_at_create, early, may_be_empty;
    } send_queue;
    struct Numbers {
        int32_t objects, keys;
    } numbers;
    struct Connection {
        int32_t psn, path_mtu, rd_atomic_match;
    } connection;
    struct Ordering {
        int32_t in_order, destroyed_completions, receive_ahead, last_receive_event;
        int32_t missed_events, poisoned_errors;
    } ordering;
    struct Times {
        int32_t flush_delay, neighbor_timeout;  // ms
        int32_t timer_step, odp_faults;         // us
        int32_t least_timeout, retry_forever;
    } times;
    struct Memory {
        int32_t locked, fork, relaxed;
    } memory;
};

// Entries of a queue for which a program asks for `asked` entries; 0 stays 0.
uint32_t rounded_entries(uint32_t asked, int32_t rounding, int32_t least, int32_t most);

// Elements and inline bytes of a send queue for which a program asks for these, which are within
// the limits.
struct SendSizes {
    uint32_t sge;
    uint32_t inline_bytes;
    bool binds = true;  // as in SendQueueShape
};
SendSizes rounded_send(const Personality& personality, SendSizes asked);

// Names, separated by ", ".
std::string personality_names();
// nullopt if there is no such personality.
std::optional<Personality> find_personality(std::string_view name);
// Applies a comma list RULE=NUMBER. If the list is wrong, returns a text that names the choices,
// and changes nothing.
std::optional<std::string> apply_rules(std::string_view list, Personality& personality);
// The rules with their values in each personality, in Markdown.
std::string personality_table();

}  // namespace softhca
