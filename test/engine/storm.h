// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "pinning/cache/pin_cache.h"
#include "storm_device.h"

namespace tern::test {

struct StormSettings {
    unsigned seed = 0;
    unsigned threads = 3;
    std::chrono::milliseconds duration{1500};
    // Who changes memory tells the cache before. Then memory comes from mmap() alone.
    bool tells = false;
};

// Threads that map, unmap, move and discard memory, allocate and free it, fork, hand it to each
// other, and have a device read and write it by whatever the cache says is pinned. Each byte that
// is moved is checked, and for memory that is mapped, when its registration was made.
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
        std::vector<uint64_t>
            changed;  // of each page, when it last became another; not of the heap
    };

    void error(const std::string& text);

    StormDevice& device_;
    PinCache& cache_;
    Stamps& stamps_;
    const StormSettings settings_;
    std::mutex mutex_;
    std::vector<Area> exchange_;  // from one thread to another
    std::vector<std::string> errors_;
    std::atomic<uint64_t> transfers_{0};
    std::atomic<uint64_t> found_{0};
    std::atomic<uint64_t> changes_{0};
};

}  // namespace tern::test
