// SPDX-License-Identifier: BSD-3-Clause
// Small messages against one process_vm_writev.
#include "bench/measure/latency.h"
#include "bench/softhca-bench/rounds.h"
#include "bench/softhca-bench/session.h"

namespace softhca::bench {
namespace {

constexpr double kWriteTarget = 1.5;
constexpr double kSendTarget = 2.5;
constexpr double kSharedTargetUs = 0.4;

}  // namespace

void measure_small_messages(Session& session) {
    Peer& peer = session.peer;
    const uint64_t trips = session.options.iterations;
    Memory memory(Memory::Kind::private_, kMemory);
    Link link(session.device, peer, session.options.gid_index, memory.data(), kMemory);
    Link shared(session.device, peer, session.options.gid_index, session.shared_half(), kMemory);
    Rounds rounds(session);
    const auto writes = [&](Link& link_of) {
        return write_latency(peer, link_of, trips, Waiting::polls_completions_too);
    };
    const Rounds::Item* call = nullptr;
    const auto add = [&](const char* label, Rounds::Measure measure) -> Rounds::Item& {
        Rounds::Item& item = rounds.add(label, "us", std::move(measure));
        if (call == nullptr) call = &item;
        item.yardstick = call;
        return item;
    };
    add("8 B process_vm_writev, one call", [&] { return copy_calls(peer, link, trips); });
    add("8 B write, half round trip", [&] { return writes(link); }).ratio_target = kWriteTarget;
    add("8 B send/recv, half round trip", [&] {
        return send_latency(peer, link, trips);
    }).ratio_target = kSendTarget;
    add("8 B process_vm_writev, half round trip", [&] { return copy_latency(peer, link, trips); });
    add("8 B write, shared memory, half round trip", [&] { return writes(shared); }).target =
        kSharedTargetUs;
    add("8 B send/recv, shared memory, half round trip",
        [&] { return send_latency(peer, shared, trips); });
    add("8 B store, shared memory, half round trip",
        [&] { return store_latency(peer, shared, trips); });
    rounds.run();
}

}  // namespace softhca::bench
