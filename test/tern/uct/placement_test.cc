// SPDX-License-Identifier: BSD-3-Clause
// A device that places bytes late, in segments, or out of order.
#include <ostream>
#include <string>

#include "../../softhca/device/fabric.h"
#include "traffic.h"

namespace uct_test {
namespace {

namespace softhca = conformance::softhca;

struct Fault {
    const char* name;
    const char* fault;
    const char* poll;
    bool blocks = true;  // the receiver may grant blocks
};

void PrintTo(const Fault& fault, std::ostream* out) {
    *out << fault.name;
}

class PlacementTest : public TernTest {
  protected:
    void TearDown() override {
        if (!IsSkipped()) end_faults();
    }

    uint64_t seed_ = any_seed();
};
class FaultTest : public PlacementTest, public testing::WithParamInterface<Fault> {};

TEST_P(FaultTest, TrafficIsRight) {
    NEEDS_SOFTWARE_HCA();
    const Settings settings{{"POLL", GetParam().poll}};
    const bool asked_for = std::string(GetParam().poll) == "memory";
    const bool blocks = GetParam().blocks && (asked_for || writes_in_order());
    Entity a(settings), b(settings);
    softhca::inject(GetParam().fault);
    {
        Stream there, back;
        there.seed = back.seed = seed_;
        there.count = back.count = 1500;
        back.id = 2;
        there.typical = 300;
        back.typical = 3000;
        Flow one(a, b, there), other(b, a, back);
        EXPECT_TRUE(run({&one, &other}));
    }
    const Counters counters = a.close_and_count();
    if (blocks)
        EXPECT_GT(counters["sent_hot"], 100u) << counters.json();
    else
        EXPECT_EQ(counters["sent_hot"], 0u) << counters.json();
}

// The receiver polls memory while another process's device writes to it.
TEST_P(FaultTest, BetweenProcesses) {
    NEEDS_SOFTWARE_HCA();
    Team team;
    Stream stream;
    stream.count = 1500;
    for (int i = 0; i < 2; ++i) {
        team.spawn([i](Link& link) {
            Entity self(Settings{{"POLL", GetParam().poll}});
            link.send(self.address());
            const Endpoint ep = self.connect(link.receive<Address>());
            auto out = link.receive<Stream>(), in = out;
            (i ? out : in).id = 2;
            Receiver receiver(self, in, self.attr());
            link.send();
            link.receive();
            Sender sender(self, ep, out);
            EXPECT_TRUE(run({&self}, {&sender}, {&receiver}));
            link.send();
            linger({&self}, milliseconds(300));
            link.receive();
        });
    }
    conformance::exchange<Address>(team[0], team[1]);
    softhca::inject(GetParam().fault);
    stream.seed = seed_;
    for (int i = 0; i < 2; ++i) team[i].send(stream);
    conformance::exchange<char>(team[0], team[1]);
    conformance::exchange<char>(team[0], team[1]);
    team.finish();
}

TEST_F(PlacementTest, ReceiverThatIsNotReadyIsTriedAgain) {
    NEEDS_SOFTWARE_HCA();
    Entity a, b;
    Stream there, back;
    there.seed = back.seed = seed_;
    there.count = back.count = 5000;
    back.id = 2;
    Flow one(a, b, there), other(b, a, back);
    ASSERT_TRUE(eventually({&a, &b}, [&] {
        one.sender.step();
        return one.receiver.received() > 0;
    }));
    for (int i = 0; i < 5; ++i) {
        softhca::inject("rnr=10");
        const uint64_t target = one.sender.sent() + 500;
        ASSERT_TRUE(eventually({&a, &b}, [&] {
            one.sender.step();
            other.sender.step();
            return one.sender.sent() >= target;
        }));
    }
    EXPECT_TRUE(run({&one, &other}));
}

INSTANTIATE_TEST_SUITE_P(
    Faults, FaultTest,
    testing::Values(Fault{"Words", "segment=8:1us", "memory"},
                    Fault{"Segments", "segment=256:5us", "memory"},
                    Fault{"OddSegments", "segment=100:2us", "memory"},
                    Fault{"LateSegments", "segment=1024:100us", "auto"},
                    Fault{"OutOfOrder", "out-of-order", "auto", false},
                    Fault{"OutOfOrderSegments", "segment=64:2us,out-of-order", "auto", false},
                    Fault{"OutOfOrderCq", "segment=64:2us,out-of-order", "cq", false},
                    Fault{"LateCompletions", "delay-completions=200us", "auto"}),
    [](const testing::TestParamInfo<Fault>& fault) { return std::string(fault.param.name); });

}  // namespace
}  // namespace uct_test
