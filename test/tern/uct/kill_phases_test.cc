// SPDX-License-Identifier: BSD-3-Clause
// A process is killed at a random moment of one phase of a connection, many times. Its peer, which
// is the same interface each time, is told once, and its operations end. TERN_TEST_KILLS=N: in each
// phase N processes are killed; how long the peer did not know of it is printed.
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <string>

#include "../../common/random.h"
#include "direct.h"
#include "traffic.h"

namespace uct_test {
namespace kill_phases_test {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

enum class Phase : uint8_t {
    kHandshake,
    kPromotion,
    kSuperpipeline,
    kZeroCopy,
    kDirect,
    kDrain,
    kClose,
};
constexpr const char* kPhaseNames[] = {"Handshake", "Promotion", "Superpipeline", "ZeroCopy",
                                       "Direct",    "Drain",     "Close"};
constexpr uint8_t kMessage = 0;  // the identifier of active messages
constexpr std::size_t kBytes = 1 << 20;
constexpr uint64_t kBeforePhase = 20;  // messages, or tagged ones
constexpr uint64_t kUntilHot = 300;    // messages until promotion is over

// The interface of one process, and what the other one needs of it. Plain bytes.
struct Contact {
    Address address;
    Remote memory;
    bool begins = false;    // the handshake, or the end of the connection
    microseconds delay{0};  // of the kill, from the beginning of the phase
};

Settings settings_of(Phase phase) {
    Settings settings;
    if (phase == Phase::kSuperpipeline) settings["RNDV_SCHEME"] = "superpipeline";
    if (phase == Phase::kZeroCopy) settings["RNDV_SCHEME"] = "zcopy";
    if (phase == Phase::kPromotion) settings["HOT_AFTER"] = "32";
    return impatient(phase == Phase::kDirect ? direct(settings) : settings);
}

// What both processes do: messages in both directions, and what the phase is about.
class Actor {
  public:
    explicit Actor(Phase phase) : phase_(phase) {
        if (phase == Phase::kDirect)
            tagged_.emplace(settings_of(phase));
        else
            plain_.emplace(settings_of(phase));
        memory_.emplace(entity().host(), kBytes);
        entity().handle(kMessage, [this](Bytes) { ++received_; });
    }
    // A posted receive must outlive the interface, but not the memory domain.
    ~Actor() {
        key_.reset();
        close();
        receive_.reset();
    }
    Actor(const Actor&) = delete;
    Actor& operator=(const Actor&) = delete;

    Entity& entity() { return plain_ ? *plain_ : tagged_->entity; }
    const Endpoint& ep() const { return ep_; }
    Contact contact(bool begins = false, microseconds delay = {}) {
        return {entity().address(), memory_->remote(), begins, delay};
    }
    void meet(const Contact& peer) {
        peer_ = peer;
        key_.emplace(entity().host(), peer.memory);
        owes_ = true;
        connect();
    }
    void connect() { ep_ = entity().connect(peer_.address); }
    void part() { ep_.reset(); }
    void close() {
        part();
        entity().close();
    }
    Counters count() {
        part();
        return entity().close_and_count();
    }
    uint64_t received() const { return received_; }
    uint64_t done() const { return done_; }

    ucs_status_t say() { return am_short(ep_, kMessage, pattern(0, 24)); }
    void act() {
        for (int i = 0; i < 8 && say() == UCS_OK; ++i) {
        }
        if (phase_ == Phase::kSuperpipeline || phase_ == Phase::kZeroCopy) transfer();
        if (phase_ == Phase::kDirect) exchange();
        entity().progress();
    }
    // All that has been begun towards the peer has ended.
    bool settled() const { return done_ == begun_; }

  private:
    void transfer() {
        const uct_iov_t iov = memory_->iov(0, kBytes);
        while (begun_ < done_ + 4) {
            while (!completions_.empty() && completions_.front().calls != 0)
                completions_.pop_front();
            Completion& completion = completions_.emplace_back();
            completion.then = [this] { ++done_; };
            const uint64_t there = peer_.memory.address;
            const ucs_status_t status = begun_ % 2 != 0
                                            ? get_zcopy(ep_, {&iov, 1}, there, *key_, &completion)
                                            : put_zcopy(ep_, {&iov, 1}, there, *key_, &completion);
            if (status != UCS_INPROGRESS) return completions_.pop_back();
            ++begun_;
        }
    }
    // A tagged message for each one that has come. The next receive is posted before, so that the
    // device may place what comes next.
    void exchange() {
        if (!tagged_->mailbox->messages.empty()) owes_ = true;
        tagged_->mailbox->messages.clear();
        if (!receive_ || receive_->done()) {
            if (receive_) ++done_, ++begun_;
            receive_.emplace(*tagged_, 512);
            EXPECT_STATUS(UCS_OK, receive_->post(kTag));
            owes_ = true;
        }
        if (owes_ && tag_bcopy(ep_, kTag, pattern(1, 300)) == UCS_OK) owes_ = false;
    }

    Phase phase_;
    std::optional<Receive> receive_;
    std::optional<TagEntity> tagged_;
    std::optional<Entity> plain_;
    std::optional<Declared> memory_;
    Contact peer_;
    std::optional<RemoteKey> key_;
    Endpoint ep_;
    std::deque<Completion> completions_;
    uint64_t received_ = 0, begun_ = 0, done_ = 0;  // messages, other operations
    bool owes_ = true;
};

// The phase begins: the process tells when it will be killed, and the kernel kills it then.
void kill_later(Link& link, microseconds delay) {
    const nanoseconds at = Clock::now().time_since_epoch() + delay;
    link.send(at);
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGKILL;
    itimerspec when{};
    when.it_value = {static_cast<time_t>(at.count() / 1'000'000'000),
                     static_cast<long>(at.count() % 1'000'000'000)};
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
        timer_settime(timer, TIMER_ABSTIME, &when, nullptr) != 0)
        conformance::fail_errno("timer");
}

// Tells when a phase that is not endless is over.
[[noreturn]] void be_killed(Link& link, Phase phase) {
    Actor self(phase);
    link.send(self.contact());
    const auto survivor = link.receive<Contact>();
    self.meet(survivor);
    const bool begins = !survivor.begins;
    const auto begin = [&] { kill_later(link, survivor.delay); };
    const auto act_until = [&](const std::function<bool()>& end) {
        while (!end()) self.act();
    };
    if (phase == Phase::kHandshake) {
        begin();
        while (self.received() == 0) {
            if (begins) (void)self.say();
            self.entity().progress();
        }
        link.send();
    }
    act_until([&] { return self.received() >= kBeforePhase; });
    switch (phase) {
        case Phase::kHandshake:
            break;
        case Phase::kPromotion:
            begin();
            act_until([&] { return self.received() >= kUntilHot; });
            link.send();
            break;
        case Phase::kSuperpipeline:
        case Phase::kZeroCopy:
            act_until([&] { return self.done() >= 2; });
            begin();
            break;
        case Phase::kDirect:
            act_until([&] { return self.done() >= kBeforePhase; });
            begin();
            break;
        case Phase::kDrain:
            begin();
            if (begins) self.part();
            for (;;) begins ? static_cast<void>(self.entity().progress()) : self.act();
        case Phase::kClose:
            begin();
            self.close();
            link.send();
            for (;;) pause();
    }
    for (;;) self.act();
}

// How long after the beginning of the phase processes are killed: so that a part of the kills comes
// after its end.
class Delay {
  public:
    explicit Delay(Phase phase)
        : endless_(phase == Phase::kSuperpipeline || phase == Phase::kZeroCopy ||
                   phase == Phase::kDirect || phase == Phase::kDrain) {}
    microseconds next(tern::Random& random) const { return microseconds(random.below(range_)); }
    void learn(bool in_time) {
        if (!endless_)
            range_ = in_time ? range_ + range_ / 8 : std::max<uint64_t>(range_ - range_ / 4, 20);
    }

  private:
    bool endless_;
    uint64_t range_ = 2000;
};

// A message that has come through the link, also before the other end was closed.
template <typename T>
std::optional<T> take_note(Link& link) {
    T note;
    if (recv(link.fd(), &note, sizeof note, MSG_DONTWAIT) != sizeof note) return {};
    return note;
}

class KillPhasesTest : public DirectTest, public testing::WithParamInterface<Phase> {
  protected:
    void SetUp() override {
        TernTest::SetUp();
        if (!IsSkipped() && GetParam() == Phase::kDirect) DirectTest::SetUp();
    }
    static int spawn(Team& team) {
        return team.spawn([](Link& link) { be_killed(link, GetParam()); });
    }
    // How long the survivors did not know so far.
    void report(uint64_t in_phase);
    // Kills one process. Whether that was in the phase.
    bool kill_one(Actor& survivor, tern::Random& random, microseconds delay);

    std::vector<microseconds> times_;  // until the survivor knew
};

bool KillPhasesTest::kill_one(Actor& survivor, tern::Random& random, microseconds delay) {
    const Phase phase = GetParam();
    Team team;
    const int victim = spawn(team);
    const auto contact = team[victim].receive<Contact>();
    const std::size_t failures = survivor.entity().failures().size();
    const uint64_t received = survivor.received();
    const bool begins = random.chance(50);
    survivor.meet(contact);
    team[victim].send(survivor.contact(begins, delay));
    const auto act = [&] {
        if (phase != Phase::kHandshake || begins || survivor.received() != received)
            survivor.act();
        else
            survivor.entity().progress();
    };
    // The messages bring the victim to the phase.
    const auto limit = Clock::now() + deadline();
    std::optional<nanoseconds> killed;
    while (!(killed = take_note<nanoseconds>(team[victim]))) {
        if (Clock::now() > limit) fail("the phase does not begin");
        act();
    }
    if (phase == Phase::kDrain && begins) {
        survivor.part();
        survivor.connect();
    }
    while (Clock::now().time_since_epoch() < *killed) act();
    team.kill(victim);
    EXPECT_TRUE(eventually({&survivor.entity()}, [&] {
        survivor.act();
        return survivor.entity().failures().size() > failures;
    }));
    times_.push_back(
        std::chrono::duration_cast<microseconds>(Clock::now().time_since_epoch() - *killed));
    EXPECT_TRUE(eventually({&survivor.entity()}, [&] { return survivor.settled(); }));
    survivor.part();
    linger({&survivor.entity()}, milliseconds(1));
    EXPECT_EQ(survivor.entity().failures().size(), failures + 1);
    return !take_note<char>(team[victim]);
}

void KillPhasesTest::report(uint64_t in_phase) {
    std::ranges::sort(times_);
    const auto part = [&](std::size_t of_1000) {
        return static_cast<double>(times_[(times_.size() - 1) * of_1000 / 1000].count()) / 1000;
    };
    printf(
        "%s: %zu kills, %lu of them in the phase; ms until the survivor knew: "
        "least %.1f, median %.1f, 90 %% %.1f, 99 %% %.1f, most %.1f\n",
        kPhaseNames[static_cast<int>(GetParam())], times_.size(),
        static_cast<unsigned long>(in_phase), part(0), part(500), part(900), part(990), part(1000));
    fflush(stdout);
}

TEST_P(KillPhasesTest, SurvivorIsTold) {
    if (conformance::is_team_process()) {
        Team team;
        (void)spawn(team);
    }
    const char* const wanted = getenv("TERN_TEST_KILLS");
    const uint64_t count = wanted != nullptr ? strtoull(wanted, nullptr, 10) : 2;
    tern::Random random(any_seed());
    Actor survivor(GetParam());
    Delay delay(GetParam());
    uint64_t in_phase = 0, tries = 0;
    while (in_phase < count && tries++ < 4 * count + 20) {
        SCOPED_TRACE(testing::Message() << "kill " << tries);
        const bool in_time = kill_one(survivor, random, delay.next(random));
        if (HasFailure()) return;
        in_phase += in_time;
        if (in_time && in_phase % 100 == 0 && in_phase != count) report(in_phase);
        delay.learn(in_time);
    }
    EXPECT_EQ(in_phase, count) << "of " << tries;
    report(in_phase);
    // That the phases are what they are called. Few processes may all be killed before.
    if (count < 20) return;
    const Counters counters = survivor.count();
    if (GetParam() == Phase::kPromotion && writes_in_order()) {
        EXPECT_GT(counters["promotions"], 0u);
    }
    if (GetParam() == Phase::kDirect) {
        EXPECT_GT(counters["direct_received"], 0u);
    }
    if (GetParam() == Phase::kSuperpipeline) {
        EXPECT_GT(counters["rndv_staged_bytes"], 0u);
    }
    if (GetParam() == Phase::kZeroCopy) {
        EXPECT_GT(counters["rndv_gathered_bytes"], 0u);
    }
}

INSTANTIATE_TEST_SUITE_P(Phases, KillPhasesTest,
                         testing::Values(Phase::kHandshake, Phase::kPromotion,
                                         Phase::kSuperpipeline, Phase::kZeroCopy, Phase::kDirect,
                                         Phase::kDrain, Phase::kClose),
                         [](const auto& test) {
                             return std::string(kPhaseNames[static_cast<int>(test.param)]);
                         });

}  // namespace kill_phases_test
}  // namespace uct_test
