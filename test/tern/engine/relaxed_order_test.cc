// SPDX-License-Identifier: BSD-3-Clause

// Which memory is registered with relaxed ordering: only what is read after a completion.

#include <algorithm>
#include <span>

#include "one_way.h"
#include "rendezvous_node.h"
#include "verbs_faults.h"

namespace tern::test {
namespace {

// What is registered during its life, by engines and caches with this setting.
class Registrations {
  public:
    explicit Registrations(bool relaxed) : before_(std::exchange(relaxed_order, relaxed)) {}
    ~Registrations() { relaxed_order = before_; }
    Registrations(const Registrations&) = delete;
    Registrations& operator=(const Registrations&) = delete;

    // Bytes of those that are relaxed, or are not, and that others may write or may not.
    static size_t bytes(bool relaxed, bool by_peers) {
        size_t sum = 0;
        for (const auto& entry : RegistrationList::entries())
            if (is(entry, IBV_ACCESS_RELAXED_ORDERING) == relaxed &&
                is(entry, IBV_ACCESS_REMOTE_WRITE) == by_peers)
                sum += entry.length;
        return sum;
    }
    // Whether all relaxed memory that peers may write is a part of `memory`.
    static bool only_within(std::span<const std::byte> memory) {
        return std::ranges::all_of(RegistrationList::entries(), [&](const auto& entry) {
            constexpr size_t kPage = 4096;
            const auto* const at = static_cast<const std::byte*>(entry.address);
            return !is(entry, IBV_ACCESS_RELAXED_ORDERING) || !is(entry, IBV_ACCESS_REMOTE_WRITE) ||
                   (at + kPage > memory.data() &&
                    at + entry.length < memory.data() + memory.size() + kPage);
        });
    }

  private:
    static bool is(const RegistrationList::Entry& entry, unsigned flag) {
        return (entry.access & flag) != 0;
    }

    RegistrationList list_;
    bool before_;
};

size_t receive_bytes(const EngineSettings& settings) {
    return engine_limits::buffer_stride(settings.receive_buffer()) * settings.receive_queue;
}

// Sends until there is a block, and so the words of its writer.
void expect_blocks(Node& sender, Node& receiver) {
    int user = 0;
    std::string why;
    Channel* const channel = sender.engine->attach(receiver.engine->address(), &user, why);
    ASSERT_TRUE(channel) << why;
    for (int i = 0; i < 200; ++i)
        ASSERT_TRUE(sender.send(*channel, 1, std::string(300, 'a'), receiver));
    EXPECT_EQ(receiver.engine->usage().hot_peers, writes_in_order() ? 1u : 0u);
    sender.engine->leave(channel, &user);
}

TEST(RelaxedOrderTest, OfAnEngineOnlyReceiveBuffersAre) {
    for (const bool relaxed : {true, false}) {
        const Registrations registrations(relaxed);
        const EngineSettings settings = quick_settings();
        Node sender(settings), receiver(settings);
        ASSERT_NO_FATAL_FAILURE(expect_blocks(sender, receiver));
        EXPECT_EQ(registrations.bytes(true, true), 0u);
        EXPECT_EQ(registrations.bytes(false, true) != 0, writes_in_order()) << "the block";
        if (!relaxed) {
            EXPECT_EQ(registrations.bytes(true, false), 0u);
            continue;
        }
        const size_t buffers = registrations.bytes(true, false);
        EXPECT_GE(buffers, 2 * receive_bytes(settings));
        EXPECT_LT(buffers, 2 * receive_bytes(settings) + 2 * 4096);
    }
}

// A put by each scheme, and the registrations that it made.
void expect_transfer(SchemeSetting scheme, PollMode poll, bool placed) {
    const Registrations registrations(true);
    RendezvousNode near(scheme, poll), far(scheme, poll);
    int user = 0;
    std::string why;
    Channel* const channel = near.engine->attach(far.engine->address(), &user, why);
    ASSERT_TRUE(channel) << why;
    const Buffers::Piece piece{near.memory.data(), near.memory.size()};
    std::ranges::fill(near.memory, std::byte{7});
    ASSERT_EQ(
        near.rendezvous->put(*channel, {&piece, 1}, far.address(), far.key(far.open), 0, {&user}),
        Status::kInProgress);
    ASSERT_TRUE(until(
        [&] {
            near.poll();
            far.poll();
        },
        [&] { return !near.completions.empty(); }));
    EXPECT_EQ(near.completions.front(), Status::kOk);
    EXPECT_EQ(far.memory, near.memory);
    EXPECT_TRUE(registrations.only_within(far.memory));
    EXPECT_EQ(registrations.bytes(true, true) != 0, placed);
    EXPECT_EQ(far.registered != 0, placed);
    near.engine->leave(channel, &user);
}

TEST(RelaxedOrderTest, PinsAre) {
    for (const PollMode poll : {PollMode::kMemory, PollMode::kCq})
        expect_transfer(SchemeSetting::kZeroCopy, poll, true);
}

TEST(RelaxedOrderTest, RingsAreNot) {
    for (const PollMode poll : {PollMode::kMemory, PollMode::kCq})
        expect_transfer(SchemeSetting::kSuperpipeline, poll, false);
}

}  // namespace
}  // namespace tern::test
