// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/bootstrap/bootstrap.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "common/blocked_signals.h"
#include "rwapi/base/log.h"
#include "rwapi/bootstrap/launcher.h"

namespace rwapi {
namespace {

class LauncherBootstrap final : public Bootstrap {
  public:
    LauncherBootstrap(Launcher* launcher, uint32_t number) : launcher_(launcher), number_(number) {}

    uint32_t rank() const override { return launcher_->rank(); }
    uint32_t size() const override { return launcher_->size(); }

    int publish(std::span<const std::byte> mine) override {
        if (mine.size() > kMaxAddress) return RWAPI_ERR_INVALID;
        const int error = launcher_->put(number_, mine);
        // The others wait also for a process that cannot publish.
        const bool met = launcher_->barrier() == 0;
        return error != 0 || met ? error : RWAPI_ERR_START;
    }

    int lookup(uint32_t node, std::vector<std::byte>& address) override {
        return node < size() ? launcher_->get(number_, node, address) : RWAPI_ERR_NODE;
    }

    // In a thread of its own, as launchers answer only when the barrier is over.
    int begin_barrier() override {
        auto barrier = std::make_shared<Barrier>();
        try {
            const tern::base::BlockedSignals blocked;  // they are for the program's threads
            std::thread([barrier, launcher = launcher_] {
                const int error = launcher->barrier();
                barrier->result.store(error != 0 ? error : 1, std::memory_order_release);
            }).detach();
        } catch (const std::exception&) {
            log_error("there is no thread for the launcher's barrier");
            return RWAPI_ERR_MEMORY;
        }
        barrier_ = std::move(barrier);
        return 0;
    }

    int test_barrier() override { return barrier_->result.load(std::memory_order_acquire); }

  private:
    // The thread has it, too, because the barrier may never end.
    struct Barrier {
        std::atomic<int> result{0};  // of test_barrier()
    };

    Launcher* const launcher_;
    const uint32_t number_;
    std::shared_ptr<Barrier> barrier_;
};

// The start-up of a process without a launcher.
constexpr rwapi_bootstrap kAlone = {nullptr,
                                    0,
                                    1,
                                    [](void*, const void* mine, size_t bytes, void* all) {
                                        std::memcpy(all, mine, bytes);
                                        return 0;
                                    },
                                    [](void*) { return 0; },
                                    [](void*) { return 1; }};

// The connection of this process to its launcher. It outlives all contexts, because a process can
// enter and leave a launcher's job only once. The Launcher is never freed, because a detached
// thread may still wait in its barrier when the process ends.
class ProcessLauncher {
  public:
    ~ProcessLauncher() {
        // A child of fork inherits the connection, but must not use it.
        if (launcher_ != nullptr && owner_ == ::getpid()) launcher_->finish();
    }

    // The environment is read once. Otherwise a retry after a failed start could make a job of one
    // process, and a second context could have another size than the first.
    std::unique_ptr<Bootstrap> make_bootstrap(int& error) {
        const std::lock_guard lock(mutex_);
        if (launcher_ == nullptr && !failed_ && connection() == nullptr)
            return make_table_bootstrap(kAlone, error);
        error = RWAPI_ERR_START;
        if (launcher_ != nullptr && owner_ != ::getpid()) {
            log_error("a child of fork does not belong to the job: use rwapi in its parent");
            return nullptr;
        }
        if (launcher_ == nullptr && !failed_) {
            launcher_ = connection()().release();
            owner_ = ::getpid();
            failed_ = launcher_ == nullptr;
        }
        if (failed_) return nullptr;
        error = 0;
        return std::make_unique<LauncherBootstrap>(launcher_, made_++);
    }

  private:
    // The function that connects; null: no launcher has started this process.
    static auto connection() -> std::unique_ptr<Launcher> (*)() {
        if (pmi1_offered()) return connect_pmi1;
        if (pmix_offered()) return connect_pmix;
        if (std::getenv("PMI_PORT") != nullptr) return refuse_port;
        return nullptr;
    }

    // Otherwise each process would be a job of its own.
    static std::unique_ptr<Launcher> refuse_port() {
        log_error(
            "PMI_PORT is set, and rwapi does not connect to a launcher's port: start the job by "
            "mpiexec.hydra without -pmi-port, or unset PMI_PORT if no launcher has started this "
            "process");
        return nullptr;
    }

    std::mutex mutex_;
    Launcher* launcher_ = nullptr;
    bool failed_ = false;
    pid_t owner_ = 0;
    uint32_t made_ = 0;
};

}  // namespace

std::unique_ptr<Bootstrap> make_bootstrap(const rwapi_bootstrap* table, int& error) {
    error = 0;
    if (table != nullptr) return make_table_bootstrap(*table, error);
    static ProcessLauncher launcher;
    return launcher.make_bootstrap(error);
}

}  // namespace rwapi
