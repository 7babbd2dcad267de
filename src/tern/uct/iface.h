// SPDX-License-Identifier: BSD-3-Clause
// UCT's interface and endpoint, built on the engine, the rendezvous and TupleQ.
#pragma once

#include "tern/engine/atomics.h"
#include "tern/engine/engine.h"
#include "tern/rendezvous/rendezvous.h"
#include "tern/uct/rma.h"
#include "tern/uct/status.h"
#include "tern/uct/ucx_headers.h"

struct TernEp;
namespace tern {
struct TernConfig;
class Matching;
class TupleQ;
struct MatchingCounters;
struct OwnRequest;
}  // namespace tern

// An active message that is offered to a peer; see ucp_interface.h.
struct ReplyOffer {
    uct_ep_h ep = nullptr;                         // null: no offer
    bool taken = false;                            // a get has taken the last offer
    size_t length = 0;                             // of the get
    const uct_completion_t* completion = nullptr;  // of the get
    tern::Reply reply;
};

// uct_iface_t. UCX runs no constructors: members that need one are in State. It is the sink of its
// engine (see Engine); one with tag matching is a TagIface or a DirectIface, of the same members.
struct TernIface {
    struct State;

    uct_base_iface_t super;
    tern::Engine* engine;
    tern::Rendezvous* rendezvous;
    tern::Atomics* atomics;
    tern::Rma* rma;
    tern::Matching* matching;  // never null
    tern::TupleQ* tupleq;      // of a DirectIface, for its own functions
    bool in_order;             // all that goes to a peer goes by one queue pair
    int background[3];         // of Background; -1: none
    bool proto;                // the plug-in for UCP gives UCP the model's times
    bool flushing;             // a flush of the interface is under way
    ucs_status_t lost;         // why data was lost during the flush, or UCS_OK
    ReplyOffer offer;          // to the next get
    struct {
        uct_am_callback_t handler;  // of compat::kUcpRequestToSend, when last looked at
        bool of_ucp;                // whether it is UCP's
    } requests;
    ucs_arbiter_t arbiter;  // endpoints whose pending requests are tried
    uint32_t waiting;       // endpoints whose pending requests wait for a connection
    ucs_list_link_t endpoints;
    uint32_t endpoint_count;
    struct {
        size_t headroom;        // UCX's rx_headroom
        uct_recv_desc_t owner;  // of the descriptors
    } kept;                     // messages that UCX keeps where they have arrived
    State* state;

    // Whether the type has tag matching, and what this does at each poll; see iface_progress.h.
    static constexpr bool kMatches = false;
    static bool matching_has_work() { return false; }
    static unsigned progress_sends() { return 0; }
    static unsigned progress_receives() { return 0; }

    void message(uint32_t id, const void* data, uint32_t length);
    bool keeps(uint32_t id, std::byte* data, uint32_t length);
    static bool tagged(tern::Channel&, uint32_t, const std::byte*, uint32_t) { return false; }
    void completed(void* cookie, tern::Status status);
    bool control(tern::Channel& channel, uint32_t id, const std::byte* data, uint32_t length);
    bool notified(tern::Channel& channel, uint32_t immediate) {
        return rendezvous->notified(channel, immediate);
    }

  private:
    void completed_rarely(void* cookie, tern::Status status);
    void complete(void* completion, tern::Status status);
};

// uct_ep_t.
struct TernEp {
    uct_base_ep_t super;
    // The channel if a send may post at once; null: not attached, failed, or requests are pending.
    tern::Channel* ready;
    tern::Channel* channel;
    tern::PeerAddress peer;
    ucs_arbiter_group_t pending;
    bool waits;             // counted in TernIface::waiting: `pending` is not in the arbiter
    tern::OwnRequest* own;  // those among the elements of `pending`, in order
    tern::OwnRequest* last_own;
    bool fence_is_last;   // the last element of `pending` is a fence
    bool untold;          // has failed with a kept message, and the user does not know it yet
    ucs_status_t failed;  // UCS_OK, or why the endpoint has failed
    ucs_list_link_t in_interface;
};

UCS_CLASS_DECLARE(TernIface, uct_md_h, uct_worker_h, const uct_iface_params_t*,
                  const uct_iface_config_t*);
UCS_CLASS_DECLARE_NEW_FUNC(TernIface, uct_iface_t, uct_md_h, uct_worker_h,
                           const uct_iface_params_t*, const uct_iface_config_t*);
UCS_CLASS_DECLARE_NEW_FUNC(TernEp, uct_ep_t, const uct_ep_params_t*);
UCS_CLASS_DECLARE_DELETE_FUNC(TernEp, uct_ep_t);

namespace tern {

inline TernIface& iface_of(uct_iface_h iface) {
    return *reinterpret_cast<TernIface*>(iface);
}
inline TernIface& iface_of(uct_ep_h ep) {
    return iface_of(ep->iface);
}
inline TernEp& ep_of(uct_ep_h ep) {
    return *reinterpret_cast<TernEp*>(ep);
}

// For an endpoint whose `ready` is null: its channel if it can send after all. Null: `status` is
// the reason.
Channel* find_channel(TernEp& ep, ucs_status_t& status);
// False: the device refuses to make a queue pair, and the endpoint has failed.
bool attach(TernEp& ep);
// `pending` has become empty, or is no longer empty.
void pending_changed(TernEp& ep);
// The connection has come up, or is over: pending requests that wait for that are tried again.
void pending_may_go(TernEp& ep);
// Whether no endpoint has pending requests, but those that have failed.
inline bool nothing_pending(TernIface& iface) {
    return iface.waiting == 0 && ucs_arbiter_is_empty(&iface.arbiter);
}
// Whether the peer has asked for a pause of messages, how many sends the pause has refused, and
// since when, at the last look.
struct ChannelPause {
    uint64_t since;
    uint16_t sends;
    bool asked;
};
inline ChannelPause& pause_of(Channel& channel) {
    return channel.user_state.as<ChannelPause>();
}
// The peer asks for a pause of messages, or for its end: until then, sends find no room.
void pause(Channel& channel, bool paused);
// Retries pending requests. Returns how many were sent.
[[gnu::noinline]] unsigned dispatch_pending(TernIface& iface);
// The endpoint's connection is over. UCS_OK: nothing was lost, and the next send connects again.
void ep_closed(TernEp& ep, ucs_status_t status);

// ep.cc: control path of endpoints.
ucs_status_t ep_pending_add(uct_ep_h ep, uct_pending_req_t* request, unsigned flags);
void ep_pending_purge(uct_ep_h ep, uct_pending_purge_callback_t callback, void* argument);
ucs_status_t ep_flush(uct_ep_h ep, unsigned flags, uct_completion_t* completion);
ucs_status_t ep_check(uct_ep_h ep, unsigned flags, uct_completion_t* completion);

int ep_is_connected(uct_ep_h ep, const uct_device_addr_t* device, const uct_iface_addr_t* address);

// ep_fence.cc
ucs_status_t ep_fence(uct_ep_h ep, unsigned flags);
ucs_status_t iface_fence(uct_iface_h iface, unsigned flags);
// Whether there are not yet too many kept messages.
bool may_keep(const TernEp& ep);
// Queues a copy of a message that has been refused, and that UCP cannot queue itself
// (compat::kUcpWireup). Returns its length, or UCS_ERR_NO_RESOURCE.
ssize_t keep_message(TernEp& ep, uct_pack_callback_t pack, void* argument);
// Whether a fence on the endpoint would end at once, without the device's help, where that promises
// the order of bytes.
bool nothing_to_fence(TernEp& ep, const Channel& channel);
// Whether `element`, the first of an endpoint's pending queue, is an OwnRequest, and whether it
// waits. kOver: the caller removes the element; the request is deleted.
enum class OwnState : uint8_t { kNone, kWaits, kOver };
OwnState try_own(TernEp& ep, const ucs_arbiter_elem_t* element);
// Whether `element`, anywhere in the pending queue, is an OwnRequest.
bool is_own(const TernEp& ep, const ucs_arbiter_elem_t* element);
// Whether no request but OwnRequests is queued.
bool only_own_wait(TernEp& ep);
// All requests of the user have been removed.
void only_own_stay(TernEp& ep);
// Deletes them all; the user must have no pending requests left.
void drop_own(TernEp& ep);

// ep_atomic.cc: data path of endpoints.
ucs_status_t ep_atomic64_post(uct_ep_h ep, unsigned opcode, uint64_t value, uint64_t to,
                              uct_rkey_t rkey);
ucs_status_t ep_atomic64_fetch(uct_ep_h ep, unsigned opcode, uint64_t value, uint64_t* result,
                               uint64_t to, uct_rkey_t rkey, uct_completion_t* completion);
ucs_status_t ep_atomic_cswap64(uct_ep_h ep, uint64_t compare, uint64_t swap, uint64_t to,
                               uct_rkey_t rkey, uint64_t* result, uct_completion_t* completion);

// ep_send.cc: data path of endpoints.
ucs_status_t ep_am_short(uct_ep_h ep, uint8_t id, uint64_t header, const void* payload,
                         unsigned length);
ucs_status_t ep_am_short_iov(uct_ep_h ep, uint8_t id, const uct_iov_t* iov, size_t count);
ssize_t ep_am_bcopy(uct_ep_h ep, uint8_t id, uct_pack_callback_t pack, void* argument,
                    unsigned flags);
ucs_status_t ep_am_zcopy(uct_ep_h ep, uint8_t id, const void* header, unsigned header_length,
                         const uct_iov_t* iov, size_t count, unsigned flags,
                         uct_completion_t* completion);
ucs_status_t ep_put_short(uct_ep_h ep, const void* data, unsigned length, uint64_t to,
                          uct_rkey_t rkey);
ucs_status_t ep_put_zcopy(uct_ep_h ep, const uct_iov_t* iov, size_t count, uint64_t to,
                          uct_rkey_t rkey, uct_completion_t* completion);
ucs_status_t ep_get_zcopy(uct_ep_h ep, const uct_iov_t* iov, size_t count, uint64_t from,
                          uct_rkey_t rkey, uct_completion_t* completion);
ucs_status_t ep_get_bcopy(uct_ep_h ep, uct_unpack_callback_t unpack, void* argument, size_t length,
                          uint64_t from, uct_rkey_t rkey, uct_completion_t* completion);
ssize_t ep_put_bcopy(uct_ep_h ep, uct_pack_callback_t pack, void* argument, uint64_t to,
                     uct_rkey_t rkey);

// iface_open.cc
// Sets up an interface whose base class is set up.
ucs_status_t open_interface(TernIface& self, uct_md_h md, const uct_iface_params_t& params,
                            const TernConfig& config);
// Ends what UCX's asynchronous thread does for the interface.
void stop_background(TernIface& iface);

// iface_query.cc: capabilities, performance and addresses of the interface.
ucs_status_t iface_query(uct_iface_h iface, uct_iface_attr_t* attributes);
ucs_status_t iface_get_device_address(uct_iface_h iface, uct_device_addr_t* address);
ucs_status_t iface_get_address(uct_iface_h iface, uct_iface_addr_t* address);
int iface_is_reachable(uct_iface_h iface, const uct_device_addr_t* device,
                       const uct_iface_addr_t* address);
// The rate of the port without the headers of packets, in bytes per second.
double payload_bandwidth(const verbs::Port& port);
// Whether the alignment asked for active messages is valid; logs why not. The alignment has no
// effect: it is for messages that receivers may keep, and Tern delivers none.
bool valid_alignment(const uct_iface_params_t& params);

// Processor time to send or receive a short message, in seconds.
constexpr double kOverhead = 50e-9;
ucs_status_t iface_estimate_perf(uct_iface_h iface, uct_perf_attr_t* attributes);

// Records a loss for the next flush of the interface; a canceled operation is none. A user with an
// error handler gets the error there, and expects later flushes of the interface to succeed.
inline void note_loss(TernIface& iface, Status status) {
    if (status != Status::kCanceled && iface.super.err_handler == nullptr)
        iface.lost = to_ucs(status);
}

// ucp_plugin.cc
// Loads the plug-in for UCP from the folder of this library, and has it substitute Tern's
// protocols. To be called when this library is loaded.
void load_ucp_plugin();
// Why UCP keeps its own protocols; empty if it does not. Only load_ucp_plugin() changes it.
std::string& ucp_plugin_refusal();
// Logs once, at level info, why UCP keeps its own protocols, if it does. To be called when UCX is
// used: children of a preloaded program mostly have no use for it.
void report_ucp_plugin();

// counters.cc
// The counters as a line of JSON.
std::string counters_of(const Engine& engine, const Rendezvous& rendezvous, const Atomics& atomics,
                        const PinCache& pins, const MatchingCounters& matching, const char* device);
// Appends a line to the file that a setting names: "-" is standard error, %p the process id.
void append_counters(const std::string& path, const std::string& line);
// The file with the counters of the process's interface of this number while the program runs.
std::string snapshot_path(const std::string& path, unsigned number);
// Replaces this file by one with the line, so that a reader never finds a part of it.
void replace_snapshot(const std::string& path, const std::string& line);
// Records for `tern-run --explain`.
void explain_interface(const std::string& device, const Engine& engine);
void explain_peer(const std::string& device, const PeerAddress& self, const Channel& channel);
void explain_counters(const std::string& line, const Rendezvous& rendezvous);

}  // namespace tern
