// SPDX-License-Identifier: BSD-3-Clause
// Thread domains and parent domains.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <set>

#include "qp.h"

namespace conformance {
namespace {

struct FreeTd {
    void operator()(ibv_td* td) const {
        if (const int rc = ibv_dealloc_td(td)) ADD_FAILURE() << "ibv_dealloc_td: " << rc;
    }
};
using Td = std::unique_ptr<ibv_td, FreeTd>;

// The calls of a program's allocators.
struct Memory {
    enum class Answer { kGive, kDefault, kNone };
    Answer answer = Answer::kGive;
    int asked = 0;
    std::set<void*> given;
    int strange = 0;  // freed without having been allocated

    static void* allocate(ibv_pd* pd, void* context, size_t size, size_t alignment, uint64_t) {
        auto* memory = static_cast<Memory*>(context);
        ++memory->asked;
        EXPECT_NE(pd, nullptr);
        EXPECT_GT(size, 0u);
        EXPECT_EQ(alignment & (alignment - 1), 0u) << alignment;
        if (memory->answer == Answer::kNone) return nullptr;
        if (memory->answer == Answer::kDefault) return IBV_ALLOCATOR_USE_DEFAULT;
        void* piece = nullptr;
        if (posix_memalign(&piece, std::max(alignment, sizeof(void*)), size) != 0) return nullptr;
        memory->given.insert(piece);
        return piece;
    }

    static void release(ibv_pd*, void* context, void* piece, uint64_t) {
        auto* memory = static_cast<Memory*>(context);
        if (memory->given.erase(piece) == 0) {
            ++memory->strange;
            return;
        }
        std::free(piece);
    }
};

class ParentDomainTest : public VerbsTest {
  protected:
    void SetUp() override {
        Pd parent = make(attributes());
        if (!parent && is_unsupported(errno)) GTEST_SKIP() << "no parent domains";
        ASSERT_NE(parent, nullptr);
    }

    ibv_parent_domain_init_attr attributes() {
        ibv_parent_domain_init_attr init{};
        init.pd = pd_.get();
        return init;
    }

    ibv_parent_domain_init_attr with_allocators(Memory& memory) {
        ibv_parent_domain_init_attr init = attributes();
        init.comp_mask =
            IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
        init.alloc = Memory::allocate;
        init.free = Memory::release;
        init.pd_context = &memory;
        return init;
    }

    Pd make(ibv_parent_domain_init_attr init) {
        errno = 0;
        return Pd(ibv_alloc_parent_domain(hca_.get(), &init));
    }

    // Exchanges a message between two queue pairs of the domain.
    void exchange(ibv_pd* pd) {
        Pair pair(hca_, pd);
        pair.a_mem.fill(1, 0, 1000);
        ASSERT_EQ(RecvWr(1).sge(pair.b_mem.sge(0, 1000)).post(pair.b.qp), 0);
        ASSERT_EQ(SendWr(IBV_WR_SEND, 2).sge(pair.a_mem.sge(0, 1000)).post(pair.a.qp), 0);
        EXPECT_TRUE(next_are(pair.b.recv_cq, {1}));
        EXPECT_TRUE(next_are(pair.a.send_cq, {2}));
        EXPECT_TRUE(pair.b_mem.holds(1, 0, 1000));
    }
};

TEST_F(ParentDomainTest, StandsForItsDomain) {
    Pd parent = make(attributes());
    Region outside(pd_.get(), 4096);
    Pair pair(hca_, parent.get());
    ASSERT_EQ(
        SendWr(IBV_WR_RDMA_WRITE, 1).sge(outside.sge(0, 64)).remote(pair.b_mem).post(pair.a.qp), 0);
    EXPECT_TRUE(next_are(pair.a.send_cq, {1}));
}

TEST_F(ParentDomainTest, KeepsItsDomainBusy) {
    Pd parent = make(attributes());
    EXPECT_EQ(ibv_dealloc_pd(pd_.get()), EBUSY);
}

TEST_F(ParentDomainTest, IsBusyWhileItIsUsed) {
    Pd parent = make(attributes());
    Endpoint end(hca_, parent.get());
    EXPECT_EQ(ibv_dealloc_pd(parent.get()), EBUSY);
}

TEST_F(ParentDomainTest, KeepsItsThreadDomainBusy) {
    ibv_td_init_attr init{};
    Td td(ibv_alloc_td(hca_.get(), &init));
    if (!td) GTEST_SKIP() << "no thread domains";
    ibv_parent_domain_init_attr with_thread = attributes();
    with_thread.td = td.get();
    Pd parent = make(with_thread);
    ASSERT_NE(parent, nullptr);
    EXPECT_EQ(ibv_dealloc_td(td.get()), EBUSY);
    exchange(parent.get());
    parent.reset();
}

TEST_F(ParentDomainTest, UnknownAttributesAreRefused) {
    ibv_parent_domain_init_attr init = attributes();
    init.comp_mask = 0x40;
    EXPECT_EQ(make(init), nullptr);
    EXPECT_NE(errno, 0);
    ibv_td_init_attr thread{.comp_mask = 0x40};
    EXPECT_EQ(ibv_alloc_td(hca_.get(), &thread), nullptr);
}

TEST_F(ParentDomainTest, AllocatorsComeInPairs) {
    Memory memory;
    for (const bool first : {true, false}) {
        ibv_parent_domain_init_attr init = with_allocators(memory);
        if (first)
            init.alloc = nullptr;
        else
            init.free = nullptr;
        EXPECT_EQ(make(init), nullptr);
        EXPECT_NE(errno, 0);
    }
}

// A device may ask the allocators for memory for any of its objects.
TEST_F(ParentDomainTest, WhatAllocatorsGiveIsGivenBack) {
    Memory memory;
    Pd parent = make(with_allocators(memory));
    if (!parent && is_unsupported(errno)) GTEST_SKIP() << "no allocators";
    ASSERT_NE(parent, nullptr);
    exchange(parent.get());
    parent.reset();
    EXPECT_EQ(memory.given.size(), 0u);
    EXPECT_EQ(memory.strange, 0);
}

TEST_F(ParentDomainTest, AllocatorsMayLeaveItToTheDevice) {
    Memory memory;
    memory.answer = Memory::Answer::kDefault;
    Pd parent = make(with_allocators(memory));
    if (!parent && is_unsupported(errno)) GTEST_SKIP() << "no allocators";
    ASSERT_NE(parent, nullptr);
    exchange(parent.get());
    parent.reset();
    EXPECT_EQ(memory.strange, 0);
}

TEST_F(ParentDomainTest, AllocatorsWithoutMemoryFailTheCreation) {
    Memory memory;
    memory.answer = Memory::Answer::kNone;
    Pd parent = make(with_allocators(memory));
    if (!parent && is_unsupported(errno)) GTEST_SKIP() << "no allocators";
    ASSERT_NE(parent, nullptr);
    Cq cq = hca_.make_cq();
    ibv_qp_init_attr init = init_attr({}, cq.get(), cq.get());
    errno = 0;
    Qp qp(ibv_create_qp(parent.get(), &init));
    EXPECT_EQ(qp == nullptr, memory.asked != 0);
    if (!qp) {
        EXPECT_NE(errno, 0);
    }
    memory.answer = Memory::Answer::kGive;
    qp.reset();
    exchange(parent.get());
}

TEST_F(ParentDomainTest, CompletionQueueKeepsItBusy) {
    Pd parent = make(attributes());
    ibv_cq_init_attr_ex init{};
    init.cqe = 16;
    init.wc_flags = IBV_WC_STANDARD_FLAGS;
    init.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
    init.parent_domain = parent.get();
    errno = 0;
    ibv_cq_ex* ex = ibv_create_cq_ex(hca_.get(), &init);
    if (!ex && is_unsupported(errno)) GTEST_SKIP() << "no ibv_create_cq_ex with a parent domain";
    ASSERT_NE(ex, nullptr);
    Cq cq(ibv_cq_ex_to_cq(ex));
    EXPECT_EQ(ibv_dealloc_pd(parent.get()), EBUSY);
    cq.reset();
}

TEST_F(ParentDomainTest, CompletionQueueWantsAParentDomain) {
    ibv_cq_init_attr_ex init{};
    init.cqe = 16;
    init.wc_flags = IBV_WC_STANDARD_FLAGS;
    init.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
    init.parent_domain = pd_.get();
    errno = 0;
    EXPECT_EQ(ibv_create_cq_ex(hca_.get(), &init), nullptr);
    EXPECT_NE(errno, 0);
}

}  // namespace
}  // namespace conformance
