// SPDX-License-Identifier: BSD-3-Clause
// A process is killed in the middle of traffic: its peer is told once, and nothing else is lost.
#include <unistd.h>

#include <deque>
#include <ostream>
#include <string>

#include "../../softhca/device/fabric.h"
#include "traffic.h"

namespace uct_test {
namespace peer_failure_test {

constexpr milliseconds kLimit{5000};

// What the survivor does when its peer is killed.
enum class Doing : uint8_t { kNothing, kShort, kBcopy, kZcopy, kPut, kReceiving, kWaiting };

// Sent by the victim, as plain bytes.
struct Victim {
    Address address;
    Remote memory;
};

constexpr uint8_t kData = 0;  // the identifier of active messages

// The victim: receives, and sends if asked to, until it is killed.
[[noreturn]] void be_killed(Link& link, Doing doing) {
    const bool sends = doing == Doing::kReceiving;
    // Without a block: while one is full, nothing is under way that could fail.
    // What finds no receive is sent again after a long time.
    Entity self(impatient(doing == Doing::kZcopy
                              ? Settings{{"HOT_MAX", "0"}, {"RNR_TIMEOUT", "400ms"}}
                              : Settings{}));
    Memory memory(self.host(), 64 * 1024);
    self.handle(kData, [](Bytes) {});
    link.send(Victim{self.address(), describe(self.host(), memory)});
    const Endpoint back = self.connect(link.receive<Address>());
    for (;;) {
        if (sends) am_bcopy(back, 0, pattern(0, 300));
        self.progress();
    }
}

class PeerFailureTest : public TernTest, public testing::WithParamInterface<Doing> {
  protected:
    void kill_one(bool flushes);
};

class StalledPeerTest : public TernTest {};

// The peer of the victim.
class Survivor {
  public:
    Survivor(const Victim& victim, Doing doing)
        : self_(impatient()), doing_(doing), ep_(self_.connect(victim.address)), victim_(victim) {
        self_.handle(0, [this](Bytes) { ++received_; });
    }

    Entity& self() { return self_; }
    Endpoint& ep() { return ep_; }
    std::size_t received() const { return received_; }

    // Starts one operation of the kind, if there are resources.
    ucs_status_t act() {
        switch (doing_) {
            case Doing::kShort:
                return am_short(ep_, 0, pattern(0, 24));
            case Doing::kBcopy:
                return am_bcopy(ep_, 0, pattern(0, 1500));
            case Doing::kZcopy: {
                const uct_iov_t iov = memory_.iov(0, 3000);
                const ucs_status_t status =
                    am_zcopy(ep_, 0, {}, {&iov, 1}, &completions_.emplace_back());
                if (status != UCS_INPROGRESS) completions_.pop_back();
                return status;
            }
            case Doing::kPut:
                return put_bcopy(ep_, pattern(0, 2000), victim_.memory.address, key_);
            default:
                return UCS_ERR_NO_RESOURCE;
        }
    }
    // Starts operations until there are no more resources; with kWaiting, adds pending requests.
    void fill() {
        ucs_status_t status;
        for (int i = 0; i < 5000 && (status = act()) >= UCS_OK; ++i) {
        }
        if (doing_ != Doing::kWaiting) return;
        while ((status = am_bcopy(ep_, 0, pattern(0, 100))) == UCS_OK) {
        }
        while (requests_.size() < 5 && status == UCS_ERR_NO_RESOURCE) {
            Pending& request = requests_.emplace_back([this] {
                const ucs_status_t result = am_bcopy(ep_, 0, pattern(0, 100));
                if (result == UCS_ERR_NO_RESOURCE) return result;
                ++called_;
                return UCS_OK;
            });
            status = uct_ep_pending_add(ep_.get(), &request, 0);
            if (status != UCS_OK) {
                requests_.pop_back();
                break;
            }
            status = UCS_ERR_NO_RESOURCE;
        }
    }
    // Whether something that has a completion has been sent, so that there is a connection.
    bool started() const { return !completions_.empty(); }
    // Sends something that finds no receive, so that it is under way when the victim is killed. No
    // message of the victim, which might be needed first, finds one either.
    void outrun_victim(const Group& all) {
        ASSERT_TRUE(eventually(all, [&] {
            conformance::softhca::command("inject rnr=1000000000");
            if (act() == UCS_INPROGRESS) return true;
            end_faults();
            return false;
        }));
    }
    void flush() {
        const ucs_status_t status = uct_ep_flush(ep_.get(), UCT_FLUSH_FLAG_LOCAL, &flush_);
        flushing_ = status == UCS_INPROGRESS;
    }
    // Checks that all operations have ended.
    void settle() {
        std::size_t purged = 0;
        const auto count = [](uct_pending_req_t*, void* arg) { ++*static_cast<std::size_t*>(arg); };
        uct_ep_pending_purge(ep_.get(), count, &purged);
        EXPECT_EQ(called_ + purged, requests_.size());
        EXPECT_TRUE(eventually({&self_}, [&] {
            for (const Completion& it : completions_)
                if (it.calls == 0) return false;
            return !flushing_ || flush_.calls > 0;
        })) << "completions are missing";
        std::size_t failed = 0;
        for (const Completion& it : completions_) {
            EXPECT_EQ(it.calls, 1);
            failed += it.status != UCS_OK;
        }
        if (doing_ == Doing::kZcopy) {
            EXPECT_GT(failed, 0u) << "of " << completions_.size();
        }
        if (flushing_) {
            EXPECT_EQ(flush_.calls, 1);
        }
    }

  private:
    Entity self_;
    Doing doing_;
    Memory memory_{self_.host(), 4096};
    Endpoint ep_;
    Victim victim_;
    RemoteKey key_{self_.host(), victim_.memory};
    std::deque<Completion> completions_;
    std::deque<Pending> requests_;
    std::size_t called_ = 0, received_ = 0;
    Completion flush_;
    bool flushing_ = false;
};

void PeerFailureTest::kill_one(bool flushes) {
    const Doing doing = GetParam();
    Team team;
    const int victim = team.spawn([&](Link& link) { be_killed(link, doing); });
    Survivor survivor(team[victim].receive<Victim>(), doing);
    Entity& self = survivor.self();
    Endpoint& ep = survivor.ep();
    team[victim].send(self.address());
    // A peer that must not be affected.
    Entity other;
    Stream stream;
    stream.seed = 5;
    stream.count = 20000;
    stream.id = 4;
    Flow flow(self, other, stream);
    const Group all{&self, &other};
    const auto busy_until = Clock::now() + milliseconds(50);
    ASSERT_TRUE(accepted(all, [&] { return am_short(ep, 0, pattern(0, 8)); }));
    ASSERT_TRUE(eventually(all, [&] {
        survivor.fill();
        flow.sender.step();
        return Clock::now() > busy_until &&
               (doing != Doing::kReceiving || survivor.received() > 100) &&
               (doing != Doing::kZcopy || survivor.started());
    }));
    survivor.fill();
    if (doing == Doing::kZcopy) survivor.outrun_victim(all);
    if (flushes) survivor.flush();
    team.kill(victim);
    if (doing == Doing::kZcopy) end_faults();
    survivor.fill();
    ASSERT_TRUE(eventually(
        all,
        [&] {
            // A survivor without traffic need not notice before it sends.
            if (doing == Doing::kNothing || doing == Doing::kReceiving)
                am_short(ep, 0, pattern(0, 8));
            survivor.fill();
            flow.sender.step();
            return self.failures(ep) > 0;
        },
        kLimit));
    survivor.settle();
    const ucs_status_t later = am_short(ep, 0, pattern(0, 8));
    EXPECT_TRUE(UCS_STATUS_IS_ERR(later) && later != UCS_ERR_NO_RESOURCE) << Status{later};
    EXPECT_TRUE(run({&flow}));
    ep.reset();
    linger(all);
    EXPECT_EQ(self.failures().size(), 1u);
}

TEST_P(PeerFailureTest, KilledInTheMiddle) {
    kill_one(false);
}

TEST_P(PeerFailureTest, KilledDuringAFlush) {
    kill_one(true);
}

// A hot peer makes no more progress, its block is full, and no work request is under way that could
// fail.
TEST_F(StalledPeerTest, KilledWhileWeWaitForCredits) {
    Team team;
    const int victim = team.spawn([](Link& link) {
        Entity self(impatient());
        std::size_t received = 0;
        self.handle(0, [&](Bytes) { ++received; });
        link.send(self.address());
        EXPECT_TRUE(eventually({&self}, [&] { return received >= 500; }));
        link.send();
        link.receive();
    });
    Entity self(impatient());
    const Endpoint ep = self.connect(team[victim].receive<Address>());
    for (int i = 0; i < 500; ++i) {
        ASSERT_TRUE(accepted({&self}, [&] { return am_bcopy(ep, 0, pattern(0, 100)); }));
    }
    ASSERT_TRUE(eventually(
        {&self}, [&] { return uct_ep_flush(ep.get(), UCT_FLUSH_FLAG_LOCAL, nullptr) == UCS_OK; }));
    team[victim].receive();
    do {
        linger({&self});
    } while (fill_up(ep, 0, pattern(0, 100)) > 0);
    Pending request([&] { return am_bcopy(ep, 0, pattern(0, 100)); });
    ASSERT_STATUS(UCS_OK, uct_ep_pending_add(ep.get(), &request, 0));
    linger({&self}, milliseconds(300));
    EXPECT_TRUE(self.failures().empty()) << "it lives, if silently";
    team.kill(victim);
    EXPECT_TRUE(eventually(
        {&self}, [&] { return !self.failures().empty(); }, kLimit));
    uct_ep_pending_purge(
        ep.get(), [](uct_pending_req_t*, void*) {}, nullptr);
}

std::string doing_name(const testing::TestParamInfo<Doing>& doing) {
    constexpr const char* kNames[] = {"Nothing", "Short",     "Bcopy",  "Zcopy",
                                      "Put",     "Receiving", "Waiting"};
    return kNames[static_cast<int>(doing.param)];
}

INSTANTIATE_TEST_SUITE_P(Doings, PeerFailureTest,
                         testing::Values(Doing::kNothing, Doing::kShort, Doing::kBcopy,
                                         Doing::kZcopy, Doing::kPut, Doing::kReceiving,
                                         Doing::kWaiting),
                         doing_name);

}  // namespace peer_failure_test
}  // namespace uct_test
