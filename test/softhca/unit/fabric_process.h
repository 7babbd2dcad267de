// SPDX-License-Identifier: BSD-3-Clause
// For tests with several processes: a fabric for each test, and children that die with the test.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "common/patience.h"
#include "softhca/core/nic_profiles.h"
#include "softhca/fabric/segment.h"
#include "softhca/transport/adapter.h"

namespace softhca::test {

// A fabric name that no other test uses.
inline std::string unique_fabric() {
    static int count = 0;
    return "unit-" + std::to_string(getpid()) + "-" + std::to_string(count++);
}

struct NoEvents : EventSink {
    void completion_event(Cq&) override {}
    void cq_error(Cq&) override {}
    void qp_event(Qp&, QpEvent) override {}
    void srq_limit(Srq&) override {}
    void port_changed(uint32_t, bool) override {}
    void devices_failed() override {}
};

inline std::unique_ptr<Segment> open_segment(const std::string& name,
                                             const char* profile = nullptr) {
    FabricConfig config{};
    if (profile != nullptr) config.nic = *find_profile(profile);
    config.personality = *find_personality("default");
    config.devices = 1;
    config.ports = 1;
    config.link_layer = LinkLayer::kInfiniband;
    std::string error;
    return Segment::open(name, config, &error);
}

inline NoEvents no_events;

inline Adapter* start_adapter(const std::string& name, EventSink& sink = no_events,
                              const char* profile = nullptr) {
    std::string error;
    auto segment = open_segment(name, profile);
    return segment == nullptr ? nullptr
                              : Adapter::start(std::move(segment), false, sink, &error).release();
}

// A value in memory shared with the children.
template <typename T>
T* shared_value() {
    void* memory =
        mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return new (memory) T{};
}

template <typename Condition>
bool wait_for(Condition&& condition, std::chrono::milliseconds limit = tern::test::patience()) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > end) return false;
        std::this_thread::yield();
    }
    return true;
}

// A child process that runs `body` and exits with its result.
class Child {
  public:
    explicit Child(const std::function<int()>& body) : pid_(fork()) {
        if (pid_ == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            _exit(body());
        }
    }
    ~Child() {
        if (pid_ > 0) kill();
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    pid_t pid() const { return pid_; }
    void kill() {
        ::kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, __WALL);
        pid_ = -1;
    }
    // The exit status; -1 if the child did not exit normally before the deadline.
    int join() {
        int status = 0;
        const bool ended = wait_for([&] { return waitpid(pid_, &status, WNOHANG) == pid_; });
        if (!ended) {
            kill();
            return -1;
        }
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }

  private:
    pid_t pid_;
};

// A fabric of its own for each test, and a value that the test shares with its children.
template <typename Shared>
class ProcessesTest : public testing::Test {
  protected:
    const std::string name_ = unique_fabric();
    Shared* shared_ = shared_value<Shared>();
    void TearDown() override {
        std::string error;
        EXPECT_TRUE(Segment::remove_if_unused(name_, &error)) << error;
        munmap(shared_, sizeof *shared_);
    }
    // Joins the fabric with an engine that runs `body`.
    Host& join(void (*body)(void*)) {
        std::string error;
        return *Host::join(open_segment(name_), false, body, nullptr, &error).release();
    }
    // Of the process that has introduced itself to the others.
    void introduce(Host& host) { shared_->slot = static_cast<int>(host.slot()); }
    uint32_t slot() const { return static_cast<uint32_t>(shared_->slot.load()); }
};

}  // namespace softhca::test
