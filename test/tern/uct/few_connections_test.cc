// SPDX-License-Identifier: BSD-3-Clause
// Many peers, few queue pairs, and short send queues: connections end and come back under traffic
// of all kinds.
#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "../../softhca/device/fabric.h"
#include "traffic.h"

namespace uct_test {
namespace few_connections_test {

namespace softhca = conformance::softhca;

constexpr std::size_t kEntities = 16;
constexpr std::size_t kPeers = 8;           // to which each sends, and from which it receives
constexpr std::size_t kVictims = 2;         // processes that die
constexpr uint8_t kOfVictims = 2 * kPeers;  // identifier of what they send, and of what they get
constexpr std::size_t kShort = 100;         // bytes of what they send

Settings few_connections() {
    return {{"QP_MAX", "4"}, {"TX_QUEUE_LEN", "32"}, {"POLL", "memory"}};
}

// Finds dead peers soon, but not peers dead that wait for a processor.
Settings watchful() {
    Settings settings = few_connections();
    settings["CONNECT_TIMEOUT"] = "4s";
    return impatient(settings);
}

// The addresses of all survivors, as plain bytes.
using Survivors = std::array<Address, kEntities>;

// A victim: takes all that comes, and sends to all survivors in turn, with pauses in which its
// connections end, until it is killed.
[[noreturn]] void be_killed(Link& link) {
    Entity self(watchful());
    self.handle(kOfVictims, [](Bytes) {});
    self.handle(kOfVictims + 1, [](Bytes) {});
    link.send(self.address());
    std::vector<Endpoint> eps;
    for (const Address& survivor : link.receive<Survivors>()) eps.push_back(self.connect(survivor));
    std::mt19937_64 random(any_seed());
    for (;;) {
        const Endpoint& ep = eps[random() % eps.size()];
        for (int i = 0; i < 20; ++i) am_bcopy(ep, kOfVictims, pattern(1, kShort));
        for (int i = 0; i < 200; ++i) self.progress();
        // Or survivors with sanitizers would do nothing but take this.
        std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
}

class FewConnectionsTest : public TernTest {
  protected:
    // `each`: messages of each to each of its peers.
    void open(const Settings& settings, uint64_t each) {
        for (std::size_t i = 0; i < kEntities; ++i) entities_.emplace_back(settings);
        for (Entity& entity : entities_) all_.push_back(&entity);
        for (std::size_t from = 0; from < kEntities; ++from)
            for (std::size_t k = 0; k < kPeers; ++k) {
                Stream stream;
                stream.seed = random_();
                stream.count = each;
                stream.id = static_cast<uint8_t>(2 * k);
                flows_.emplace_back(entities_[from], entities_[(from + k + 1) % kEntities], stream);
            }
    }
    // Some flows go on, all others are silent. All interfaces make progress, some seldom.
    void phase() {
        std::vector<Flow*> active(10);
        for (Flow*& flow : active) flow = &flows_[random_() % flows_.size()];
        for (int i = 0; i < 300; ++i) {
            for (Flow* flow : active) {
                if (!flow->sender.done()) flow->sender.step();
                EXPECT_STATUS(UCS_OK, flow->sender.status());
            }
            for (Entity& entity : entities_)
                if (random_() % 4 != 0) entity.progress();
        }
    }
    uint64_t sent() const {
        uint64_t sum = 0;
        for (const Flow& flow : flows_) sum += flow.sender.sent();
        return sum;
    }

    const uint64_t others_ = objects("queue_pairs");
    std::mt19937_64 random_{any_seed()};
    std::deque<Entity> entities_;
    Group all_;
    std::deque<Flow> flows_;
};

TEST_F(FewConnectionsTest, NothingIsLost) {
    open(few_connections(), 8000);
    ASSERT_TRUE(eventually(
        all_,
        [&] {
            phase();
            return HasFailure() || sent() >= kEntities * kPeers * 6000;
        },
        milliseconds(120'000)));
    // In silence, the interfaces keep to their limit, however fast the traffic was: four
    // connections each, and a queue pair for handshakes.
    ASSERT_TRUE(eventually(
        all_, [&] { return objects("queue_pairs") <= others_ + kEntities * 5; },
        milliseconds(120'000)));
    std::vector<Flow*> flows;
    for (Flow& flow : flows_) flows.push_back(&flow);
    ASSERT_TRUE(run(flows));
    flows.clear();
    flows_.clear();
    uint64_t ended = 0;
    for (Entity& entity : entities_) ended += entity.close_and_count()["queue_pairs_ended"];
    EXPECT_GT(ended, 0u);
}

// Two peers of all are killed, one after the other, while connections to them and to others end
// and come back, and while receivers are late.
TEST_F(FewConnectionsTest, TheDeadTakeOnlyTheirOwn) {
    NEEDS_SOFTWARE_HCA();
    Team team;
    for (std::size_t i = 0; i < kVictims; ++i) (void)team.spawn(be_killed);
    open(watchful(), 6000);
    Survivors survivors;
    std::ranges::transform(entities_, survivors.begin(),
                           [](const Entity& entity) { return entity.address(); });
    std::size_t from_victims = 0, wrong = 0;
    for (Entity& entity : entities_)
        entity.handle(kOfVictims, [&](Bytes message) {
            ++from_victims;
            wrong += message.size() != kShort || !same(message, pattern(1, kShort));
        });
    struct Doomed {
        Doomed(Entity& from, const Address& victim, const Stream& stream)
            : entity(from), ep(from.connect(victim)), sender(from, ep, stream) {}
        Entity& entity;
        Endpoint ep;
        Sender sender;
    };
    std::deque<Doomed> doomed;  // each survivor has an endpoint to each victim, victim by victim
    for (std::size_t i = 0; i < kVictims; ++i) {
        Link& link = team[static_cast<int>(i)];
        const auto address = link.receive<Address>();
        link.send(survivors);
        for (Entity& entity : entities_) {
            Stream stream;
            stream.seed = random_();
            stream.count = UINT64_MAX;
            stream.id = kOfVictims;
            doomed.emplace_back(entity, address, stream);
        }
    }
    const auto send_to_victims = [&](std::size_t first, std::size_t last, unsigned one_in) {
        for (std::size_t i = first; i < last; ++i)
            if (random_() % one_in == 0) doomed[i].sender.step();
    };
    const std::size_t all_doomed = doomed.size();
    for (std::size_t victim = 0; victim < kVictims; ++victim) {
        const std::size_t living = victim * kEntities;
        const uint64_t begun = sent();
        from_victims = 0;
        ASSERT_TRUE(eventually(
            all_,
            [&] {
                if (random_() % 8 == 0) softhca::inject("rnr=" + std::to_string(random_() % 20));
                phase();
                send_to_victims(living, all_doomed, 4);
                const bool enough = sent() >= std::min(begun + 20'000, kEntities * kPeers * 6000);
                return HasFailure() || (enough && from_victims >= 2000);
            },
            milliseconds(120'000)));
        for (std::size_t i = living; i < all_doomed; ++i)
            ASSERT_STATUS(UCS_OK, doomed[i].sender.status()) << "before its peer dies";
        team.kill(static_cast<int>(victim));
        // The senders find out; all others go on.
        ASSERT_TRUE(eventually(
            all_,
            [&] {
                phase();
                send_to_victims(living, all_doomed, 2);
                return HasFailure() ||
                       std::all_of(doomed.begin() + static_cast<std::ptrdiff_t>(living),
                                   doomed.begin() + static_cast<std::ptrdiff_t>(living + kEntities),
                                   [](const Doomed& it) { return it.entity.failures(it.ep) == 1; });
            },
            milliseconds(120'000)));
    }
    end_faults();
    EXPECT_EQ(wrong, 0u);
    std::vector<Flow*> flows;
    for (Flow& flow : flows_) flows.push_back(&flow);
    ASSERT_TRUE(run(flows));
    doomed.clear();
    flows.clear();
    flows_.clear();
    for (Entity& entity : entities_) {
        // One for each victim, and none for a survivor.
        EXPECT_EQ(entity.failures().size(), kVictims);
        entity.forget(kOfVictims);
    }
}

}  // namespace few_connections_test
}  // namespace uct_test
