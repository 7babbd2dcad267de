// SPDX-License-Identifier: BSD-3-Clause
// Puts from memory that the kernel does not watch: UCX's memory events tell when it goes.
#include <sys/mman.h>

#include <cstdlib>
#include <string_view>

#include "message.h"
#include "transfer.h"

namespace uct_test {
namespace shared_memory_test {

constexpr std::size_t kLength = 256 * 1024;

// A shared mapping, declared for each put, as UCP does it.
class SharedMemory {
  public:
    explicit SharedMemory(Host& host) : md_(host.md()) { map(nullptr, 0); }
    ~SharedMemory() { munmap(data_, kLength); }
    SharedMemory(const SharedMemory&) = delete;
    SharedMemory& operator=(const SharedMemory&) = delete;

    void map_again() {
        munmap(data_, kLength);
        map(data_, MAP_FIXED);
    }
    std::span<std::byte> bytes() { return {data_, kLength}; }
    ucs_status_t put(const Group& who, const Endpoint& ep, uint64_t to, const RemoteKey& key) {
        uct_mem_h handle;
        check(uct_md_mem_reg(md_, data_, kLength, kRma, &handle), "uct_md_mem_reg");
        const uct_iov_t iov{data_, kLength, handle, 0, 1};
        const ucs_status_t status = put_wait(who, ep, {&iov, 1}, to, key);
        check(uct_md_mem_dereg(md_, handle), "uct_md_mem_dereg");
        return status;
    }

  private:
    void map(void* at, int flags) {
        at = mmap(at, kLength, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | flags, -1, 0);
        check(at != MAP_FAILED ? UCS_OK : UCS_ERR_NO_MEMORY, "mmap");
        data_ = static_cast<std::byte*>(at);
    }

    uct_md_h md_;
    std::byte* data_ = nullptr;
};

class SharedMemoryTest : public TernTest {
  protected:
    void SetUp() override {
        const char* events = getenv("UCX_MEM_EVENTS");
        if (events != nullptr && std::string_view(events) == "n")
            GTEST_SKIP() << "UCX's memory events are off";
    }
    void put(uint64_t seed) {
        fill(near_.bytes(), seed);
        ASSERT_STATUS(UCS_OK, near_.put(all_, ep_, far_.remote().address, key_));
        ASSERT_TRUE(filled(far_.part(0, kLength), seed));
    }

    Entity a_, b_;
    const Group all_{&a_, &b_};
    SharedMemory near_{a_.host()};
    Declared far_{b_.host(), kLength, UCT_MD_MEM_ACCESS_ALL};
    RemoteKey key_{a_.host(), far_.remote()};
    Endpoint ep_ = a_.connect(b_);
};

TEST_F(SharedMemoryTest, StaysPinnedUntilItIsUnmapped) {
    for (uint64_t i = 0; i < 100; ++i) put(i);
    near_.map_again();
    put(100);
    ep_.reset();
    linger(all_, milliseconds(5));
    const Counters counters = a_.close_and_count();
    // In several pieces, if registering takes long.
    EXPECT_LE(counters["pin_registrations"], 30u) << counters.json();
    EXPECT_GE(counters["pin_invalidations"], 1u) << counters.json();
}

}  // namespace shared_memory_test
}  // namespace uct_test
