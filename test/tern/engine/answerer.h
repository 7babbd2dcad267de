// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <poll.h>

#include <atomic>
#include <thread>
#include <vector>

#include "node.h"

namespace tern::test {

// A thread that answers for nodes, as UCX's asynchronous thread does. Destroy it before the nodes.
class Answerer {
  public:
    explicit Answerer(std::vector<Node*> nodes) {
        for (Node* node : nodes) engines_.push_back(node->engine.get());
        thread_ = std::thread([this] { run(); });
    }
    ~Answerer() {
        stop_ = true;
        thread_.join();
    }

  private:
    void run() {
        std::vector<pollfd> fds;
        for (Engine* engine : engines_) {
            engine->background().answer();
            fds.push_back({engine->background().fd(), POLLIN, 0});
        }
        while (!stop_) {
            if (::poll(fds.data(), fds.size(), 2) <= 0) continue;
            for (size_t i = 0; i < fds.size(); ++i)
                if (fds[i].revents != 0) engines_[i]->background().answer();
        }
    }

    std::vector<Engine*> engines_;
    std::atomic<bool> stop_ = false;
    std::thread thread_;
};

}  // namespace tern::test
