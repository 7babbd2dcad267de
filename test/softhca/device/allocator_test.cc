// SPDX-License-Identifier: BSD-3-Clause
// The memory that the software HCA requests from the allocators of a parent domain: send queues.
#include <cerrno>
#include <cstdlib>

#include "fabric.h"

namespace conformance::softhca {
namespace {

class AllocatorTest : public FabricTest {};

struct Pieces {
    int given = 0;
    int given_back = 0;
    size_t bytes = 0;
};

void* give(ibv_pd*, void* context, size_t size, size_t alignment, uint64_t type) {
    auto* pieces = static_cast<Pieces*>(context);
    EXPECT_EQ(type, 1u) << "that of send queues";
    ++pieces->given;
    pieces->bytes = size;
    return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

// Returns memory that is not aligned as requested.
void* give_askew(ibv_pd* pd, void* context, size_t size, size_t alignment, uint64_t type) {
    return static_cast<char*>(give(pd, context, size + alignment, alignment, type)) + 8;
}

void take_back(ibv_pd*, void* context, void* piece, uint64_t type) {
    EXPECT_EQ(type, 1u);
    ++static_cast<Pieces*>(context)->given_back;
    std::free(reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(piece) & ~uintptr_t{63}));
}

Pd make_domain(const Hca& hca, ibv_pd* base, Pieces& pieces, decltype(&give) allocate) {
    ibv_parent_domain_init_attr init{};
    init.pd = base;
    init.comp_mask =
        IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    init.alloc = allocate;
    init.free = take_back;
    init.pd_context = &pieces;
    return Pd(ibv_alloc_parent_domain(hca.get(), &init));
}

TEST_F(AllocatorTest, SendQueuesLiveInThePiecesOfTheProgram) {
    alone([] {
        const Hca hca;
        const Pd base = hca.make_pd();
        Pieces pieces;
        const Pd parent = make_domain(hca, base.get(), pieces, give);
        ASSERT_NE(parent, nullptr);
        {
            const Endpoint small(hca, parent.get(), {.send_wr = 16});
            EXPECT_EQ(pieces.given, 1);
            const size_t bytes = pieces.bytes;
            const Endpoint large(hca, parent.get(), {.send_wr = 64});
            EXPECT_EQ(pieces.given, 2);
            EXPECT_EQ(pieces.bytes, 4 * bytes);
            EXPECT_EQ(pieces.given_back, 0);
        }
        EXPECT_EQ(pieces.given_back, 2);
    });
}

TEST_F(AllocatorTest, PieceThatIsNotAlignedFailsTheCreationAndIsGivenBack) {
    alone([] {
        const Hca hca;
        const Pd base = hca.make_pd();
        Pieces pieces;
        const Pd parent = make_domain(hca, base.get(), pieces, give_askew);
        ASSERT_NE(parent, nullptr);
        const Cq cq = hca.make_cq();
        ibv_qp_init_attr init = init_attr({}, cq.get(), cq.get());
        EXPECT_EQ(ibv_create_qp(parent.get(), &init), nullptr);
        EXPECT_EQ(errno, ENOMEM);
        EXPECT_EQ(pieces.given, 1);
        EXPECT_EQ(pieces.given_back, 1);
    });
}

}  // namespace
}  // namespace conformance::softhca
