// SPDX-License-Identifier: BSD-3-Clause
// Regions of DMA buffers, which a program need not map: ibv_reg_dmabuf_mr.
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

#include "side.h"

namespace conformance {
namespace {

constexpr uint64_t kBufferPage = 4096;
constexpr uint64_t kBufferBytes = 16 * kBufferPage;
constexpr uint64_t kBufferIova = 0x7000'0000'0000;  // where no memory of the program is
constexpr int kBufferAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

// A memory file, and a DMA buffer of it if the machine has /dev/udmabuf; else devices that take the
// file itself can be tested.
class DmaBuffer {
  public:
    DmaBuffer() : file_(memfd_create("buffer", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
        if (file_ < 0 || ftruncate(file_, kBufferBytes) != 0) fail_errno("memfd");
        const int udmabuf = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
        if (udmabuf >= 0 && fcntl(file_, F_ADD_SEALS, F_SEAL_SHRINK) == 0) {
            udmabuf_create create{};
            create.memfd = static_cast<uint32_t>(file_);
            create.flags = UDMABUF_FLAGS_CLOEXEC;
            create.size = kBufferBytes;
            buffer_ = ioctl(udmabuf, UDMABUF_CREATE, &create);
        }
        if (udmabuf >= 0) close(udmabuf);
    }
    ~DmaBuffer() {
        if (buffer_ >= 0) close(buffer_);
        close(file_);
    }
    DmaBuffer(const DmaBuffer&) = delete;
    DmaBuffer& operator=(const DmaBuffer&) = delete;

    int fd() const { return buffer_ >= 0 ? buffer_ : file_; }

    // The bytes, which are read and written without a mapping.
    void fill(uint64_t offset, uint64_t length, unsigned seed) const {
        const std::vector<uint8_t> bytes = pattern(length, seed);
        EXPECT_EQ(pwrite(file_, bytes.data(), length, static_cast<off_t>(offset)),
                  static_cast<ssize_t>(length));
    }
    bool holds(uint64_t offset, uint64_t length, unsigned seed) const {
        std::vector<uint8_t> bytes(length);
        return pread(file_, bytes.data(), length, static_cast<off_t>(offset)) ==
                   static_cast<ssize_t>(length) &&
               bytes == pattern(length, seed);
    }

    static std::vector<uint8_t> pattern(uint64_t length, unsigned seed) {
        std::vector<uint8_t> bytes(length);
        for (uint64_t i = 0; i < length; ++i)
            bytes[i] = static_cast<uint8_t>(i * 7 + seed + i / 509);
        return bytes;
    }

  private:
    int file_;
    int buffer_ = -1;
};

Mr reg_buffer(const Pd& pd, int fd, uint64_t offset, uint64_t length, uint64_t iova,
              int access = kBufferAccess) {
    errno = 0;
    return Mr(ibv_reg_dmabuf_mr(pd.get(), offset, length, iova, fd, access));
}

class DmaBufferTest : public VerbsTest {
  protected:
    void SetUp() override {
        if (!reg_buffer(pd_, buffer_.fd(), 0, kBufferPage, 0))
            GTEST_SKIP() << "no such regions, or no DMA buffer to try: " << std::strerror(errno);
    }

    static ibv_sge sge(const Mr& mr, uint64_t address, uint64_t length) {
        return {address, static_cast<uint32_t>(length), mr->lkey};
    }

    DmaBuffer buffer_;
};

TEST_F(DmaBufferTest, IsWrittenAndReadAtItsAddress) {
    constexpr uint64_t kOffset = kBufferPage + 100;
    constexpr uint64_t kLength = 3 * kBufferPage;
    Pair pair(hca_, pd_.get());
    const Mr mr = reg_buffer(pd_, buffer_.fd(), kOffset, kLength, kBufferIova + 100);
    ASSERT_NE(mr, nullptr);
    EXPECT_EQ(mr->length, kLength);
    buffer_.fill(kOffset + 2 * kBufferPage, kBufferPage, 2);
    pair.a_mem.fill(1);
    ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1)
                  .sge(pair.a_mem.sge(0, 2 * kBufferPage))
                  .remote(kBufferIova + 100, mr->rkey)
                  .post(pair.a.qp),
              0);
    ASSERT_EQ(SendWr(IBV_WR_RDMA_READ, 2)
                  .sge(pair.a_mem.sge(2 * kBufferPage, kBufferPage))
                  .remote(kBufferIova + 100 + 2 * kBufferPage, mr->rkey)
                  .post(pair.a.qp),
              0);
    ASSERT_TRUE(next_are(pair.a.send_cq, {1, 2}));
    const std::vector<uint8_t> written(pair.a_mem.data(), pair.a_mem.data() + 2 * kBufferPage);
    EXPECT_EQ(std::vector<uint8_t>(pair.a_mem.data() + 2 * kBufferPage,
                                   pair.a_mem.data() + 3 * kBufferPage),
              DmaBuffer::pattern(kBufferPage, 2));
    EXPECT_TRUE(buffer_.holds(kOffset + 2 * kBufferPage, kBufferPage, 2)) << "was read only";
    pair.b_mem.fill(4);
    ASSERT_EQ(SendWr(IBV_WR_RDMA_READ, 3)
                  .sge(pair.b_mem.sge(0, 2 * kBufferPage))
                  .remote(kBufferIova + 100, mr->rkey)
                  .post(pair.b.qp),
              0);
    ASSERT_TRUE(next_are(pair.b.send_cq, {3}));
    EXPECT_EQ(std::memcmp(pair.b_mem.data(), written.data(), written.size()), 0);
}

TEST_F(DmaBufferTest, IsSentAndReceivedInto) {
    Pair pair(hca_, pd_.get());
    const Mr mr = reg_buffer(pd_, buffer_.fd(), 0, kBufferBytes, kBufferIova);
    ASSERT_NE(mr, nullptr);
    buffer_.fill(0, kBufferPage, 5);
    ASSERT_EQ(RecvWr(1).sge(sge(mr, kBufferIova + 2 * kBufferPage, kBufferPage)).post(pair.b.qp),
              0);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 2).sge(sge(mr, kBufferIova, kBufferPage)).post(pair.a.qp), 0);
    ASSERT_TRUE(next_are(pair.a.send_cq, {2}));
    ASSERT_TRUE(next_are(pair.b.recv_cq, {1}));
    EXPECT_TRUE(buffer_.holds(2 * kBufferPage, kBufferPage, 5));
}

TEST(DmaBufferProcessTest, IsAccessedByAnotherProcess) {
    Team team;
    const int target = team.spawn([](Link& link) {
        Side side(link, {}, kBufferPage);
        const DmaBuffer buffer;
        const Mr mr = reg_buffer(side.pd, buffer.fd(), kBufferPage, 4 * kBufferPage, kBufferIova);
        buffer.fill(3 * kBufferPage, kBufferPage, 6);
        link.send(Window{mr ? kBufferIova : 0, mr ? mr->rkey : 0, 4 * kBufferPage});
        link.receive();
        if (mr) {
            EXPECT_TRUE(buffer.holds(kBufferPage, kBufferPage, 7));
        }
    });
    const int actor = team.spawn([](Link& link) {
        Side side(link, {}, kBufferPage * 2);
        const auto window = link.receive<Window>();
        if (window.addr != 0) {
            const std::vector<uint8_t> bytes = DmaBuffer::pattern(kBufferPage, 7);
            std::memcpy(side.mem.data(), bytes.data(), kBufferPage);
            const Qp& qp = side.end.qp;
            ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1)
                          .sge(side.mem.sge(0, kBufferPage))
                          .remote(window.addr, window.rkey)
                          .post(qp),
                      0);
            ASSERT_EQ(SendWr(IBV_WR_RDMA_READ, 2)
                          .sge(side.mem.sge(kBufferPage, kBufferPage))
                          .remote(window.addr + 2 * kBufferPage, window.rkey)
                          .post(qp),
                      0);
            ASSERT_TRUE(next_are(side.end.send_cq, {1, 2}));
            const std::vector<uint8_t> read = DmaBuffer::pattern(kBufferPage, 6);
            EXPECT_EQ(std::memcmp(side.mem.data() + kBufferPage, read.data(), kBufferPage), 0);
        }
        link.send();
    });
    introduce(team, target, actor);
    const auto window = team[target].receive<Window>();
    team[actor].send(window);
    team[actor].receive();
    team[target].send();
    team.finish();
    if (window.addr == 0) GTEST_SKIP() << "no such regions, or no DMA buffer to try";
}

TEST_F(DmaBufferTest, AccessBeyondTheRegionIsRefused) {
    Pair pair(hca_, pd_.get());
    const Mr mr = reg_buffer(pd_, buffer_.fd(), 0, kBufferPage, kBufferIova);
    ASSERT_NE(mr, nullptr);
    ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1)
                  .sge(pair.a_mem.sge(0, 8))
                  .remote(kBufferIova + kBufferPage - 4, mr->rkey)
                  .post(pair.a.qp),
              0);
    EXPECT_EQ(poll_one(pair.a.send_cq).status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(DmaBufferTest, LivesLongerThanItsDescriptor) {
    Pair pair(hca_, pd_.get());
    const int again = dup(buffer_.fd());
    const Mr mr = reg_buffer(pd_, again, 0, kBufferPage, kBufferIova);
    close(again);
    ASSERT_NE(mr, nullptr);
    buffer_.fill(0, kBufferPage, 8);
    ASSERT_EQ(SendWr(IBV_WR_RDMA_READ, 1)
                  .sge(pair.a_mem.sge(0, kBufferPage))
                  .remote(kBufferIova, mr->rkey)
                  .post(pair.a.qp),
              0);
    ASSERT_TRUE(next_are(pair.a.send_cq, {1}));
    EXPECT_EQ(
        std::memcmp(pair.a_mem.data(), DmaBuffer::pattern(kBufferPage, 8).data(), kBufferPage), 0);
}

TEST_F(DmaBufferTest, WrongOnesAreRefused) {
    EXPECT_FALSE(reg_buffer(pd_, -1, 0, kBufferPage, 0));
    EXPECT_EQ(errno, EBADF);
    EXPECT_FALSE(reg_buffer(pd_, buffer_.fd(), kBufferBytes, kBufferPage, 0)) << "beyond the end";
    EXPECT_FALSE(reg_buffer(pd_, buffer_.fd(), kBufferPage, kBufferBytes, 0))
        << "partly beyond the end";
    EXPECT_FALSE(reg_buffer(pd_, buffer_.fd(), 0, 0, 0)) << "empty";
    EXPECT_FALSE(reg_buffer(pd_, buffer_.fd(), 0, kBufferPage, 0, IBV_ACCESS_REMOTE_WRITE))
        << "written by peers only";
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    EXPECT_FALSE(reg_buffer(pd_, ends[0], 0, kBufferPage, 0)) << "a pipe";
    close(ends[0]);
    close(ends[1]);
}

}  // namespace
}  // namespace conformance
