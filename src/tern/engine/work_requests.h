// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include <chrono>
#include <cstdint>

#include "common/assert.h"
#include "tern/base/tunables.h"
#include "tern/engine/channel.h"

namespace tern {

class Connector;

inline uint64_t address_of(const void* data) {
    return reinterpret_cast<uint64_t>(data);
}

// A put to an idle send queue is signaled, because a flush that follows then needs no work request
// of its own. In a stream of puts the queue is not idle.
inline unsigned signal_first(const Channel& channel) {
    return channel.sends.idle() ? IBV_SEND_SIGNALED : 0;
}

// Makes a work request a write into a peer's block, which is notified as its notify word says
// (WriterWords).
inline void aim_at_block(ibv_send_wr& request, const uint32_t* notify, uint64_t to, uint32_t rkey) {
    const uint32_t word = __atomic_load_n(notify, __ATOMIC_RELAXED);
    request.opcode = word != 0 ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
    request.imm_data = htonl(notify::immediate(word));
    request.wr.rdma.remote_addr = to;
    request.wr.rdma.rkey = rkey;
}

// Posts work requests to the connections' queue pairs, and accounts for them. A connection whose
// device refuses one fails. Data path.
class WorkRequests {
  public:
    explicit WorkRequests(Connector& connector) : connector_(connector) {}

    // The work request of a frame, or of an RDMA write or read, for the caller to complete. Fields
    // that are not set here or by the caller are zero.
    [[gnu::always_inline]] ibv_send_wr& prepare(ibv_wr_opcode opcode, ibv_sge* pieces, int count,
                                                unsigned flags) {
        request_.sg_list = pieces;
        request_.num_sge = count;
        request_.opcode = opcode;
        request_.send_flags = flags;
        return request_;
    }

    // Posts what Batches holds back on this connection. Call before another work request is posted.
    [[gnu::always_inline]] static void post_held(Channel& channel) {
        if (channel.sends.held()) [[unlikely]]
            post_batch(channel);
    }

    // Posts a work request, for which the send queue must have room. `users`: its loss counts as
    // the user's. False: the connection has failed.
    bool post(Channel& channel, ibv_send_wr& request, bool users) {
        post_held(channel);
        TERN_ASSERT(channel.sends.room() != 0);
        const bool signaled =
            channel.sends.signal_due() || (request.send_flags & IBV_SEND_SIGNALED) != 0;
        if (signaled) request.send_flags |= IBV_SEND_SIGNALED;
        request.wr_id = channel.tag | channel.sends.next();
        ibv_send_wr* bad = nullptr;
        if (ibv_post_send(channel.qp.get(), &request, &bad) != 0) [[unlikely]] {
            (void)on_refused(channel);
            return false;
        }
        channel.sends.posted(signaled, users);
        return true;
    }

    // Writes up to engine_limits::kInline bytes, which the device has copied when this returns. The
    // send queue must have room. `signal`: IBV_SEND_SIGNALED or 0.
    bool write_inline(Channel& channel, const void* data, uint32_t length, uint64_t to,
                      uint32_t rkey, bool users, unsigned signal = 0) {
        ibv_sge piece{.addr = address_of(data), .length = length, .lkey = 0};
        ibv_send_wr& request =
            prepare(IBV_WR_RDMA_WRITE, &piece, length != 0 ? 1 : 0, IBV_SEND_INLINE | signal);
        request.wr.rdma.remote_addr = to;
        request.wr.rdma.rkey = rkey;
        return post(channel, request, users);
    }

    // Writes a word of the peer's (WriterWords). `last`: the number of the last write of that word.
    // No other is under way then, or an older value might replace a newer one: writes may become
    // visible in any order. The send queue must have room. `signal`: as above; IBV_SEND_SIGNALED
    // lets the next one follow soon. False: not now, or the connection has failed.
    bool write_word(Channel& channel, uint32_t value, uint64_t to, uint32_t rkey, uint32_t& last,
                    unsigned signal);

    // Posts an RDMA write of no bytes, whose completion reports all work requests before it. False:
    // there is no room now, or the connection has failed.
    bool post_empty(Channel& channel, bool users);
    // Posts such a write unless a completion is due that reports everything posted so far.
    void report_all(Channel& channel) {
        if (!channel.sends.last_is_signaled()) (void)post_empty(channel, false);
    }
    // For a sender that waits: after kSilence, makes sure that a work request is outstanding whose
    // completion would report the peer's death. `since`: of the last look; 0 at first.
    void check_silent(Channel& channel, uint64_t& since);
    // Posts an RDMA write of no bytes on a connection that has failed already.
    static void post_marker(Channel& channel, bool users = false);
    // Work requests posted from now on begin when all reads and atomics before them are complete.
    bool post_fence(Channel& channel);

    // The device has refused a work request: the connection fails. Returns kDevice. Does not throw,
    // as short messages catch nothing.
    Status on_refused(Channel& channel) noexcept;

  private:
    [[gnu::cold, gnu::noinline]] static void post_batch(Channel& channel);

    ibv_send_wr request_{};  // of prepare(); zeroed once, because that takes 20 ns
    Connector& connector_;
};

}  // namespace tern
