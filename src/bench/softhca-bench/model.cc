// SPDX-License-Identifier: BSD-3-Clause
// What the timing model promises, and what is measured.
#include <algorithm>
#include <cstdlib>

#include "bench/measure/arrival.h"
#include "bench/measure/clock.h"
#include "bench/measure/latency.h"
#include "bench/measure/stream.h"
#include "bench/softhca-bench/rounds.h"
#include "bench/softhca-bench/session.h"
#include "core/nic_model.h"
#include "settings.h"

namespace softhca::bench {
namespace {

constexpr uint32_t kWord = 8;
constexpr uint32_t kBytesUnderWay = 4 << 20;
constexpr uint32_t kMaxWindow = 16;
constexpr uint32_t kGapWindow = 64;
constexpr uint64_t kMessages = 12;  ///< of a bandwidth sample: short, so that most are undisturbed
constexpr uint64_t kMinBytes = 4 << 20;          ///< of a bandwidth sample
constexpr int kStreams = 5;                      ///< samples of a stream in a round
constexpr uint64_t kGapMessages = Link::kDepth;  ///< of a gap sample
constexpr uint64_t kMaxTrips = 1000;             ///< in a round
constexpr int kRegistrations = 5;                ///< in a round
constexpr uint32_t kLongWrite = 64 << 10;
constexpr uint64_t kWrites = 100;  ///< in a round

NicParameters model_of_environment() {
    Settings settings;
    parse_settings(settings, [](const char* name) -> const char* { return std::getenv(name); });
    return settings.nic;
}

template <typename Convert>
Samples converted(Samples samples, Convert&& convert) {
    for (double& sample : samples) sample = convert(sample);
    return samples;
}

class ModelSection {
  public:
    explicit ModelSection(Session& session)
        : session_(session),
          nic_(model_of_environment()),
          memory_(Memory::Kind::private_, kMemory),
          registered_(Memory::Kind::private_, size_t{16} << 20),
          link_(session.device, session.peer, session.options.gid_index, memory_.data(), kMemory),
          shared_(session.device, session.peer, session.options.gid_index, session.shared_half(),
                  kMemory),
          rounds_(session) {
        add_latencies();
        add_pieces();
        add_bandwidths();
        add_gaps();
        add_registrations();
    }
    void run() { rounds_.run(); }

  private:
    void add(std::string label, const char* unit, double model, Rounds::Measure measure) {
        Rounds::Item& item = rounds_.add(std::move(label), unit, std::move(measure));
        if (nic_.models_time()) item.model = model;
    }
    void add_latencies();
    void add_pieces();
    void add_bandwidths();
    void add_gaps();
    void add_registrations();
    /// Samples of a stream: ns from message to message. None in the process that answers.
    Samples spacings(Link& link, const Stream& stream) {
        Samples samples;
        for (int i = 0; i < kStreams; ++i) {
            const double ns = message_spacing(session_.peer, link, stream);
            if (session_.peer.measures()) samples.push_back(ns);
        }
        return samples;
    }
    Samples time_registrations(size_t size);

    Session& session_;
    const NicParameters nic_;
    Memory memory_;
    Memory registered_;
    Link link_;
    Link shared_;
    Rounds rounds_;
};

void ModelSection::add_latencies() {
    const uint64_t trips = std::min(session_.options.iterations, kMaxTrips);
    const double arrival = static_cast<double>(nic_.latency_ns + transmit_ns(nic_, kWord)) / 1000;
    const double completion = arrival + static_cast<double>(nic_.completion_ns) / 1000;
    add("8 B send/recv, CQ polled, half round trip", "us", completion,
        [=, this] { return send_latency(session_.peer, link_, trips); });
    add("8 B send/recv, shared memory, half round trip", "us", completion,
        [=, this] { return send_latency(session_.peer, shared_, trips); });
    add("8 B write, memory and CQ polled, half round trip", "us", arrival, [=, this] {
        return write_latency(session_.peer, link_, trips, Waiting::polls_completions_too);
    });
    add("8 B write, only memory polled, half round trip", "us", arrival,
        [=, this] { return write_latency(session_.peer, link_, trips, Waiting::polls_memory); });
    add("8 B write, shared memory, half round trip", "us", arrival, [=, this] {
        return write_latency(session_.peer, shared_, trips, Waiting::polls_completions_too);
    });
}

/// What a program sees that follows a long write in memory, piece by piece.
void ModelSection::add_pieces() {
    for (const auto& [link, memory] :
         {std::pair(&link_, ""), std::pair(&shared_, ", shared memory")}) {
        for (const auto& [bytes, part] : {std::pair(uint32_t{4} << 10, "its first 4 KiB"),
                                          std::pair(uint32_t{32} << 10, "its first half"),
                                          std::pair(kLongWrite, "all of it")}) {
            const auto model = static_cast<double>(nic_.latency_ns + transmit_ns(nic_, bytes));
            add("64 KiB write" + std::string(memory) + ", " + part, "us", model / 1000,
                [this, link = link, bytes = bytes] {
                    return arrival_times(session_.peer, *link, {kLongWrite, bytes, kWrites});
                });
        }
    }
}

void ModelSection::add_bandwidths() {
    for (const auto& [opcode, name] :
         {std::pair(IBV_WR_RDMA_WRITE, " write, stream"), std::pair(IBV_WR_SEND, " send, stream"),
          std::pair(IBV_WR_RDMA_READ, " read, stream")}) {
        for (const uint32_t size : {64U << 10, 1U << 20}) {
            const auto turn = static_cast<double>(transmit_ns(nic_, size) + nic_.gap_ns);
            const uint32_t window = std::min(kMaxWindow, kBytesUnderWay / size);
            const Stream stream{opcode, size, window, std::max(kMessages, kMinBytes / size)};
            add((size < 1 << 20 ? "64 KiB" : "1 MiB") + std::string(name), "GB/s", size / turn,
                [=, this] {
                    return converted(spacings(link_, stream), [=](double ns) { return size / ns; });
                });
        }
    }
}

void ModelSection::add_gaps() {
    const auto turn = static_cast<double>(transmit_ns(nic_, kWord) + nic_.gap_ns) / 1000;
    const auto add_gap = [&](const char* label, Link* link, ibv_wr_opcode opcode) {
        const Stream stream{opcode, kWord, kGapWindow, kGapMessages};
        add(label, "us", turn, [=, this] {
            return converted(spacings(*link, stream), [](double ns) { return ns / 1000; });
        });
    };
    add_gap("8 B writes, from one to the next", &link_, IBV_WR_RDMA_WRITE);
    add_gap("8 B sends, from one to the next", &link_, IBV_WR_SEND);
    add_gap("8 B writes, shared memory, from one to the next", &shared_, IBV_WR_RDMA_WRITE);
    add_gap("8 B sends, shared memory, from one to the next", &shared_, IBV_WR_SEND);
}

Samples ModelSection::time_registrations(size_t size) {
    session_.peer.meet();
    Samples samples;
    for (int i = 0; session_.peer.measures() && i < kRegistrations; ++i) {
        const uint64_t begin = now_ns();
        const UniqueMr mr = session_.device.register_memory(registered_.data(), size);
        samples.push_back(static_cast<double>(now_ns() - begin) / 1000);
    }
    session_.peer.meet();
    return samples;
}

void ModelSection::add_registrations() {
    for (const auto& [size, name] :
         {std::pair(size_t{4} << 10, "4 KiB"), std::pair(size_t{64} << 10, "64 KiB"),
          std::pair(size_t{1} << 20, "1 MiB"), std::pair(size_t{16} << 20, "16 MiB")}) {
        add(std::string(name) + " registration", "us",
            static_cast<double>(registration_time_ns(nic_, size)) / 1000,
            [=, this] { return time_registrations(size); });
    }
}

}  // namespace

void measure_model(Session& session) {
    ModelSection(session).run();
}

}  // namespace softhca::bench
