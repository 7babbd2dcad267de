// SPDX-License-Identifier: BSD-3-Clause
#include "departures.h"

#include <fnmatch.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "device.h"

namespace conformance {
namespace {

struct Departure {
    const char* tests;  // a pattern of test names
    const char* reason;
};

constexpr char kSourceIsQpOp[] =
    "a key that is not valid for the source is LOC_QP_OP_ERR instead of LOC_PROT_ERR";
constexpr char kReceiveIsQpOp[] =
    "a receive buffer that must not be written is LOC_QP_OP_ERR instead of LOC_PROT_ERR";
constexpr char kNoSqe[] =
    "an error of the sender puts the whole queue pair in ERR, there is no SQE";
constexpr char kNotChecked[] = "ibv_modify_qp does not check this value";
constexpr char kNoBounds[] = "a window opens all of its region: its bounds are not checked";
constexpr char kNoBadWr[] = "bad_wr is not set where all requests are refused";
constexpr char kEarlyRoom[] = "a request makes room when it is done, not when it has been polled";

// rdma_rxe of Linux 6.1 with the provider of rdma-core 44.
const std::vector<Departure> kRxe = {
    {"CqExTest.UnknownPollAttributesAreRefused", "ibv_start_poll does not look at comp_mask"},
    {"CqExTest.IteratesInOrderToTheEnd",
     "ibv_end_poll at the end of the queue takes a completion that is not there"},
    {"MrTest.DeregisteredReceiveBufferFailsTheMessage", kReceiveIsQpOp},
    {"QpEventTest.FirstPacketBeforeReadyToSendEstablishesCommunication",
     "no event IBV_EVENT_COMM_EST"},
    {"QpFlowTest.DrainedQueueHoldsSendsUntilItGoesOn",
     "what was posted to a drained send queue is not sent when it goes on"},
    {"QpFlowTest.DrainingNotAskedForIsSilent",
     "IBV_EVENT_SQ_DRAINED comes without being asked for"},
    {"QpFlowTest.DrainingWaitsForWhatIsUnderWay",
     "IBV_EVENT_SQ_DRAINED does not wait for what is under way"},
    {"QpValueTest.CurrentStateShows", "ibv_query_qp does not keep cur_qp_state up to date"},
    {"QueueLimitTest.RoomComesBackWithTheCompletionNotBefore", kEarlyRoom},
    {"QueueLimitTest.UnsignalledRequestsAreFreedByALaterCompletion", kEarlyRoom},
    {"QueueLimitTest.UnknownOperationIsRefused",
     "an unknown operation is taken, and puts the queue pair in ERR"},
    {"RcProtectionTest.DeregisteredSourceIsAProtectionError", kSourceIsQpOp},
    {"RcProtectionTest.SourceOfAnotherDomainIsAProtectionError", kSourceIsQpOp},
    {"RcProtectionTest.RequestsBeforeTheBadOneSucceed", kSourceIsQpOp},
    {"Elements/RcLocalErrorTest.SendFromABadElementIsAProtectionError/*Key*", kSourceIsQpOp},
    {"Elements/RcLocalErrorTest.BadElementAfterAGoodOneIsAProtectionError/*Key*", kSourceIsQpOp},
    {"RcProtectionTest.ReceiveIntoMemory*FailsBothSides", kReceiveIsQpOp},
    {"Elements/RcLocalErrorTest.ReceiveIntoABadElementFailsBothSides/*", kReceiveIsQpOp},
    {"RcProtectionTest.MessageBeyondTheLargestSizeIsALengthError", "max_msg_sz is not checked"},
    {"Lengths/RcOverlongTest.MessageLongerThanItsReceiveFailsBothSides/*",
     "an overlong message is LOC_QP_OP_ERR and REM_OP_ERR, not LOC_LEN_ERR and REM_INV_REQ_ERR"},
    {"Operations/RcAccessTest.RefusalIsAnEventOfTheResponder/*",
     "no events IBV_EVENT_QP_ACCESS_ERR and IBV_EVENT_QP_REQ_ERR"},
    {"UcTest.BadSourceStopsTheSendQueueOnly", kNoSqe},
    {"UdTest.BadSourceStopsTheSendQueueOnly", kNoSqe},
    {"UdTest.HighBitOfTheKeySelectsTheSendersOwn", "the high bit of a Q_Key has no meaning"},
    {"WrApiTest.SendWithImmediateAndAListOfElements",
     "ibv_wr_set_sge_list takes all elements to be as long as the first"},
    {"WrApiTest.InlineDataAndItsList", "the inline data of ibv_wr_* are not sent"},
    {"Types/MwTest.*TheWindowIsARemoteAccessError/*", kNoBounds},
    {"Types/Mw2Test.BindMayFollowInvalidateInOneQueue/*", kNoBounds},
    {"Types/Mw2Test.ReceiverLearnsWhichKeyWasInvalidated/*",
     "no IBV_WC_WITH_INV in the completion"},
    {"Types/Mw2Test.InvalidatingAKeyThatIsNotThereFails/*",
     "the sender is told that an invalidation which failed succeeded"},
    {"Transports/QpFlushTest.WorkPostedInErrorIsFlushed/*",
     "receives that are posted in ERR are not flushed"},
    {"Transports/QpStateTest.SendsAreTakenInEveryStateThatCanSend/*", kNoBadWr},
    {"Transports/QpStateTest.ReceivesAreTakenInEveryStateButReset/*", kNoBadWr},
    {"SrqTest.QueuePairWithOneTakesNoReceivesOfItsOwn", kNoBadWr},
    {"Values/QpBadValueTest.IsRefusedAndChangesNothing/PkeyIndexBeyondTheTable", kNotChecked},
    {"Values/QpBadValueTest.IsRefusedAndChangesNothing/MtuZero", kNotChecked},
    {"Values/QpBadValueTest.IsRefusedAndChangesNothing/TooManyResponderResources", kNotChecked},
    {"Values/QpBadValueTest.IsRefusedAndChangesNothing/RnrTimerOfSixBits", kNotChecked},
    {"Values/QpBadValueTest.IsRefusedAndChangesNothing/RetryCountOfFourBits", kNotChecked},
    {"Values/QpBadValueTest.IsRefusedAndChangesNothing/RnrRetryOfFourBits", kNotChecked},
};

// The departures of the device under test. rdma_rxe has no vendor and reports 0xffffff.
const std::vector<Departure>& departures() {
    static const std::vector<Departure> none;
    const Hca hca;
    return hca.attr().vendor_id == 0xffffff ? kRxe : none;
}

std::string name_of(const testing::TestInfo& test) {
    return std::string(test.test_suite_name()) + "." + test.name();
}

class Known : public testing::EmptyTestEventListener {
  protected:
    const Departure* find(const testing::TestInfo& test) const {
        for (const Departure& one : known_)
            if (fnmatch(one.tests, name_of(test).c_str(), 0) == 0) return &one;
        return nullptr;
    }

    const std::vector<Departure>& known_ = departures();
};

class Skip : public Known {
    void OnTestStart(const testing::TestInfo& test) override {
        if (const Departure* departure = find(test)) GTEST_SKIP() << departure->reason;
    }
};

class Check : public Known {
  public:
    // A value for --gtest_filter that selects all tests known to fail.
    std::string filter() const {
        std::string all = "-*";  // selects nothing
        for (const Departure& one : known_) all = (all[0] == '-' ? "" : all + ":") + one.tests;
        return all;
    }

    int finish() {
        for (const Departure& one : known_)
            if (!seen_.count(&one)) verdict(false, std::string(one.tests) + " is no test");
        std::printf("1..%d%s\n", count_,
                    count_ ? "" : " # SKIP no departures of this device are known");
        return bad_ != 0;
    }

  private:
    void OnTestEnd(const testing::TestInfo& test) override {
        const Departure* departure = find(test);
        seen_.insert(departure);
        const bool departs = test.result()->Failed();
        verdict(departs, name_of(test) + (departs ? " departs: " : " departs no longer: ") +
                             departure->reason);
    }

    void verdict(bool good, const std::string& text) {
        if (!good) ++bad_;
        std::printf("%s %d - %s\n", good ? "ok" : "not ok", ++count_, text.c_str());
        std::fflush(stdout);
    }

    std::set<const Departure*> seen_;
    int count_ = 0;
    int bad_ = 0;
};

}  // namespace

void skip_known_departures() {
    testing::UnitTest::GetInstance()->listeners().Append(new Skip);
}

int check_known_departures() {
    auto* check = new Check;
    testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(check);
    GTEST_FLAG_SET(filter, check->filter());
    [[maybe_unused]] const int status = RUN_ALL_TESTS();  // the tests are expected to fail
    return check->finish();
}

}  // namespace conformance
