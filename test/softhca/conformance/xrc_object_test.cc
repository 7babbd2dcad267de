// SPDX-License-Identifier: BSD-3-Clause
// XRC domains and their objects: sharing, opening, refusal to close, states.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "xrc.h"

namespace conformance {
namespace {

// A file without a name, reached only by its descriptors.
struct TemporaryFile {
    TemporaryFile() : fd(memfd_create("xrc-domain", MFD_CLOEXEC)) {
        if (fd < 0) fail_errno("memfd_create");
    }
    ~TemporaryFile() { close(fd); }
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;
    int fd;
};

using XrcObjectTest = XrcTest;

TEST_F(XrcObjectTest, DomainOfAFileMustBeCreatedOnce) {
    TemporaryFile file;
    EXPECT_EQ(open_xrcd(hca_, file.fd, 0), nullptr) << "it does not exist yet";
    EXPECT_NE(errno, 0);
    Xrcd first = open_xrcd(hca_, file.fd, O_CREAT | O_EXCL);
    ASSERT_NE(first, nullptr);
    EXPECT_EQ(open_xrcd(hca_, file.fd, O_CREAT | O_EXCL), nullptr) << "it exists already";
    EXPECT_NE(errno, 0);
    EXPECT_NE(open_xrcd(hca_, file.fd, 0), nullptr);
    EXPECT_NE(open_xrcd(hca_, file.fd, O_CREAT), nullptr);
    first.reset();
    EXPECT_EQ(open_xrcd(hca_, file.fd, 0), nullptr) << "it died with its last user";
}

TEST_F(XrcObjectTest, DescriptorsOfOneFileMeanOneDomain) {
    TemporaryFile file;
    const int duplicate = dup(file.fd);
    Xrcd first = open_xrcd(hca_, file.fd);
    ASSERT_NE(first, nullptr);
    EXPECT_NE(open_xrcd(hca_, duplicate, 0), nullptr);
    close(duplicate);
    TemporaryFile other;
    EXPECT_EQ(open_xrcd(hca_, other.fd, 0), nullptr);
}

TEST_F(XrcObjectTest, DomainWithoutAFileMustBeCreated) {
    EXPECT_EQ(open_xrcd(hca_, -1, 0), nullptr);
    EXPECT_NE(open_xrcd(hca_, -1, O_CREAT), nullptr);
}

TEST_F(XrcObjectTest, BadDescriptorIsRefused) {
    EXPECT_EQ(open_xrcd(hca_, 999999, O_CREAT), nullptr);
    EXPECT_EQ(errno, EBADF);
}

TEST_F(XrcObjectTest, DomainIsBusyWhileItIsUsed) {
    Xrcd xrcd = open_xrcd(hca_);
    ASSERT_NE(xrcd, nullptr);
    Cq cq = hca_.make_cq();
    {
        Srq srq = make_xrc_srq(hca_, pd_.get(), xrcd.get(), cq.get());
        EXPECT_EQ(ibv_close_xrcd(xrcd.get()), EBUSY);
        EXPECT_EQ(ibv_destroy_cq(cq.get()), EBUSY);
        EXPECT_EQ(ibv_dealloc_pd(pd_.get()), EBUSY);
    }
    {
        Qp receiver = make_xrc_receiver(hca_, xrcd.get());
        EXPECT_EQ(ibv_close_xrcd(xrcd.get()), EBUSY);
    }
}

TEST_F(XrcObjectTest, SharedReceiveQueuesHaveNumbersOfTheirOwn) {
    Xrcd xrcd = open_xrcd(hca_);
    Cq cq = hca_.make_cq();
    Srq first = make_xrc_srq(hca_, pd_.get(), xrcd.get(), cq.get());
    Srq second = make_xrc_srq(hca_, pd_.get(), xrcd.get(), cq.get());
    EXPECT_NE(srq_number(first), srq_number(second));
}

TEST_F(XrcObjectTest, QueuePairsTakeNoReceivesAndReceiversNoSends) {
    Xrcd xrcd = open_xrcd(hca_);
    Cq cq = hca_.make_cq();
    Qp sender = make_xrc_sender(hca_, pd_.get(), cq.get(), {});
    Qp receiver = make_xrc_receiver(hca_, xrcd.get());
    connect_xrc(hca_, sender, receiver);
    EXPECT_NE(RecvWr(1).post(sender), 0);
    EXPECT_NE(RecvWr(1).post(receiver), 0);
    EXPECT_NE(SendWr(IBV_WR_SEND, 1).post(receiver), 0);
}

TEST_F(XrcObjectTest, EveryRequiredAttributeIsRequired) {
    Xrcd xrcd = open_xrcd(hca_);
    Cq cq = hca_.make_cq();
    const QpSpec specs[] = {xrc_send_spec(), xrc_recv_spec()};
    for (const QpSpec& spec : specs) {
        Qp qp = spec.type == IBV_QPT_XRC_SEND ? make_xrc_sender(hca_, pd_.get(), cq.get(), spec)
                                              : make_xrc_receiver(hca_, xrcd.get());
        const Peer peer = as_peer(hca_, qp.get(), spec);
        const Step steps[] = {to_init(hca_, spec), to_rtr(hca_, spec, peer), to_rts(spec)};
        for (const Step& full : steps) {
            for (int bit = 1; bit < 26; ++bit) {
                if (!(full.mask & (1 << bit))) continue;
                Step partial = full;
                partial.mask &= ~(1 << bit);
                EXPECT_EQ(partial.apply(qp.get()), EINVAL)
                    << transport_name(spec.type) << " to " << full.attr.qp_state
                    << " without attribute 1 << " << bit;
            }
            EXPECT_EQ(full.apply(qp.get()), 0);
        }
        for (ibv_qp_state state : {IBV_QPS_ERR, IBV_QPS_RESET}) {
            EXPECT_EQ(to_state(state).apply(qp.get()), 0);
            EXPECT_EQ(state_of(qp), state);
        }
    }
}

class XrcOpenTest : public XrcTest {
  protected:
    // Opens a receiving queue pair in a context of its own; nullptr when refused.
    Qp open_qp(const Hca& hca, ibv_xrcd* xrcd, uint32_t number) {
        ibv_qp_open_attr attr{};
        attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE |
                         IBV_QP_OPEN_ATTR_CONTEXT;
        attr.qp_num = number;
        attr.xrcd = xrcd;
        attr.qp_type = IBV_QPT_XRC_RECV;
        attr.qp_context = &file_;
        errno = 0;
        return Qp(ibv_open_qp(hca.get(), &attr));
    }

    TemporaryFile file_;
};

TEST_F(XrcOpenTest, ReceiverIsSharedByItsOpeners) {
    Xrcd xrcd = open_xrcd(hca_, file_.fd);
    ASSERT_NE(xrcd, nullptr);
    Qp receiver = make_xrc_receiver(hca_, xrcd.get());
    Hca second;
    Xrcd same = open_xrcd(second, file_.fd, 0);
    ASSERT_NE(same, nullptr);
    Qp opened = open_qp(second, same.get(), receiver->qp_num);
    if (!opened && is_unsupported(errno)) GTEST_SKIP() << "no ibv_open_qp";
    ASSERT_NE(opened, nullptr);
    EXPECT_EQ(opened->qp_num, receiver->qp_num);
    EXPECT_EQ(opened->qp_type, IBV_QPT_XRC_RECV);
    EXPECT_EQ(opened->qp_context, &file_);
    apply_all(opened.get(), {to_init(second, xrc_recv_spec())});
    EXPECT_EQ(state_of(receiver), IBV_QPS_INIT) << "there is one queue pair behind both";
    receiver.reset();
    EXPECT_EQ(state_of(opened), IBV_QPS_INIT) << "it lives as long as one of them";
}

TEST_F(XrcOpenTest, QueuePairThatIsNotInTheDomainIsRefused) {
    Xrcd xrcd = open_xrcd(hca_, file_.fd);
    ASSERT_NE(xrcd, nullptr);
    Xrcd other = open_xrcd(hca_);
    Qp receiver = make_xrc_receiver(hca_, xrcd.get());
    EXPECT_EQ(open_qp(hca_, other.get(), receiver->qp_num), nullptr);
    EXPECT_NE(errno, 0);
    EXPECT_EQ(open_qp(hca_, xrcd.get(), receiver->qp_num ^ 0x400000), nullptr);
}

}  // namespace
}  // namespace conformance
