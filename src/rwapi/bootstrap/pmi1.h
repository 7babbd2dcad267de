// SPDX-License-Identifier: BSD-3-Clause
// Start-up by PMI-1: MPICH's mpiexec.hydra, and rwapi-run. The connection to the launcher is a
// socket whose number is in PMI_FD; pmi1_port.h has another way.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "rwapi/bootstrap/launcher.h"
#include "rwapi/bootstrap/pmi1_message.h"

namespace rwapi {

// One request at a time, also during a barrier. After an error of the connection all of them fail.
class Pmi1Launcher final : public Launcher {
  public:
    // Takes the socket over. rank < size, or they are not known.
    explicit Pmi1Launcher(int fd) : Pmi1Launcher(fd, 0, 0) {}
    Pmi1Launcher(int fd, uint32_t rank, uint32_t size) : fd_(fd), rank_(rank), size_(size) {}
    ~Pmi1Launcher() override;

    // Introduces the process, which must precede the rest.
    int start();
    // The same, after asking the launcher for the rank and size of its process `id`.
    int start_as(int id);

    uint32_t rank() const override { return rank_; }
    uint32_t size() const override { return size_; }
    int put(uint32_t number, std::span<const std::byte> address) override;
    int get(uint32_t number, uint32_t node, std::vector<std::byte>& address) override;
    int barrier() override;
    void finish() override;

  private:
    int introduce();
    bool ask_rank_and_size(int id);
    // Sends a line, and takes the next line, which must be that command and not say that it failed.
    std::optional<Pmi1Message> request(const std::string& line, std::string_view answer);
    // The message, if it is the awaited answer. A refusal of the launcher's is logged.
    std::optional<Pmi1Message> checked(const std::string& received, std::string_view answer,
                                       const std::string& line);
    // Nothing: the barrier is not over.
    std::optional<int> look_at_barrier();
    bool readable(int milliseconds) const;
    bool send_line(std::string_view line);
    std::optional<std::string> receive_line();
    std::nullopt_t fail(const std::string& reason);

    const int fd_;
    uint32_t rank_, size_;
    bool broken_ = false;
    bool in_barrier_ = false;
    size_t max_value_ = 0;
    std::string space_;  // the name of the job's key-value space
    LineBuffer lines_;
    std::optional<std::string> barrier_out_;  // came while another thread waited for an answer
    std::mutex mutex_;                        // of all above
    std::mutex barrier_mutex_;                // one barrier at a time; taken before mutex_
};

// Whether the environment names a launcher's socket that is open.
bool pmi1_offered();
// Null: it failed, and has said why.
std::unique_ptr<Launcher> connect_pmi1();

}  // namespace rwapi
