// SPDX-License-Identifier: BSD-3-Clause
// Memory of another device, registered as a DMA buffer: here a memory file, which the process has
// mapped without any right, so that each access by the processor ends the test program. The bytes
// are checked through a second mapping.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "direct.h"
#include "tern/uct/dma_buffer.h"

namespace uct_test {
namespace device_memory_test {

constexpr std::size_t kSize = 4 << 20;
constexpr std::size_t kLengths[] = {1, 8, 100, 1000, 4096, 8000, 8193, 65536, 300001, kSize / 2};

class DeviceMemory {
  public:
    explicit DeviceMemory(Host& host) : md_(host.md()) {
        const int file = memfd_create("device memory", MFD_CLOEXEC);
        if (file < 0 || ftruncate(file, kSize) != 0) conformance::fail_errno("memfd_create");
        address_ = mmap(nullptr, kSize, PROT_NONE, MAP_SHARED, file, 0);
        bytes_ = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (address_ == MAP_FAILED || bytes_ == MAP_FAILED) conformance::fail_errno("mmap");
        const auto call = reinterpret_cast<decltype(&tern_uct_md_mem_reg_dma_buffer)>(
            tern_function("tern_uct_md_mem_reg_dma_buffer"));
        if (call == nullptr && is_tern()) fail("the function of dma_buffer.h is missing");
        if (call == nullptr) return;
        registered_ = call(md_, address_, kSize, file, 0, &handle_);
        close(file);
        if (registered_ != UCS_OK) return;
        remote_.address = reinterpret_cast<uintptr_t>(address_);
        check(uct_md_mkey_pack(md_, handle_, remote_.key.data()), "uct_md_mkey_pack");
    }
    ~DeviceMemory() {
        undeclare();
        munmap(address_, kSize);
        munmap(bytes_, kSize);
    }
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;

    ucs_status_t registered() const { return registered_; }
    uct_iov_t iov(std::size_t at, std::size_t length) const {
        return {static_cast<std::byte*>(address_) + at, length, handle_, 0, 1};
    }
    std::span<std::byte> part(std::size_t at, std::size_t length) const {
        return {static_cast<std::byte*>(bytes_) + at, length};
    }
    const Remote& remote() const { return remote_; }
    uct_mem_h handle() const { return handle_; }
    void undeclare() {
        if (handle_ == nullptr) return;
        EXPECT_STATUS(UCS_OK, uct_md_mem_dereg(md_, handle_));
        handle_ = nullptr;
    }

  private:
    uct_md_h md_;
    void* address_;
    void* bytes_;
    ucs_status_t registered_ = UCS_ERR_UNSUPPORTED;
    uct_mem_h handle_ = nullptr;
    Remote remote_;
};

#define NEEDS_DMA_BUFFERS(memory)                               \
    if ((memory).registered() == UCS_ERR_UNSUPPORTED)           \
        GTEST_SKIP() << "the device does not take DMA buffers"; \
    ASSERT_STATUS(UCS_OK, (memory).registered())

struct Way {
    const char* scheme;
    const char* poll;
};
constexpr Way kWays[] = {
    {"auto", "memory"}, {"superpipeline", "memory"}, {"superpipeline", "cq"}, {"zcopy", "memory"}};

std::string way_name(const testing::TestParamInfo<Way>& way) {
    return std::string(way.param.scheme) + "_" + way.param.poll;
}

class DeviceMemoryTest : public TernTest, public testing::WithParamInterface<Way> {
  protected:
    static Settings settings() {
        return {{"RNDV_SCHEME", GetParam().scheme}, {"POLL", GetParam().poll}};
    }

    Entity a_{settings()}, b_{settings()};
    const Group all_{&a_, &b_};
    Endpoint ep_ = a_.connect(b_);
    DeviceMemory near_{a_.host()}, far_{b_.host()};
};
INSTANTIATE_TEST_SUITE_P(Ways, DeviceMemoryTest, testing::ValuesIn(kWays), way_name);

// Messages gathered from the device's memory, from the first one on, which waits for the
// connection. Pieces of the host's memory between them are copied.
TEST_P(DeviceMemoryTest, Messages) {
    NEEDS_DMA_BUFFERS(near_);
    std::vector<std::byte> came;
    std::size_t count = 0;
    b_.handle(1, [&](Bytes message) {
        came.assign(message.begin(), message.end());
        ++count;
    });
    Declared host(a_.host(), 64 * 1024);
    fill(near_.part(0, kSize), 1);
    fill(host.part(0, host.size()), 2);
    const std::size_t most = a_.attr().cap.am.max_zcopy;
    for (unsigned round = 0; round < 100; ++round) {
        const std::size_t header = round % 4 * 8, between = round % 3 == 0 ? 0 : round;
        const std::size_t lengths[] = {1, 7, 64, 1000, most - header - between - 8};
        const std::size_t length = lengths[round % 5];
        std::vector<uct_iov_t> payload = {near_.iov(round, length), host.iov(round, between),
                                          near_.iov(5, round % 8)};
        if (a_.attr().cap.am.max_iov < 3) payload.resize(1);
        std::vector<std::byte> expected(header, std::byte(round));
        const auto append = [&](Bytes bytes) {
            expected.insert(expected.end(), bytes.begin(), bytes.end());
        };
        append(near_.part(round, length));
        if (payload.size() > 1) append(host.part(round, between));
        if (payload.size() > 1) append(near_.part(5, round % 8));
        Completion completion;
        const std::vector<std::byte> head(header, std::byte(round));
        ASSERT_TRUE(accepted(all_, [&] { return am_zcopy(ep_, 1, head, payload, &completion); }));
        ASSERT_TRUE(eventually(all_, [&] { return count == round + 1 && completion.calls == 1; }));
        ASSERT_EQ(came, expected) << "message " << round;
    }
}

// Between the device's memory on this side and the host's memory of the peer, which is only
// declared, so that the peer chooses the scheme.
TEST_P(DeviceMemoryTest, PutsAndGetsOfDeclaredMemory) {
    NEEDS_DMA_BUFFERS(near_);
    Declared far(b_.host(), kSize);
    const RemoteKey key(a_.host(), far.remote());
    uint64_t seed = 0;
    for (const std::size_t length : kLengths)
        for (const std::size_t at : {0, 3, 4096}) {
            const uct_iov_t iov = near_.iov(at, length);
            fill(near_.part(at, length), ++seed);
            fill(far.part(at, length), 0);
            ASSERT_STATUS(UCS_OK, put_wait(all_, ep_, {&iov, 1}, far.remote().address + at, key));
            ASSERT_TRUE(filled(far.part(at, length), seed)) << length << " bytes at " << at;
            fill(far.part(at, length), ++seed);
            ASSERT_STATUS(UCS_OK, get_wait(all_, ep_, {&iov, 1}, far.remote().address + at, key));
            ASSERT_TRUE(filled(near_.part(at, length), seed)) << length << " bytes at " << at;
        }
}

// The peer's memory is a device's, this side's the host's or a device's.
TEST_P(DeviceMemoryTest, PutsAndGetsOfDeviceMemory) {
    NEEDS_DMA_BUFFERS(far_);
    Declared host(a_.host(), kSize);
    const RemoteKey key(a_.host(), far_.remote());
    uint64_t seed = 0;
    for (const std::size_t length : kLengths)
        for (const bool of_device : {false, true}) {
            const uct_iov_t iov = of_device ? near_.iov(1, length) : host.iov(1, length);
            const auto own = of_device ? near_.part(1, length) : host.part(1, length);
            fill(own, ++seed);
            fill(far_.part(7, length), 0);
            ASSERT_STATUS(UCS_OK, put_wait(all_, ep_, {&iov, 1}, far_.remote().address + 7, key));
            ASSERT_TRUE(flush_wait(all_, ep_));
            ASSERT_TRUE(filled(far_.part(7, length), seed)) << length << " bytes, put";
            fill(far_.part(7, length), ++seed);
            ASSERT_STATUS(UCS_OK, get_wait(all_, ep_, {&iov, 1}, far_.remote().address + 7, key));
            ASSERT_TRUE(filled(own, seed)) << length << " bytes, got";
        }
}

TEST_P(DeviceMemoryTest, SeveralPieces) {
    NEEDS_DMA_BUFFERS(near_);
    const RemoteKey key(a_.host(), far_.remote());
    const std::vector<uct_iov_t> iov = {near_.iov(9000, 100), near_.iov(0, 0), near_.iov(100, 8000),
                                        near_.iov(20000, 1)};
    constexpr std::size_t kAll = 8101;
    fill(far_.part(0, kAll), 1);
    ASSERT_STATUS(UCS_OK, get_wait(all_, ep_, iov, far_.remote().address, key));
    EXPECT_TRUE(same(near_.part(9000, 100), far_.part(0, 100)));
    EXPECT_TRUE(same(near_.part(100, 8000), far_.part(100, 8000)));
    EXPECT_TRUE(same(near_.part(20000, 1), far_.part(8100, 1)));
    fill(far_.part(0, kAll), 2);
    ASSERT_STATUS(UCS_OK, put_wait(all_, ep_, iov, far_.remote().address, key));
    ASSERT_TRUE(flush_wait(all_, ep_));
    EXPECT_TRUE(filled(far_.part(0, kAll), 1));
    // The peer would have to place them one by one.
    Declared far(b_.host(), kSize);
    const RemoteKey declared(a_.host(), far.remote());
    EXPECT_STATUS(UCS_ERR_UNSUPPORTED,
                  put_zcopy(ep_, iov, far.remote().address, declared, nullptr));
    EXPECT_STATUS(UCS_ERR_UNSUPPORTED,
                  get_zcopy(ep_, iov, far.remote().address, declared, nullptr));
}

// More operations than the send queue has places, and transfers among them.
TEST_P(DeviceMemoryTest, ManyAtOnce) {
    NEEDS_DMA_BUFFERS(near_);
    constexpr std::size_t kCount = 400, kLength = 5000, kLong = 200'000;
    const RemoteKey key(a_.host(), far_.remote());
    Declared host(b_.host(), kSize);
    const RemoteKey declared(a_.host(), host.remote());
    fill(near_.part(0, kSize), 1);
    Completion completion(kCount + 8);
    for (std::size_t i = 0; i < kCount; ++i) {
        const uct_iov_t iov = near_.iov(i * kLength, kLength);
        ASSERT_TRUE(accepted(all_, [&] {
            return put_zcopy(ep_, {&iov, 1}, far_.remote().address + i * kLength, key, &completion);
        }));
        if (i % 50 != 0) continue;
        const uct_iov_t longer = near_.iov(i * kLength, kLong);
        ASSERT_TRUE(accepted(all_, [&] {
            return put_zcopy(ep_, {&longer, 1}, host.remote().address + i * kLength, declared,
                             &completion);
        }));
    }
    ASSERT_TRUE(eventually(all_, [&] { return completion.calls == 1; }));
    EXPECT_STATUS(UCS_OK, completion.status);
    ASSERT_TRUE(flush_wait(all_, ep_));
    EXPECT_TRUE(same(far_.part(0, kCount * kLength), near_.part(0, kCount * kLength)));
    for (std::size_t i = 0; i < kCount; i += 50)
        EXPECT_TRUE(same(host.part(i * kLength, kLong), near_.part(i * kLength, kLong))) << i;
}

// Two pieces need two places of the send queue: whoever waits for these is not told that there is
// room as soon as there is one.
TEST_P(DeviceMemoryTest, SeveralPiecesWaitForAllTheirPlaces) {
    NEEDS_DMA_BUFFERS(near_);
    const RemoteKey key(a_.host(), far_.remote());
    const std::vector<uct_iov_t> iov = {near_.iov(0, 100), near_.iov(200, 100)};
    const uint64_t to = far_.remote().address;
    const auto put = [&] { return put_zcopy(ep_, iov, to, key, nullptr); };
    Pending pending([&] {
        const ucs_status_t status = put();
        return status == UCS_INPROGRESS ? UCS_OK : status;
    });
    const auto waits_and_goes = [&](int round) {
        fill(near_.part(0, kSize), static_cast<unsigned>(round));
        fill(far_.part(0, kSize), static_cast<unsigned>(round) + 1);
        ASSERT_STATUS(UCS_ERR_NO_RESOURCE, put());
        ASSERT_STATUS(UCS_OK, uct_ep_pending_add(ep_.get(), &pending, 0));
        ASSERT_TRUE(eventually(all_, [&] {
            return same(far_.part(0, 100), near_.part(0, 100)) &&
                   same(far_.part(100, 100), near_.part(200, 100));
        }));
    };
    {
        SCOPED_TRACE("until the connection is up");
        ASSERT_NO_FATAL_FAILURE(waits_and_goes(1));
    }
    ASSERT_TRUE(flush_wait(all_, ep_));
    const auto fill_queue = [&](std::size_t most) {
        std::size_t count = 0;
        while (count < most && put_short(ep_, pattern(1, 8), to + 4096, key) == UCS_OK) ++count;
        return count;
    };
    const std::size_t places = fill_queue(SIZE_MAX);
    ASSERT_GT(places, 2u);
    ASSERT_TRUE(flush_wait(all_, ep_));
    ASSERT_EQ(fill_queue(places - 1), places - 1);
    SCOPED_TRACE("until there is more than one place");
    ASSERT_NO_FATAL_FAILURE(waits_and_goes(3));
}

// The device has no registration any more, and the peer's key is of no use.
TEST_P(DeviceMemoryTest, EndsWithItsDeclaration) {
    NEEDS_SOFTWARE_HCA();
    NEEDS_DMA_BUFFERS(far_);
    const RemoteKey key(a_.host(), far_.remote());
    Declared host(a_.host(), 4096);
    const uct_iov_t iov = host.iov(0, 4096);
    ASSERT_STATUS(UCS_OK, put_wait(all_, ep_, {&iov, 1}, far_.remote().address, key));
    ASSERT_TRUE(flush_wait(all_, ep_));
    const uint64_t before = objects("memory_regions");
    far_.undeclare();
    EXPECT_EQ(objects("memory_regions"), before - 1);
    EXPECT_NE(get_wait(all_, ep_, {&iov, 1}, far_.remote().address, key), UCS_OK);
}

class DeviceMemoryTagTest : public DirectTest {};

// Receives in such memory are UCP's to match. Messages from it are gathered, direct ones too.
TEST_F(DeviceMemoryTagTest, IsSentAndNotReceivedInto) {
    TagPair pair(direct());
    const DeviceMemory memory(pair.a.entity.host()), to(pair.b.entity.host());
    NEEDS_DMA_BUFFERS(memory);
    fill(memory.part(0, kSize), 1);
    uct_tag_context_t context{};
    const uct_iov_t target = to.iov(0, 100);
    EXPECT_STATUS(UCS_ERR_EXCEEDS_LIMIT, uct_iface_tag_recv_zcopy(pair.b.entity.iface(), kTag,
                                                                  kFullMask, &target, 1, &context));
    for (const bool warmed : {false, true}) {
        if (warmed) warm(pair);
        for (unsigned round = 0; round < 40; ++round) {
            const std::size_t lengths[] = {1, 30, 1000, 8000};
            const std::size_t length = lengths[round % 4];
            const uint64_t immediate = round % 3 == 2 ? round : 0;
            Receive receive(pair.b, 8192);
            Completion completion;
            const uct_iov_t iov = memory.iov(round, length);
            ucs_status_t status = UCS_OK;
            const bool posted_first = round % 2 == 0;
            if (posted_first) {
                ASSERT_STATUS(UCS_OK, receive.post(kTag));
                linger(pair.all, milliseconds(1));
            }
            ASSERT_TRUE(accepted(pair.all, [&] {
                return status = tag_zcopy(pair.ep, kTag, {&iov, 1}, &completion, immediate);
            }));
            if (posted_first) {
                ASSERT_TRUE(pair.until([&] { return receive.done(); }));
                EXPECT_TRUE(same(receive.bytes(), memory.part(round, length))) << round;
                EXPECT_EQ(receive.immediate, immediate);
            } else {
                ASSERT_TRUE(pair.until([&] { return !pair.b.mailbox->messages.empty(); }));
                const std::string& data = pair.b.mailbox->messages.front().data;
                EXPECT_TRUE(same(std::as_bytes(std::span(data)), memory.part(round, length)));
                pair.b.mailbox->messages.clear();
            }
            if (status == UCS_INPROGRESS) {
                ASSERT_TRUE(pair.until([&] { return completion.calls == 1; }));
            }
        }
    }
}

}  // namespace device_memory_test
}  // namespace uct_test
