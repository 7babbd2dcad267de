// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "storm_device.h"
#include "tern/pinning/cache/pin_cache.h"

namespace tern::test {

struct StormSettings {
    unsigned seed = 0;
    unsigned threads = 3;
    std::chrono::milliseconds duration{0};
    // Threads tell the cache before they change memory, which then comes from mmap() only.
    bool tells = false;
    // Some memory is shared. Threads tell the cache before they change that.
    bool shares = false;
};

// Threads that map, unmap, move, discard, allocate and free memory, fork, and pass memory to each
// other. A device reads and writes memory that the cache reports as pinned. The test checks each
// byte moved and, for mapped memory, the time of its registration.
class Storm {
  public:
    Storm(StormDevice& device, PinCache& cache, Stamps& stamps, const StormSettings& settings)
        : device_(device), cache_(cache), stamps_(stamps), settings_(settings) {}

    void run();

    const std::vector<std::string>& errors() const { return errors_; }
    uint64_t transfers() const { return transfers_; }
    uint64_t found() const { return found_; }
    uint64_t changes() const { return changes_; }

  private:
    class Worker;
    struct Area {
        char* start = nullptr;
        size_t size = 0;
        bool heap = false;
        bool shared = false;
        std::vector<uint64_t> changed;  // per page: time of the last change; not for the heap
    };

    void error(const std::string& text);

    StormDevice& device_;
    PinCache& cache_;
    Stamps& stamps_;
    const StormSettings settings_;
    std::mutex mutex_;
    std::vector<Area> exchange_;  // memory that threads pass to each other
    std::vector<std::string> errors_;
    std::atomic<uint64_t> transfers_{0};
    std::atomic<uint64_t> found_{0};
    std::atomic<uint64_t> changes_{0};
};

}  // namespace tern::test
