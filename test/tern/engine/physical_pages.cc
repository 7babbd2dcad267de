// SPDX-License-Identifier: BSD-3-Clause
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <vector>

#include "storm_device.h"

namespace tern::test {

namespace {

class PhysicalPages final : public StormDevice {
  public:
    ~PhysicalPages() override {
        if (rings_ != nullptr) munmap(rings_, rings_size_);
        if (requests_ != nullptr) munmap(requests_, sizeof(io_uring_sqe) * parameters_.sq_entries);
        if (scratch_ != nullptr) munmap(scratch_, kMost);
        for (const int fd : {ring_, file_})
            if (fd >= 0) close(fd);
    }

    bool open() {
        ring_ = static_cast<int>(syscall(SYS_io_uring_setup, 4, &parameters_));
        if (ring_ < 0 || (parameters_.features & IORING_FEAT_SINGLE_MMAP) == 0) return false;
        rings_size_ = std::max<size_t>(
            parameters_.sq_off.array + parameters_.sq_entries * sizeof(uint32_t),
            parameters_.cq_off.cqes + parameters_.cq_entries * sizeof(io_uring_cqe));
        rings_ = map(rings_size_, ring_, IORING_OFF_SQ_RING);
        requests_ = reinterpret_cast<io_uring_sqe*>(
            map(sizeof(io_uring_sqe) * parameters_.sq_entries, ring_, IORING_OFF_SQES));
        file_ = memfd_create("scratch", MFD_CLOEXEC);
        if (rings_ == nullptr || requests_ == nullptr || file_ < 0 || ftruncate(file_, kMost) != 0)
            return false;
        scratch_ = map(kMost, file_, 0);
        io_uring_rsrc_register table{};
        table.nr = kTable;
        table.flags = IORING_RSRC_REGISTER_SPARSE;
        for (uint16_t i = 0; i < kTable; ++i) free_.push_back(i);
        return scratch_ != nullptr && syscall(SYS_io_uring_register, ring_,
                                              IORING_REGISTER_BUFFERS2, &table, sizeof(table)) == 0;
    }

    std::unique_ptr<Registrar> registrar() override { return std::make_unique<Fixed>(*this); }
    bool gather(const Pin& pin, const void* from, size_t size, void* to) override {
        const std::lock_guard lock(mutex_);
        if (!move(IORING_OP_WRITE_FIXED, pin, from, size)) return false;
        memcpy(to, scratch_, size);
        return true;
    }
    bool scatter(const Pin& pin, void* to, size_t size, const void* from) override {
        const std::lock_guard lock(mutex_);
        memcpy(scratch_, from, size);
        return move(IORING_OP_READ_FIXED, pin, to, size);
    }

  private:
    static constexpr uint16_t kTable = 4096;

    class Fixed final : public Registrar {
      public:
        explicit Fixed(PhysicalPages& owner) : owner_(owner) {}
        ibv_mr* add(void* address, size_t length, int) override {
            return owner_.add(address, length);
        }
        void remove(ibv_mr* region) override { owner_.remove(region); }

      private:
        PhysicalPages& owner_;
    };

    static char* map(size_t size, int fd, off_t offset) {
        void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
        return memory == MAP_FAILED ? nullptr : static_cast<char*>(memory);
    }
    uint32_t& word(uint32_t offset) { return *reinterpret_cast<uint32_t*>(rings_ + offset); }

    int update(uint16_t index, void* address, size_t length) {
        iovec where{address, length};
        io_uring_rsrc_update2 change{};
        change.offset = index;
        change.data = reinterpret_cast<uintptr_t>(&where);
        change.nr = 1;
        const long done = syscall(SYS_io_uring_register, ring_, IORING_REGISTER_BUFFERS_UPDATE,
                                  &change, sizeof(change));
        return done == 1 ? 0 : done == 0 ? EFAULT : errno;
    }
    ibv_mr* add(void* address, size_t length) {
        const std::lock_guard lock(mutex_);
        if (free_.empty()) {
            errno = ENOMEM;
            return nullptr;
        }
        const uint16_t index = free_.back();
        if (const int error = update(index, address, length); error != 0) {
            errno = error;
            return nullptr;
        }
        free_.pop_back();
        auto* region = new ibv_mr{};
        region->lkey = region->rkey = ++generation_ << 16 | index;
        return region;
    }
    void remove(ibv_mr* region) {
        const std::lock_guard lock(mutex_);
        const auto index = static_cast<uint16_t>(region->lkey);
        update(index, nullptr, 0);
        free_.push_back(index);
        delete region;
    }
    // The caller holds the lock. One request at a time.
    bool move(uint8_t operation, const Pin& pin, const void* memory, size_t size) {
        const uint32_t tail = word(parameters_.sq_off.tail);
        const uint32_t slot = tail & word(parameters_.sq_off.ring_mask);
        requests_[slot] = {};
        requests_[slot].opcode = operation;
        requests_[slot].fd = file_;
        requests_[slot].addr = reinterpret_cast<uintptr_t>(memory);
        requests_[slot].len = static_cast<uint32_t>(size);
        requests_[slot].buf_index = static_cast<uint16_t>(pin.lkey());
        reinterpret_cast<uint32_t*>(rings_ + parameters_.sq_off.array)[slot] = slot;
        std::atomic_ref(word(parameters_.sq_off.tail)).store(tail + 1, std::memory_order_release);
        unsigned submit = 1;
        std::atomic_ref done(word(parameters_.cq_off.tail));
        const uint32_t head = word(parameters_.cq_off.head);
        while (done.load(std::memory_order_acquire) == head) {
            const long entered =
                syscall(SYS_io_uring_enter, ring_, submit, 1, IORING_ENTER_GETEVENTS, nullptr, 0);
            if (entered < 0 && errno != EINTR) return false;
            if (entered > 0) submit = 0;
        }
        const auto* completions =
            reinterpret_cast<const io_uring_cqe*>(rings_ + parameters_.cq_off.cqes);
        const int result = completions[head & word(parameters_.cq_off.ring_mask)].res;
        std::atomic_ref(word(parameters_.cq_off.head)).store(head + 1, std::memory_order_release);
        return result == static_cast<int>(size);
    }

    std::mutex mutex_;
    io_uring_params parameters_{};
    int ring_ = -1;
    int file_ = -1;
    char* rings_ = nullptr;
    size_t rings_size_ = 0;
    io_uring_sqe* requests_ = nullptr;
    char* scratch_ = nullptr;
    std::vector<uint16_t> free_;
    uint32_t generation_ = 0;
};

}  // namespace

std::unique_ptr<StormDevice> open_physical_pages() {
    auto device = std::make_unique<PhysicalPages>();
    if (!device->open()) return nullptr;
    return device;
}

}  // namespace tern::test
