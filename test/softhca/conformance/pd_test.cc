// SPDX-License-Identifier: BSD-3-Clause
// Protection domains and address handles.
#include <algorithm>
#include <cerrno>
#include <vector>

#include "qp.h"

namespace conformance {
namespace {

using PdTest = VerbsTest;

TEST_F(PdTest, ManyLiveAtOnce) {
    std::vector<Pd> domains;
    const int count = std::min(hca_.attr().max_pd - 1, 200);
    for (int i = 0; i < count; ++i) domains.push_back(hca_.make_pd());
    EXPECT_EQ(domains.back()->context, hca_.get());
}

TEST_F(PdTest, IsBusyWhileItHasAMemoryRegion) {
    Region region(pd_.get(), 4096);
    EXPECT_EQ(ibv_dealloc_pd(pd_.get()), EBUSY);
}

TEST_F(PdTest, IsBusyWhileItHasAQueuePair) {
    Endpoint end(hca_, pd_.get());
    EXPECT_EQ(ibv_dealloc_pd(pd_.get()), EBUSY);
}

TEST_F(PdTest, IsBusyWhileItHasASharedReceiveQueue) {
    if (hca_.attr().max_srq == 0) GTEST_SKIP() << "no shared receive queues";
    Srq srq = make_srq(pd_.get());
    EXPECT_EQ(ibv_dealloc_pd(pd_.get()), EBUSY);
}

TEST_F(PdTest, IsBusyWhileItHasAnAddressHandle) {
    Ah ah = hca_.make_ah(pd_.get(), hca_.address());
    EXPECT_EQ(ibv_dealloc_pd(pd_.get()), EBUSY);
}

TEST_F(PdTest, AddressHandleOfAPortThatDoesNotExistIsRefused) {
    for (int port : {0, hca_.attr().phys_port_cnt + 1}) {
        ibv_ah_attr path = hca_.path_to(hca_.address());
        path.port_num = static_cast<uint8_t>(port);
        errno = 0;
        Ah ah(ibv_create_ah(pd_.get(), &path));
        EXPECT_EQ(ah, nullptr) << port;
        EXPECT_NE(errno, 0);
    }
}

TEST_F(PdTest, AddressHandleOfAGidIndexThatDoesNotExistIsRefused) {
    if (hca_.port_attr().gid_tbl_len > 255) GTEST_SKIP() << "every index exists";
    ibv_ah_attr path = hca_.path_to(hca_.address());
    path.is_global = 1;
    path.grh.dgid = hca_.address().gid;
    path.grh.sgid_index = static_cast<uint8_t>(hca_.port_attr().gid_tbl_len);
    Ah ah(ibv_create_ah(pd_.get(), &path));
    EXPECT_EQ(ah, nullptr);
}

TEST_F(PdTest, AddressHandleOfAGidIndexThatIsNotSetIsRefused) {
    const int index = hca_.unset_gid_index();
    if (index < 0) GTEST_SKIP() << "every index is set";
    ibv_ah_attr path = hca_.path_to(hca_.address());
    path.is_global = 1;
    path.grh.dgid = hca_.address().gid;
    path.grh.sgid_index = static_cast<uint8_t>(index);
    errno = 0;
    Ah ah(ibv_create_ah(pd_.get(), &path));
    EXPECT_EQ(ah, nullptr);
    EXPECT_NE(errno, 0);
}

}  // namespace
}  // namespace conformance
