// SPDX-License-Identifier: BSD-3-Clause
// Memory that is exhausted: the n-th `new` of the transport fails, for each n. No exception may
// reach UCX: a call returns UCS_ERR_NO_MEMORY, or the interface and its endpoints fail, with one
// line in the log.

#include <link.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "short_job.h"
#include "transfer.h"
#include "verbs_calls.h"

namespace uct_test {
namespace no_memory {

int (*post_send)(ibv_qp*, ibv_send_wr*, ibv_send_wr**) = nullptr;  // the device's
bool refuses = false;                                              // one post, the next

int post_unless_refused(ibv_qp* qp, ibv_send_wr* requests, ibv_send_wr** bad) {
    if (!std::exchange(refuses, false)) return post_send(qp, requests, bad);
    *bad = requests;
    return ENOMEM;
}

// Of the thread that runs the test.
thread_local unsigned first_failing = 0;  // 0: none fails
thread_local unsigned calls = 0;

struct Range {
    uintptr_t begin = 0, end = 0;
    bool has(const void* at) const {
        const auto address = reinterpret_cast<uintptr_t>(at);
        return address >= begin && address < end;
    }
};
// The code of this program and that of the software HCA are not meant.
Range program, device;

int note_code(dl_phdr_info* info, size_t, void*) {
    const std::string_view name = info->dlpi_name;
    const bool is_program = name.empty() && program.end == 0;
    if (!is_program && name.find("libsofthca") == std::string_view::npos) return 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr)& part = info->dlpi_phdr[i];
        if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
        const uintptr_t begin = info->dlpi_addr + part.p_vaddr;
        (is_program ? program : device) = {begin, begin + part.p_memsz};
    }
    return 0;
}

bool fails(const void* caller) {
    if (first_failing == 0 || program.has(caller) || device.has(caller)) return false;
    return ++calls == first_failing;
}

// While it exists, the n-th `new` of the transport in this thread fails.
class NoMemory {
  public:
    explicit NoMemory(unsigned nth) {
        if (program.end == 0) dl_iterate_phdr(note_code, nullptr);
        calls = 0;
        first_failing = nth;
    }
    ~NoMemory() { first_failing = 0; }
    NoMemory(const NoMemory&) = delete;
    NoMemory& operator=(const NoMemory&) = delete;

    // Whether that call has come.
    static bool has_failed() { return calls >= first_failing; }
};

class NoMemoryTest : public TernTest {
  protected:
    // Calls `attempt` with n = `first`, `first` + `step` ... until the n-th `new` is not reached.
    template <class Attempt>
    static void for_each_call(Attempt&& attempt, unsigned first = 1, unsigned step = 1) {
        unsigned n = first;
        for (bool more = true; more; n += step) {
            ASSERT_LT(n, 3000u);
            SCOPED_TRACE("call " + std::to_string(n) + " of new");
            ASSERT_NO_FATAL_FAILURE(more = attempt(n));
        }
        std::cout << n - step << " calls of new" << std::endl;
    }
    // The status of one call that makes something.
    static void expect_status(bool failed, ucs_status_t status) {
        if (!failed) {
            EXPECT_STATUS(UCS_OK, status);
            EXPECT_EQ(Errors::count, 0u) << Errors::last;
        } else if (status != UCS_OK) {
            EXPECT_STATUS(UCS_ERR_NO_MEMORY, status);
            EXPECT_EQ(Errors::count, 1u) << Errors::last;
        }
    }
};

TEST_F(NoMemoryTest, ToOpenAMemoryDomain) {
    const Host host;
    const std::string name = host.device().substr(0, host.device().rfind(':'));
    uct_md_config_t* config = nullptr;
    check(uct_md_config_read(host.component(), nullptr, nullptr, &config), "uct_md_config_read");
    const std::unique_ptr<uct_md_config_t, Release<uct_config_release>> owner(config);
    for_each_call([&](unsigned n) {
        uct_md_h md = nullptr;
        const Errors errors;
        const NoMemory none(n);
        const ucs_status_t status = uct_md_open(host.component(), name.c_str(), config, &md);
        const bool failed = NoMemory::has_failed();
        expect_status(failed, status);
        if (status == UCS_OK) uct_md_close(md);
        return failed;
    });
}

class NoMemoryToOpenTest : public NoMemoryTest, public testing::WithParamInterface<const char*> {};

TEST_P(NoMemoryToOpenTest, AnInterface) {
    const BareInterface bare(GetParam());
    const uint64_t queue_pairs = objects("queue_pairs"), regions = objects("memory_regions");
    for_each_call([&](unsigned n) {
        uct_iface_h iface = nullptr;
        const Errors errors;
        const NoMemory none(n);
        const ucs_status_t status = bare.open(&iface);
        const bool failed = NoMemory::has_failed();
        expect_status(failed, status);
        if (status == UCS_OK) uct_iface_close(iface);
        if (n % 16 == 1) {
            EXPECT_EQ(objects("queue_pairs"), queue_pairs);
            EXPECT_EQ(objects("memory_regions"), regions);
        }
        return failed;
    });
}

INSTANTIATE_TEST_SUITE_P(Tags, NoMemoryToOpenTest, testing::Values("n", "y"),
                         [](const auto& matching) {
                             return std::string(*matching.param == 'y' ? "Direct" : "None");
                         });

TEST_F(NoMemoryTest, ToDeclareMemory) {
    for_each_call([](unsigned n) {
        Host host;  // which has no handles and no pins yet
        std::vector<std::byte> bytes(100'000);
        std::array<std::byte, 64> packed{};
        uct_rkey_bundle_t key{};
        uct_mem_h handle = nullptr;
        const Errors errors;
        const NoMemory none(n);
        const auto failed_or = [](ucs_status_t status) {
            EXPECT_TRUE(status == UCS_OK || status == UCS_ERR_NO_MEMORY)
                << ucs_status_string(status);
            EXPECT_TRUE(status == UCS_OK || NoMemory::has_failed());
            return status == UCS_OK;
        };
        if (failed_or(uct_md_mem_reg(host.md(), bytes.data(), bytes.size(), kRma, &handle))) {
            (void)failed_or(uct_md_mem_advise(host.md(), handle, bytes.data(), bytes.size(),
                                              UCT_MADV_WILLNEED));
            if (failed_or(uct_md_mkey_pack(host.md(), handle, packed.data())) &&
                failed_or(uct_rkey_unpack(host.component(), packed.data(), &key))) {
                EXPECT_STATUS(UCS_OK, uct_rkey_release(host.component(), &key));
            }
            EXPECT_STATUS(UCS_OK, uct_md_mem_dereg(host.md(), handle));
        }
        EXPECT_LE(Errors::count, 1u) << Errors::last;
        return NoMemory::has_failed();
    });
}

// The pins of a message that is pinned piece by piece are given back: when the memory is unmapped,
// nothing of it stays registered.
TEST_F(NoMemoryTest, ForThePiecesOfAMessage) {
    constexpr std::size_t kSize = 4 << 20;
    auto near_host = std::make_shared<Host>(), far_host = std::make_shared<Host>();
    const Settings settings = impatient({{"RNDV_SCHEME", "zcopy"}});
    const uint64_t regions = objects("memory_regions");
    for_each_call([&](unsigned n) {
        bool failed = false;
        {
            Entity near(settings, near_host), far(settings, far_host);
            const Group both{&near, &far};
            far.handle(1, [](Bytes) {});
            const Declared to(*near_host, kSize), from(*far_host, kSize);
            const RemoteKey key(*near_host, from.remote());
            const Endpoint ep = near.connect(far);
            EXPECT_TRUE(accepted(both, [&] { return am_bcopy(ep, 1, pattern(0, 8)); }));
            EXPECT_TRUE(flush_wait(both, ep));
            const uct_iov_t iov = to.iov(0, kSize);
            Completion completion;
            const Errors errors;
            const NoMemory none(n);
            ucs_status_t status = UCS_ERR_NO_RESOURCE;
            EXPECT_TRUE(eventually(both, [&] {
                if (status == UCS_ERR_NO_RESOURCE)
                    status = get_zcopy(ep, {&iov, 1}, from.remote().address, key, &completion);
                return completion.calls != 0 || !near.failures().empty() ||
                       (UCS_STATUS_IS_ERR(status) && status != UCS_ERR_NO_RESOURCE);
            }));
            failed = NoMemory::has_failed();
            EXPECT_LE(Errors::count, failed ? 1u : 0u) << Errors::last;
        }
        EXPECT_TRUE(eventually({}, [&] { return objects("memory_regions") == regions; }))
            << objects("memory_regions") - regions << " regions are left";
        return failed && !HasFailure();
    });
}

// The device refuses a short message, which UCX sends by a call that catches nothing.
TEST_F(NoMemoryTest, WhenTheDeviceRefusesAMessage) {
    for_each_call([](unsigned n) {
        Entity self(impatient()), other;
        const Group both{&self, &other};
        other.handle(1, [](Bytes) {});
        const Endpoint ep = self.connect(other);
        const auto send = [&] { return am_short(ep, 1, pattern(0, 8)); };
        EXPECT_TRUE(accepted(both, send));
        EXPECT_TRUE(flush_wait(both, ep));
        ibv_context& context = *last_context.load();
        post_send = std::exchange(context.ops.post_send, post_unless_refused);
        bool failed = false;
        {
            const Errors errors;
            const NoMemory none(n);
            refuses = true;
            EXPECT_STATUS(UCS_ERR_IO_ERROR, send());
            failed = NoMemory::has_failed();
        }
        EXPECT_TRUE(eventually(both, [&] { return self.failures(ep) == 1; }));
        EXPECT_FALSE(std::exchange(refuses, false));
        context.ops.post_send = post_send;
        return failed && !HasFailure();
    });
}

// Two interfaces connect to each other, send messages, put, get, flush and close. Most of that is
// the same for both lengths, so each takes every other n.
constexpr std::size_t kLengths[] = {1000, 100'000};

class NoMemoryForJobTest : public NoMemoryTest, public testing::WithParamInterface<std::size_t> {};

TEST_P(NoMemoryForJobTest, WorksOrEnds) {
    auto host_a = std::make_shared<Host>(), host_b = std::make_shared<Host>();
    const Declared memory_a(*host_a, GetParam()), memory_b(*host_b, GetParam());
    const RemoteKey of_a(*host_b, memory_a.remote()), of_b(*host_a, memory_b.remote());
    for_each_call(
        [&](unsigned n) {
            auto a = std::make_unique<JobSide>(host_a, GetParam());
            auto b = std::make_unique<JobSide>(host_b, GetParam());
            const Errors errors;
            const NoMemory none(n);
            run_job(*a, *b, memory_a.remote(), of_a, memory_b.remote(), of_b);
            for (JobSide* side : {a.get(), b.get()}) {
                side->ep.reset();
                EXPECT_LE(side->done.calls, side->waits);
                side->entity.close();
            }
            const bool failed = NoMemory::has_failed();
            EXPECT_LE(Errors::count, failed ? 1u : 0u) << Errors::last;
            if (!failed) {
                EXPECT_TRUE(a->over && b->over);
            }
            return failed;
        },
        GetParam() == kLengths[0] ? 1 : 2, 2);
}

INSTANTIATE_TEST_SUITE_P(Lengths, NoMemoryForJobTest, testing::ValuesIn(kLengths),
                         testing::PrintToStringParamName());

}  // namespace no_memory
}  // namespace uct_test

// The module's calls come here, too.

[[gnu::noinline]] static void* allocate(std::size_t size, std::size_t alignment,
                                        const void* caller) {
    if (!uct_test::no_memory::fails(caller)) {
        void* memory = nullptr;
        if (alignment <= alignof(std::max_align_t))
            memory = std::malloc(std::max<size_t>(size, 1));
        else if (posix_memalign(&memory, alignment, size) != 0)
            memory = nullptr;
        if (memory != nullptr) return memory;
    }
    throw std::bad_alloc();
}

[[gnu::noinline]] void* operator new(std::size_t size) {
    return allocate(size, 1, __builtin_return_address(0));
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
    return allocate(size, static_cast<std::size_t>(alignment), __builtin_return_address(0));
}
// The address sanitizer's would not call those above.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept try {
    return allocate(size, 1, __builtin_return_address(0));
} catch (const std::bad_alloc&) {
    return nullptr;
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment,
                                     const std::nothrow_t&) noexcept try {
    return allocate(size, static_cast<std::size_t>(alignment), __builtin_return_address(0));
} catch (const std::bad_alloc&) {
    return nullptr;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
    std::free(memory);
}
// clang does not declare those with a size by itself, as visible as the others.
[[gnu::noinline, gnu::visibility("default")]] void operator delete(void* memory,
                                                                   std::size_t) noexcept {
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
    std::free(memory);
}
[[gnu::noinline, gnu::visibility("default")]] void operator delete(void* memory, std::size_t,
                                                                   std::align_val_t) noexcept {
    std::free(memory);
}
