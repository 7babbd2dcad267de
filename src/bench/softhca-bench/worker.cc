// SPDX-License-Identifier: BSD-3-Clause
#include "bench/softhca-bench/worker.h"

#include <unistd.h>

#include "bench/measure/cpus.h"
#include "bench/measure/failure.h"
#include "bench/softhca-bench/session.h"

namespace softhca::bench {
namespace {

/// Writes rows as they are; one that reads them is the same program.
class RowWriter : public RowSink {
  public:
    explicit RowWriter(int fd) : fd_(fd) {}
    void put(const Row& row) override {
        if (::write(fd_, &row, sizeof row) != static_cast<ssize_t>(sizeof row)) {
            throw call_failed("writing a row");
        }
    }

  private:
    const int fd_;
};

void measure(const std::string& section, Session& session) {
    if (section == "small") measure_small_messages(session);
    if (section == "bandwidth") measure_bandwidth(session);
    if (section == "model") measure_model(session);
}

}  // namespace

void run_section(const Options& options) {
    const auto cpus = choose_cpus();
    Memory shared(Memory::Kind::shared, 2 * kMemory);
    Peer::run_pair([&](Peer& peer) {
        Device device(options.device);
        // This thread only: what the device runs besides may run elsewhere.
        if (cpus) stay_on(peer.measures() ? cpus->first : cpus->second);
        RowWriter rows(options.row_fd);
        Session session{options, options.title, peer, device, shared, rows};
        measure(options.sections.front(), session);
        peer.meet();
    });
}

}  // namespace softhca::bench
