// SPDX-License-Identifier: BSD-3-Clause
// Start-up by PMI-1.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "rwapi/bootstrap/launcher.h"
#include "rwapi/bootstrap/pmi1_message.h"

namespace rwapi {

// One request at a time, also during a barrier. After an error of the connection, all requests
// fail.
class Pmi1Launcher final : public Launcher {
  public:
    // Owns the socket from now on. rank < size.
    Pmi1Launcher(int fd, uint32_t rank, uint32_t size) : fd_(fd), rank_(rank), size_(size) {}
    ~Pmi1Launcher() override;

    // Begins the protocol; called before the other functions.
    int start();

    // How long an answer may take, in milliseconds; except the end of a barrier, which takes as
    // long as the other processes do.
    void limit_answers(int milliseconds) { answer_limit_ = milliseconds; }

    uint32_t rank() const override { return rank_; }
    uint32_t size() const override { return size_; }
    int put(uint32_t number, std::span<const std::byte> address) override;
    int get(uint32_t number, uint32_t node, std::vector<std::byte>& address) override;
    int barrier() override;
    void finish() override;

  private:
    int introduce();
    // Sends a line and receives the answer, which must be this command without an error.
    std::optional<Pmi1Message> request(const std::string& line, std::string_view answer);
    // The message, if it is the expected answer without an error. Errors are logged.
    std::optional<Pmi1Message> checked(const std::string& received, std::string_view answer,
                                       const std::string& line);
    // Nothing: the barrier is not over.
    std::optional<int> check_barrier();
    bool readable(int milliseconds) const;
    bool send_line(std::string_view line);
    std::optional<std::string> receive_line();
    std::nullopt_t fail(const std::string& reason);

    const int fd_;
    const uint32_t rank_, size_;
    int answer_limit_ = 60'000;  // a launcher that takes longer stands still
    bool broken_ = false;
    bool in_barrier_ = false;
    size_t max_value_ = 0;
    std::string space_;  // the name of the job's key-value space
    LineBuffer lines_;
    std::optional<std::string> barrier_out_;  // the end of the barrier, which any thread may read
    std::mutex mutex_;                        // of all above
    std::mutex barrier_mutex_;                // one barrier at a time; taken before mutex_
};

}  // namespace rwapi
