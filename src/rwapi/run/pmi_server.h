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
        std::optional<int> abort;  // the sender ends the job with this status
        std::string error;         // the sender has violated the protocol
    };

    explicit PmiServer(uint32_t size) : processes_(size) {}

    // Handles a line of a process.
    Replies take(uint32_t rank, std::string_view line);

    // Handles the end of a process. From now on, barriers fail, when all living processes are in
    // them, and what the process has put cannot be got.
    Replies end(uint32_t rank);

    // Whether a process has entered the job and not left it.
    bool is_in_job(uint32_t rank) const { return processes_[rank].phase == Phase::kEntered; }

  private:
    enum class Phase { kNew, kEntered, kLeft };
    struct Process {
        Phase phase = Phase::kNew;
        bool in_barrier = false;
        bool ended = false;
        size_t keys = 0;
    };

    struct Value {
        uint32_t rank;  // of the process that has put it
        std::string text;
    };

    std::string put(uint32_t rank, std::string_view key, std::string_view value);
    std::string get(std::string_view key) const;
    // Answers the processes in the barrier if it is over.
    void end_barrier_if_over(Replies* replies);

    std::vector<Process> processes_;
    std::map<std::string, Value, std::less<>> values_;
    std::optional<uint32_t> ended_;  // the first process that has ended
};

}  // namespace rwapi
