// SPDX-License-Identifier: BSD-3-Clause
// The launcher's side of PMI-1: the key-value space and the barrier of a job. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rwapi {

class PmiServer {
  public:
    struct Reply {
        uint32_t rank;
        std::string line;
    };
    struct Replies {
        std::vector<Reply> lines;
        std::optional<int> abort;  // a process wants the job to end with this status
        std::string error;         // the sender breaks the protocol
    };

    explicit PmiServer(uint32_t size) : processes_(size) {}

    // Takes a line of a process.
    Replies take(uint32_t rank, std::string_view line);

    // A process has ended. Barriers without it fail from now on.
    Replies end(uint32_t rank);

    // Whether a process has introduced itself and has not said good-bye.
    bool owes_goodbye(uint32_t rank) const { return processes_[rank].phase == Phase::introduced; }

  private:
    enum class Phase { silent, introduced, finished };
    struct Process {
        Phase phase = Phase::silent;
        bool in_barrier = false;
        bool ended = false;
        size_t keys = 0;
    };

    std::string put(Process* process, std::string_view key, std::string_view value);
    std::string get(std::string_view key) const;
    // The answers to those in the barrier, if it is over.
    void settle_barrier(Replies* replies);

    std::vector<Process> processes_;
    std::map<std::string, std::string, std::less<>> values_;
    std::optional<uint32_t> ended_;  // a process that has
};

}  // namespace rwapi
