// SPDX-License-Identifier: BSD-3-Clause
// Small messages against one process_vm_writev.
#include "latency.h"
#include "series.h"
#include "session.h"

namespace softhca::bench {
namespace {

constexpr double kWriteTarget = 1.5;
constexpr double kSendTarget = 2.5;
constexpr double kSharedTargetUs = 0.4;

}  // namespace

void measure_small_messages(Session& session) {
    Peer& peer = session.peer;
    const Options& options = session.options;
    const uint64_t trips = options.iterations;
    Memory memory(Memory::Kind::private_, kMemory);
    Link link(session.device, peer, options.gid_index, memory.data(), kMemory);
    Link shared(session.device, peer, options.gid_index, session.shared_half(), kMemory);
    Series calls, copies, writes, sends, stores, shared_writes, shared_sends;
    for (int round = 0; round < options.rounds; ++round) {
        calls.add(copy_calls(peer, link, trips));
        writes.add(write_latency(peer, link, trips, Waiting::polls_completions_too));
        sends.add(send_latency(peer, link, trips));
        copies.add(copy_latency(peer, link, trips));
        stores.add(store_latency(peer, shared, trips));
        shared_writes.add(write_latency(peer, shared, trips, Waiting::polls_completions_too));
        shared_sends.add(send_latency(peer, shared, trips));
    }
    if (!peer.measures()) return;
    const auto put = [&](const char* label, const Series& series, double ratio_target = kNone,
                         double target = kNone) {
        Row row = make_row(label, "us", series.all);
        row.ratio = ratio(series, calls);
        row.ratio_target = ratio_target;
        row.target = target;
        session.report(row);
    };
    put("8 B process_vm_writev, one call (= 1.00)", calls);
    put("8 B process_vm_writev, polled, half round trip", copies);
    put("8 B write, polled, half round trip", writes, kWriteTarget);
    put("8 B send/recv, CQ polled, half round trip", sends, kSendTarget);
    put("8 B store, shared memory, half round trip", stores);
    put("8 B write, shared memory, half round trip", shared_writes, kNone, kSharedTargetUs);
    put("8 B send/recv, shared memory, half round trip", shared_sends);
}

}  // namespace softhca::bench
