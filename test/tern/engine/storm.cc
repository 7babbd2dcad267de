// SPDX-License-Identifier: BSD-3-Clause
#include "storm.h"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "common/patience.h"

namespace tern::test {

namespace {

const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));
constexpr int kRights = PROT_READ | PROT_WRITE;

}  // namespace

class Storm::Worker {
  public:
    Worker(Storm& storm, unsigned seed) : storm_(storm), random_(seed) {
        for (size_t i = 0; i < kAreas; ++i) areas_.push_back(make());
    }
    ~Worker() {
        for (Area& area : areas_) drop(area);
    }

    void step() {
        Area& area = areas_[random_() % areas_.size()];
        const unsigned what = random_() % 64;
        if (what >= 14) {
            transfer(area);
            return;
        }
        ++storm_.changes_;
        if (what < 4 || area.heap) {
            replace(area);
        } else if (what < 7) {
            discard(area);
        } else if (what < 9) {
            map_over(area);
        } else if (what < 12) {
            move(area);
        } else if (what < 13) {
            hand_over(area);
        } else if (random_() % 16 == 0) {
            fork_child();
        } else {
            discard(area);
        }
    }

  private:
    static constexpr size_t kAreas = 6;

    void tell(const Area& area, size_t from, size_t to) {
        if (storm_.settings_.tells || area.shared)
            storm_.cache_.unmapped(area.start + from, area.start + to);
    }
    static int kind(const Area& area) {
        return MAP_ANONYMOUS | (area.shared ? MAP_SHARED : MAP_PRIVATE);
    }
    void stamp(Area& area, size_t from, size_t to) {
        const uint64_t now = storm_.stamps_.now();
        for (size_t page = from / kPage; page < to / kPage; ++page) area.changed[page] = now;
    }
    size_t random_size() { return (1 + random_() % 32) * kPage; }

    Area make() {
        Area area;
        area.heap = !storm_.settings_.tells && random_() % 3 == 0;
        if (area.heap) {
            area.size = 1 + random_() % (random_() % 2 == 0 ? 600'000 : 60'000);
            area.start = static_cast<char*>(malloc(area.size));
            return area;
        }
        area.shared = storm_.settings_.shares && random_() % 2 == 0;
        area.size = random_size();
        area.start = static_cast<char*>(mmap(nullptr, area.size, kRights, kind(area), -1, 0));
        area.changed.resize(area.size / kPage);
        stamp(area, 0, area.size);
        return area;
    }
    void drop(const Area& area) {
        if (area.heap) {
            free(area.start);
            if (random_() % 8 == 0) malloc_trim(0);
        } else {
            tell(area, 0, area.size);
            munmap(area.start, area.size);
        }
    }

    void replace(Area& area) {
        drop(area);
        if (random_() % 4 == 0) std::this_thread::yield();
        area = make();
    }
    // A range of whole pages.
    std::pair<size_t, size_t> part(const Area& area) {
        const size_t pages = area.size / kPage;
        const size_t first = random_() % pages;
        return {first * kPage, (first + 1 + random_() % (pages - first)) * kPage};
    }
    void discard(Area& area) {
        const auto [from, to] = part(area);
        tell(area, from, to);
        madvise(area.start + from, to - from, MADV_DONTNEED);
        stamp(area, from, to);
    }
    void map_over(Area& area) {
        const auto [from, to] = part(area);
        tell(area, from, to);
        mmap(area.start + from, to - from, kRights, kind(area) | MAP_FIXED, -1, 0);
        stamp(area, from, to);
    }
    // Grows, shrinks or moves the area. mremap() fails if the area has several mappings; then
    // nothing changes.
    void move(Area& area) {
        // Shared memory has no pages beyond its first size.
        const size_t size = area.shared ? std::min(random_size(), area.size) : random_size();
        tell(area, 0, area.size);
        void* to = mremap(area.start, area.size, size, MREMAP_MAYMOVE);
        if (to == MAP_FAILED) return;
        const size_t stays = to == area.start ? std::min(size, area.size) : 0;
        area.start = static_cast<char*>(to);
        area.size = size;
        area.changed.resize(size / kPage);
        stamp(area, stays, size);
    }
    void hand_over(Area& area) {
        const std::lock_guard lock(storm_.mutex_);
        storm_.exchange_.push_back(std::move(area));
        const size_t which = random_() % storm_.exchange_.size();
        area = std::move(storm_.exchange_[which]);
        storm_.exchange_.erase(storm_.exchange_.begin() + static_cast<ptrdiff_t>(which));
    }

    // The child changes its copies of the pages, which must not affect the parent.
    void fork_child() {
        const pid_t child = fork();
        if (child == 0) {
            alarm(alarm_seconds());
            bool right = true;
            for (const Area& area : areas_) {
                right = right && storm_.cache_.find(area.start, area.size, kLocalRead) == nullptr;
                if (!area.shared) memset(area.start, 0x55, area.size);
                if (area.heap) continue;
                madvise(area.start, kPage, MADV_DONTNEED);
                munmap(area.start, area.size);
            }
            _exit(right ? 0 : 1);
        }
        for (int i = 0; i < 20; ++i) transfer(areas_[random_() % areas_.size()]);
        int status = -1;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            storm_.error("a child of fork() ends with status " + std::to_string(status));
    }

    void transfer(Area& area) {
        const size_t offset = random_() % area.size;
        const size_t most = std::min(area.size - offset, sizeof(written_));
        const size_t size = 1 + random_() % most;
        char* at = area.start + offset;
        fill();
        memcpy(at, written_, size);
        const unsigned access = kLocalRead | kRemotePut;
        const bool search = random_() % 2 == 0;
        // Sometimes the whole area, so that pins overlap.
        const bool whole = random_() % 4 == 0;
        char* first = whole ? area.start : at;
        const size_t length = whole ? area.size : size;
        Pin* pin = search ? storm_.cache_.find(first, length, access)
                          : storm_.cache_.pin(first, length, access);
        if (pin == nullptr) return;
        storm_.found_ += search;
        ++storm_.transfers_;
        check_age(area, *pin, offset, size);
        if (!storm_.device_.gather(*pin, at, size, read_) || memcmp(read_, written_, size) != 0)
            fail("the device reads other bytes", area, search);
        fill();
        if (!storm_.device_.scatter(*pin, at, size, written_) || memcmp(at, written_, size) != 0)
            fail("the device writes elsewhere", area, search);
        storm_.cache_.release(pin);
    }
    void check_age(const Area& area, const Pin& pin, size_t offset, size_t size) {
        if (area.heap) return;
        const uint64_t made = storm_.stamps_.of(pin.lkey());
        for (size_t page = offset / kPage; page <= (offset + size - 1) / kPage; ++page)
            if (made < area.changed[page]) fail("a registration is older than a page", area, true);
    }
    void fail(const std::string& what, const Area& area, bool search) {
        storm_.error(what + (area.heap ? " of the heap" : "") + (search ? ", found" : ", pinned"));
    }
    void fill() {
        const uint64_t word = random_() | uint64_t{random_()} << 32;
        for (size_t i = 0; i < sizeof(written_); i += sizeof(word)) {
            const uint64_t next = word + i;
            memcpy(written_ + i, &next, sizeof(next));
        }
    }

    Storm& storm_;
    std::mt19937 random_;
    std::vector<Area> areas_;
    char written_[8192];
    char read_[8192];
};

void Storm::run() {
    const auto end = std::chrono::steady_clock::now() + settings_.duration;
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < settings_.threads; ++i)
        threads.emplace_back([this, i, end] {
            Worker worker(*this, settings_.seed + i);
            while (std::chrono::steady_clock::now() < end) worker.step();
        });
    for (std::thread& thread : threads) thread.join();
}

void Storm::error(const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (errors_.size() < 10) errors_.push_back(text);
}

}  // namespace tern::test
