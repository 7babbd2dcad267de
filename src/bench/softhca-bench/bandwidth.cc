// SPDX-License-Identifier: BSD-3-Clause
// Streams of large messages against process_vm_writev and process_vm_readv on the same memory.
#include <algorithm>

#include "bench/measure/stream.h"
#include "bench/softhca-bench/rounds.h"
#include "bench/softhca-bench/session.h"

namespace softhca::bench {
namespace {

constexpr double kTarget = 0.9;
constexpr uint32_t kTargetSize = 1 << 20;
constexpr uint32_t kWindow = 4;
constexpr uint64_t kBytes = 16 << 20;  ///< of a sample, at most
constexpr int kSamples = 3;            ///< in a round

std::string size_text(uint32_t size) {
    return size % (1 << 20) == 0 ? std::to_string(size >> 20) + " MiB"
                                 : std::to_string(size >> 10) + " KiB";
}

using Spacing = double (*)(Peer&, Link&, const Stream&);

Samples rates(Session& session, Link& link, Spacing spacing, ibv_wr_opcode opcode, uint32_t size) {
    const Stream stream{opcode, size, kWindow, std::min<uint64_t>(kBytes / size, Link::kDepth)};
    Samples samples;
    for (int i = 0; i < kSamples; ++i) {
        const double ns = spacing(session.peer, link, stream);
        if (session.peer.measures()) samples.push_back(size / ns);
    }
    return samples;
}

void add_size(Session& session, Link& link, uint32_t size, Rounds* rounds) {
    const auto add = [&](const char* what, Spacing spacing, ibv_wr_opcode opcode) -> Rounds::Item& {
        return rounds->add(size_text(size) + " " + what, "GB/s",
                           [&session, &link, spacing, opcode, size] {
                               return rates(session, link, spacing, opcode, size);
                           });
    };
    Rounds::Item& there = add("process_vm_writev", copy_spacing, IBV_WR_RDMA_WRITE);
    Rounds::Item& write = add("write", message_spacing, IBV_WR_RDMA_WRITE);
    Rounds::Item& send = add("send", message_spacing, IBV_WR_SEND);
    Rounds::Item& here = add("process_vm_readv", copy_spacing, IBV_WR_RDMA_READ);
    Rounds::Item& read = add("read", message_spacing, IBV_WR_RDMA_READ);
    there.yardstick = write.yardstick = send.yardstick = &there;
    here.yardstick = read.yardstick = &here;
    if (size == kTargetSize) write.ratio_target = kTarget;
}

}  // namespace

void measure_bandwidth(Session& session) {
    Memory memory(Memory::Kind::private_, kMemory);
    Link link(session.device, session.peer, session.options.gid_index, memory.data(), kMemory);
    Rounds rounds(session);
    for (const uint32_t size : {1U << 20, 64U << 10, 8U << 10}) {
        add_size(session, link, size, &rounds);
    }
    rounds.run();
}

}  // namespace softhca::bench
