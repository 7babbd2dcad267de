// SPDX-License-Identifier: BSD-3-Clause
// Streams of large messages against process_vm_writev and process_vm_readv on the same memory.
#include "series.h"
#include "session.h"
#include "stream.h"

namespace softhca::bench {
namespace {

constexpr double kTarget = 0.9;
constexpr uint32_t kTargetSize = 1 << 20;
constexpr uint32_t kWindow = 4;
constexpr uint64_t kBytes = 8 << 20;  ///< of a sample
constexpr int kSamples = 5;           ///< in a round

std::string size_text(uint32_t size) {
    return size % (1 << 20) == 0 ? std::to_string(size >> 20) + " MiB"
                                 : std::to_string(size >> 10) + " KiB";
}

/// GB/s of all rounds at one size.
struct Rates {
    Series copied_there, copied_here, written, sent, read;
};

void measure_round(Session& session, Link& link, uint32_t size, Rates* rates) {
    Samples copied_there, copied_here, written, sent, read;
    const auto sample = [&](Samples* samples, auto&& spacing, ibv_wr_opcode opcode) {
        const double ns = spacing(session.peer, link, {opcode, size, kWindow, kBytes / size});
        if (session.peer.measures()) samples->push_back(size / ns);
    };
    for (int i = 0; i < kSamples; ++i) {
        sample(&copied_there, copy_spacing, IBV_WR_RDMA_WRITE);
        sample(&written, message_spacing, IBV_WR_RDMA_WRITE);
        sample(&sent, message_spacing, IBV_WR_SEND);
        sample(&copied_here, copy_spacing, IBV_WR_RDMA_READ);
        sample(&read, message_spacing, IBV_WR_RDMA_READ);
    }
    rates->copied_there.add(copied_there);
    rates->copied_here.add(copied_here);
    rates->written.add(written);
    rates->sent.add(sent);
    rates->read.add(read);
}

void report(Session& session, uint32_t size, const Rates& rates) {
    const auto put = [&](const char* what, const Series& series, const Series& yardstick,
                         double target = kNone) {
        Row row = make_row(size_text(size) + " " + what, "GB/s", series.all);
        row.ratio = ratio(series, yardstick);
        row.ratio_target = target;
        session.report(row);
    };
    put("process_vm_writev (= 1.00)", rates.copied_there, rates.copied_there);
    put("write", rates.written, rates.copied_there, size == kTargetSize ? kTarget : kNone);
    put("send", rates.sent, rates.copied_there);
    put("process_vm_readv (= 1.00)", rates.copied_here, rates.copied_here);
    put("read", rates.read, rates.copied_here);
}

}  // namespace

void measure_bandwidth(Session& session) {
    Memory memory(Memory::Kind::private_, kMemory);
    Link link(session.device, session.peer, session.options.gid_index, memory.data(), kMemory);
    for (const uint32_t size : {1U << 20, 64U << 10, 8U << 10}) {
        Rates rates;
        for (int round = 0; round < session.options.rounds; ++round) {
            measure_round(session, link, size, &rates);
        }
        if (session.peer.measures()) report(session, size, rates);
    }
}

}  // namespace softhca::bench
