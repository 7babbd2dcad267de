// SPDX-License-Identifier: BSD-3-Clause
// The numbers of objects that a process may have, as the device reports them.
#include <cerrno>
#include <functional>
#include <vector>

#include "fabric.h"

namespace conformance::softhca {
namespace {

class DeviceLimitTest : public FabricTest {};

// Makes objects until one is refused. There must be as many as reported, and one more after one has
// been destroyed.
template <typename Object>
void expect_limit(const char* name, int reported, int error, const std::function<Object()>& make) {
    SCOPED_TRACE(name);
    std::vector<Object> objects;
    const auto make_all = [&] {
        for (;;) {
            errno = 0;
            Object object = make();
            if (object == nullptr) break;
            objects.push_back(std::move(object));
            if (objects.size() > static_cast<size_t>(reported)) break;
        }
    };
    make_all();
    ASSERT_EQ(objects.size(), static_cast<size_t>(reported));
    EXPECT_EQ(errno, error);
    objects.pop_back();
    make_all();
    EXPECT_EQ(objects.size(), static_cast<size_t>(reported));
}

TEST_F(DeviceLimitTest, AsManyObjectsAsReported) {
    alone([] {
        const Hca hca;
        const Pd pd = hca.make_pd();
        const ibv_device_attr& most = hca.attr();
        expect_limit<Pd>("max_pd", most.max_pd - 1, ENOMEM,
                         [&] { return Pd(ibv_alloc_pd(hca.get())); });
        ibv_ah_attr path = hca.path_to(hca.address());
        expect_limit<Ah>("max_ah", most.max_ah, ENOMEM,
                         [&] { return Ah(ibv_create_ah(pd.get(), &path)); });
        expect_limit<Cq>("max_cq", most.max_cq, ENOMEM,
                         [&] { return Cq(ibv_create_cq(hca.get(), 1, nullptr, nullptr, 0)); });
        expect_limit<Srq>("max_srq", most.max_srq, ENOMEM, [&] {
            ibv_srq_init_attr init{};
            init.attr.max_wr = 1;
            init.attr.max_sge = 1;
            return Srq(ibv_create_srq(pd.get(), &init));
        });
        expect_limit<Mw>("max_mw", most.max_mw, ENOMEM,
                         [&] { return Mw(ibv_alloc_mw(pd.get(), IBV_MW_TYPE_2)); });
        static char byte;
        expect_limit<Mr>("max_mr", most.max_mr, ENOMEM,
                         [&] { return Mr(ibv_reg_mr(pd.get(), &byte, 1, 0)); });
    });
}

// As drivers answer.
TEST_F(DeviceLimitTest, PersonalityHasItsError) {
    set("PERSONALITY", "rxe");
    alone([] {
        const Hca hca;
        expect_limit<Pd>("max_pd", hca.attr().max_pd, EINVAL,
                         [&] { return Pd(ibv_alloc_pd(hca.get())); });
    });
}

TEST_F(DeviceLimitTest, DevicesHaveTheirOwnDomains) {
    set("DEVICES", "2");
    alone([] {
        const Hca first = open(0, 1);
        expect_limit<Pd>("max_pd", first.attr().max_pd, ENOMEM, [&] {
            Pd pd(ibv_alloc_pd(first.get()));
            const int error = errno;
            if (pd == nullptr) open(1, 1).make_pd();  // throws if it is refused
            errno = error;
            return pd;
        });
    });
}

}  // namespace
}  // namespace conformance::softhca
