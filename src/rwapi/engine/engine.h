// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "rwapi/base/log.h"
#include "rwapi/bootstrap/bootstrap.h"
#include "rwapi/core/handles.h"
#include "rwapi/core/net.h"
#include "rwapi/core/operations.h"
#include "rwapi/core/slots.h"
#include "rwapi/core/tags.h"
#include "rwapi/engine/peer.h"

namespace rwapi {

struct EngineSettings {
    Tags::Lease tag;  // tells the handles of contexts apart
    int threads;
    uint32_t slots;
    uint32_t operations;
    uint32_t credit;
};

// What a put or get asks for.
struct Transfer {
    uint64_t region;
    uint64_t offset;
    std::byte* local;
    size_t length;
    NoticeKind kind = NoticeKind::kNone;
    uint64_t place = 0;
    uint64_t value = 0;
};

// One context: its transport, peers, regions and operations. Not thread-safe. Calls return 0, or an
// RWAPI_ERR_*; ids as rwapi_id does.
class Engine {
  public:
    Engine(const EngineSettings& settings, std::shared_ptr<Bootstrap> bootstrap);
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    int open();
    // Completes everything and waits for the other processes.
    int close();

    // What a later context with the same tag must know.
    Generations generations() const;

    uint32_t rank() const { return rank_; }
    uint32_t size() const { return size_; }
    const std::string& transport_name() const { return transport_.name(); }

    // Memory.
    int add_region(std::byte* memory, uint64_t length, int rights, bool allocated,
                   uint64_t& handle);
    int remove_region(uint64_t handle);
    int pack_region(uint64_t handle, std::span<std::byte> room, size_t& length);
    int unpack_region(std::span<const std::byte> bytes, uint64_t& handle);
    rwapi_net net_address(uint64_t handle) const;
    Mine* find_mine(uint64_t handle, int& error) { return mine_.find(handle, error); }
    Remote* find_remote(uint64_t handle, int& error);
    Mine* find_allocated(const void* memory);

    // Operations. `known`: somebody will ask for the id.
    rwapi_id put(const Transfer& transfer, bool known);
    rwapi_id get(const Transfer& transfer, bool known);
    rwapi_id write(uint32_t node, const rwapi_net& from, const rwapi_net& to, size_t length);
    rwapi_id flush(uint32_t node, bool known);
    rwapi_id flush_all(bool known);
    int fence(uint32_t node);
    int send(uint32_t node, const rwapi_small& small);
    bool receive(uint32_t& node, rwapi_small& small);
    int test(rwapi_id id) const { return operations_.test(id); }

    Slots& slots() { return slots_; }
    HandleTable<Counter>& counters() { return counters_; }

    unsigned progress();
    int event_fd() { return transport_.event_fd(); }
    int arm();
    int peer_status(uint32_t node);

  private:
    using Clock = std::chrono::steady_clock;
    enum class Step : uint8_t { kBlocked, kOver };

    // engine.cc
    Peer& peer_of(uint32_t node);
    bool greet(Peer& peer);
    void connect(Peer& peer);
    void make_busy(Peer& peer);
    bool drain(Peer& peer);
    bool send_control(Peer& peer);
    void probe_if_due();
    void probe(Peer& peer);

    // operations.cc, posting.cc
    Operation* take(Task task, Peer& peer, bool known);
    rwapi_id transfer(Task task, const Transfer& transfer, bool known);
    rwapi_id transfer_here(Task task, const Transfer& transfer, Mine& mine);
    int check_remote(Task task, const Remote& remote, const Transfer& transfer) const;
    int check_net(const rwapi_net& net);
    void begin_flushes();
    rwapi_id start(Operation& operation);
    Step advance(Operation& operation);
    Step resolve(Operation& operation);
    bool post_short(const Remote& remote, const Transfer& what);
    ucs_status_t post_data(Operation& operation);
    ucs_status_t post_put(Operation& operation);
    ucs_status_t post_get(Operation& operation);
    ucs_status_t register_local(Operation& operation);
    ucs_status_t order(Operation& operation);
    ucs_status_t post_flush(Operation& operation);
    ucs_status_t post_notified(const Remote& remote, const Transfer& what, const Notice& notice);
    ucs_status_t post_notice(Operation& operation);
    uint64_t notice_header(NoticeKind kind) const;
    static Notice notice_of(const Remote& remote, const Transfer& what) {
        return {remote.key.index, remote.key.generation, what.length, what.place, what.value};
    }
    ucs_status_t post_small(Peer& peer, const rwapi_small& small);
    Step fail(Operation& operation, ucs_status_t status);
    void finish(Operation& operation, int result);
    static void on_done(uct_completion_t* completion);

    // receive.cc
    template <void (Engine::*Handler)(std::span<const std::byte>)>
    static ucs_status_t on_message(void* engine, void* data, size_t length, unsigned) {
        try {
            (static_cast<Engine*>(engine)->*Handler)({static_cast<const std::byte*>(data), length});
        } catch (const std::exception& error) {
            log_error("a message is lost: %s", error.what());
        }
        return UCS_OK;
    }
    Peer* sender_of(const Header& header);
    void on_small(std::span<const std::byte> message);
    void on_notice(std::span<const std::byte> message);
    void on_credit(std::span<const std::byte> message);
    void on_key_request(std::span<const std::byte> message);
    void on_key_answer(std::span<const std::byte> message);
    void on_wire(std::span<const std::byte> message);
    void on_refusal(std::span<const std::byte> message);
    void take_credit(Peer& peer, uint16_t credit);
    void take_wires();
    bool apply(NoticeKind kind, const Notice& notice);
    void refuse(uint32_t node, const Notice& notice);
    void complain(uint32_t node, const char* what);

    // memory.cc
    Mine* find_local(const std::byte* memory, size_t length);
    int add_remote(const Key& key, uint64_t& handle);
    bool key_of(uint64_t name, Key& key);
    void mark_stale(Remote& remote);
    void release(Mine& mine);
    void release(Remote& remote);

    // failure.cc
    static ucs_status_t on_failure(void* engine, uct_ep_h endpoint, ucs_status_t status);
    void mark_failed(Peer& peer, ucs_status_t status);
    void bury(Peer& peer);

    const EngineSettings settings_;
    const std::shared_ptr<Bootstrap> bootstrap_;
    const uint32_t rank_, size_;
    uint64_t incarnation_ = 0;
    uint64_t patience_ = 30;  // of close() if a peer has died, in seconds
    bool flush_before_notice_ = false;
    bool any_dead_ = false;
    bool armed_ = false;                   // a thread may sleep; only with RWAPI_THREAD_MULTIPLE
    const Operation* starting_ = nullptr;  // its error is the call's

    HandleTable<Mine> mine_;
    HandleTable<Remote> remotes_;
    HandleTable<Counter> counters_;
    Slots slots_;
    OperationPool<Operation> operations_;
    Inbox inbox_;
    std::multimap<const std::byte*, Mine*> by_address_;
    Mine* recent_ = nullptr;  // where a local buffer was found last

    std::unordered_map<uint32_t, std::unique_ptr<Peer>> peers_;
    std::vector<Peer*> draining_;  // were in busy_ when progress() began with it
    std::vector<Peer*> busy_;      // have something to do in progress()
    std::vector<Peer*> failed_;    // are to be buried in progress()

    // A flush of all peers, and those whose parts have not begun.
    struct FlushAll {
        Operation* whole = nullptr;
        std::vector<uint32_t> nodes;
    };
    std::deque<FlushAll> flushing_;  // while it is not empty, busy_ is not

    struct Wire {
        uint32_t node;
        bool connected;
        uint64_t incarnation;
        std::vector<std::byte> endpoint;
    };
    std::vector<Wire> wires_;  // have come, and wait for progress()

    uint32_t turns_ = 0;
    Clock::time_point probed_{};
    // Last: its objects are destroyed first, while completions may still be called.
    Transport transport_;
};

}  // namespace rwapi
