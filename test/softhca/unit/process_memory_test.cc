// SPDX-License-Identifier: BSD-3-Clause
// Copies to and from the memory of other processes that fail.
#include "softhca/fabric/process_memory.h"

#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include <cstddef>
#include <fstream>
#include <vector>

#include "fabric_process.h"

namespace softhca::process_memory_test {

// The local pieces of this process's calls, in order, if somebody wants them.
static std::vector<iovec>* wanted_pieces;

static ssize_t call(long number, pid_t process, const iovec* local, unsigned long pieces,
                    const iovec* remote, unsigned long remote_pieces, unsigned long flags) {
    if (wanted_pieces != nullptr)
        wanted_pieces->insert(wanted_pieces->end(), local, local + pieces);
    return syscall(number, process, local, pieces, remote, remote_pieces, flags);
}

}  // namespace softhca::process_memory_test

// Take the place of the C library's.
extern "C" ssize_t process_vm_writev(pid_t process, const iovec* local, unsigned long pieces,
                                     const iovec* remote, unsigned long remote_pieces,
                                     unsigned long flags) noexcept {
    return softhca::process_memory_test::call(SYS_process_vm_writev, process, local, pieces, remote,
                                              remote_pieces, flags);
}

extern "C" ssize_t process_vm_readv(pid_t process, const iovec* local, unsigned long pieces,
                                    const iovec* remote, unsigned long remote_pieces,
                                    unsigned long flags) noexcept {
    return softhca::process_memory_test::call(SYS_process_vm_readv, process, local, pieces, remote,
                                              remote_pieces, flags);
}

namespace softhca {
namespace process_memory_test {

using test::Child;
using test::wait_for;

struct Shared {
    std::atomic<int> slot{-1};
    std::atomic<int> done{0};
};

char memory_of_all[64];  // at the same address in every child

IovList list(const void* address, uint64_t length) {
    IovList result;
    result.add(reinterpret_cast<uint64_t>(address), length);
    return result;
}

using ProcessMemoryTest = test::ProcessesTest<Shared>;

// The process id may name another process or another program by now.
TEST_F(ProcessMemoryTest, NothingIsCopiedToAProcessThatIsNotAlive) {
    Child writer([&] {
        Adapter* adapter = test::start_adapter(name_);
        if (!wait_for([&] { return shared_->slot >= 0; })) return 1;
        // The target's engine ends at once, and with it the target's life in the fabric.
        if (!wait_for([&] { return !adapter->host().alive(slot()); })) return 1;
        const char byte = 'x';
        const CopyResult result = adapter->process_memory().write(slot(), nullptr, list(&byte, 1),
                                                                  list(memory_of_all, 1));
        shared_->done = 1;
        return result == CopyResult::kGone ? 0 : 2;
    });
    Child target([&] {
        introduce(join([](void*) {}));
        if (!wait_for([&] { return shared_->done == 1; })) return 1;
        return memory_of_all[0] == 0 ? 0 : 2;
    });
    EXPECT_EQ(writer.join(), 0);
    EXPECT_EQ(target.join(), 0);
}

// Bytes of more pieces than one call may have, and a list of them.
struct LongSource {
    LongSource() {
        for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i % 251);
        pieces.add(reinterpret_cast<uint64_t>(bytes.data()) + 1003, bytes.size() - 1003);
    }
    std::vector<char> bytes = std::vector<char>(200001);
    IovList pieces = list(bytes.data(), 1003);
};

// The kernel stores the lines of one piece in any order.
TEST_F(ProcessMemoryTest, NoPieceOfAnOrderedCopyIsInTwoLines) {
    Child child([&] {
        Adapter* adapter = test::start_adapter(name_);
        ProcessMemory& memory = adapter->process_memory();
        const uint32_t self = adapter->host().slot();
        const auto& [from, source] = LongSource();
        const uint64_t kLength = from.size();
        for (const bool writes : {true, false}) {
            std::vector<char> to(kLength + 4);
            const IovList target = list(to.data() + 4, kLength);
            std::vector<iovec> pieces;
            wanted_pieces = &pieces;
            const CopyResult result =
                writes ? memory.write(self, nullptr, source, target, Order::kAscending)
                       : memory.read(self, nullptr, source, target, Order::kAscending);
            wanted_pieces = nullptr;
            if (result != CopyResult::kOk || !std::equal(from.begin(), from.end(), to.begin() + 4))
                return 1;
            auto at = reinterpret_cast<uintptr_t>(to.data()) + 4;
            for (const iovec& piece : pieces) {
                if (at / 64 != (at + piece.iov_len - 1) / 64) return 2;
                at += piece.iov_len;
            }
            if (pieces.back().iov_len > 8) return 3;
        }
        return 0;
    });
    EXPECT_EQ(child.join(), 0);
}

TEST_F(ProcessMemoryTest, RelaxedTargetsGetTheirLastLineFirst) {
    Child child([&] {
        Adapter* adapter = test::start_adapter(name_);
        ProcessMemory& memory = adapter->process_memory();
        const uint32_t self = adapter->host().slot();
        const auto& [from, source] = LongSource();
        const uint64_t kLength = from.size();
        for (const bool writes : {true, false}) {
            std::vector<char> to(kLength + 4);
            IovList target;
            const auto start = reinterpret_cast<uint64_t>(to.data()) + 4;
            target.add(start, 5000, true);
            target.add(start + 5000, kLength - 5000);
            std::vector<iovec> pieces;
            wanted_pieces = &pieces;
            const CopyResult result =
                writes
                    ? memory.write(self, nullptr, source, target.slice(0, kLength), Order::kPages)
                    : memory.read(self, nullptr, source, target, Order::kAscending);
            wanted_pieces = nullptr;
            if (result != CopyResult::kOk || !std::equal(from.begin(), from.end(), to.begin() + 4))
                return 1;
            const IovList& local = writes ? source : target;
            const iovec& last = local.data()[local.count() - 1];
            const char* end = static_cast<char*>(last.iov_base) + last.iov_len;
            if (static_cast<char*>(pieces[0].iov_base) + pieces[0].iov_len != end) return 2;
            for (const iovec& piece : pieces)
                if (piece.iov_len > 64) return 3;
        }
        return 0;
    });
    EXPECT_EQ(child.join(), 0);
}

// KiB of the mapping at `address` that differ from its file.
int changed_kib(const void* address) {
    char begin[32];
    std::snprintf(begin, sizeof begin, "%lx-", reinterpret_cast<unsigned long>(address));
    std::ifstream maps("/proc/self/smaps");
    bool here = false;
    for (std::string line; std::getline(maps, line);) {
        if (line.starts_with(begin)) here = true;
        if (here && line.starts_with("Anonymous:")) return std::atoi(line.c_str() + 10);
    }
    return -1;
}

// The program may be writing to memory into which a read that fails was to go.
TEST_F(ProcessMemoryTest, SearchForAFaultDoesNotWrite) {
    Child child([&] {
        Adapter* adapter = test::start_adapter(name_);
        const int fd = memfd_create("memory", MFD_CLOEXEC);
        if (ftruncate(fd, 4096) != 0) return 1;
        for (const int protection : {PROT_READ | PROT_WRITE, PROT_READ}) {
            void* local = mmap(nullptr, 4096, protection, MAP_PRIVATE, fd, 0);
            if (local == MAP_FAILED || *static_cast<volatile char*>(local) != 0) return 2;
            const CopyResult result = adapter->process_memory().read(
                adapter->host().slot(), nullptr, list(reinterpret_cast<void*>(16), 8),
                list(local, 8));
            const bool writable = (protection & PROT_WRITE) != 0;
            if (result != (writable ? CopyResult::kRemoteFault : CopyResult::kLocalFault)) return 3;
            if (changed_kib(local) != 0) return 4;
        }
        return 0;
    });
    EXPECT_EQ(child.join(), 0);
}

// Makes process_vm_writev() fail as the filters of containers do.
bool forbid_writes() {
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{sizeof filter / sizeof *filter, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// What a process prints on stderr.
class Output {
  public:
    ~Output() { close(fd_); }
    void take() const { dup2(fd_, STDERR_FILENO); }
    std::string text() const {
        std::string text(1000, '\0');
        const ssize_t got = pread(fd_, text.data(), text.size(), 0);
        text.resize(got < 0 ? 0 : static_cast<size_t>(got));
        return text;
    }

  private:
    const int fd_ = memfd_create("output", MFD_CLOEXEC);
};

void expect_explanation(const std::string& text) {
    EXPECT_NE(text.find("seccomp"), std::string::npos) << text;
    EXPECT_NE(text.find("SYS_PTRACE"), std::string::npos) << text;
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

TEST_F(ProcessMemoryTest, RefusalOfTheKernelIsExplainedOnce) {
    const Output output;
    Child child([&] {
        Adapter* adapter = test::start_adapter(name_);
        if (!forbid_writes()) return 1;
        output.take();
        for (int i = 0; i < 2; ++i) {
            const char byte = 'x';
            const CopyResult result = adapter->process_memory().write(
                adapter->host().slot(), nullptr, list(&byte, 1), list(memory_of_all, 1));
            if (result != CopyResult::kRemoteFault) return 2;
        }
        return 0;
    });
    EXPECT_EQ(child.join(), 0);
    expect_explanation(output.text());
}

// Also the first member learns it, which has no peers yet.
TEST_F(ProcessMemoryTest, RefusalOfTheKernelIsNamedAtTheJoin) {
    const Output first, second;
    for (const Output* output : {&first, &second}) {
        Child child([&] {
            if (!forbid_writes()) return 1;
            output->take();
            return test::start_adapter(name_) == nullptr ? 2 : 0;
        });
        EXPECT_EQ(child.join(), 0);
        expect_explanation(output->text());
    }
}

TEST_F(ProcessMemoryTest, JoinSaysNothingIfAllIsWell) {
    const Output output;
    Child child([&] {
        output.take();
        test::start_adapter(name_);
        Child second([&] { return test::start_adapter(name_) == nullptr ? 1 : 0; });
        return second.join();
    });
    EXPECT_EQ(child.join(), 0);
    EXPECT_EQ(output.text(), "");
}

}  // namespace process_memory_test
}  // namespace softhca
