// SPDX-License-Identifier: BSD-3-Clause
// Answers to RDMA reads that are on their way, with the timing model.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <new>
#include <utility>

namespace softhca {

// The answers to reads that the responder has acted on, in the order of the send queue. Under the
// queue pair's execute_mutex_.
class ReadAnswers {
  public:
    // Longer answers are copied when they arrive.
    static constexpr uint64_t kMaxBytes = 64 << 10;

    // Room for the next answer; nullptr if there is no memory.
    char* add(uint64_t bytes) {
        std::unique_ptr<char[]> answer(new (std::nothrow) char[bytes]);
        if (answer == nullptr) return nullptr;
        answers_.push_back(std::move(answer));
        return answers_.back().get();
    }
    void take_back() { answers_.pop_back(); }
    char* first() { return answers_.front().get(); }
    void pop() { answers_.pop_front(); }
    void clear() { answers_.clear(); }

  private:
    std::deque<std::unique_ptr<char[]>> answers_;
};

}  // namespace softhca
