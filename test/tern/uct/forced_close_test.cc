// SPDX-License-Identifier: BSD-3-Clause
// One of two endpoints that go to one peer is flushed by force, as when UCP closes it by force,
// while the peer is stopped. The flush ends, and the other endpoint's operations go on with the
// peer.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <deque>
#include <optional>
#include <string>

#include "transfer.h"

namespace uct_test {
namespace forced_close_test {

constexpr std::size_t kBytes = 400 * 1000;  // of a transfer
constexpr std::size_t kParts = 4;           // of each side's memory: a put and a get, two endpoints
constexpr unsigned kNear = 0, kFar = 10;    // the patterns of both sides' memory
constexpr unsigned kMark = 99;              // the pattern of memory that is in use again

Settings narrow(const std::string& scheme) {
    return {{"RNDV_SCHEME", scheme}, {"RNDV_WINDOW", "32k"}};
}

// What a side needs of its peer. Plain bytes.
struct Contact {
    Address address;
    Remote memory;
    pid_t process = 0;
};

// One of the two sides. Its parts have the patterns from `seed` on.
struct Side {
    Side(const std::string& scheme, unsigned seed) : entity(narrow(scheme)) {
        for (unsigned i = 0; i < kParts; ++i) fill(part(i), seed + i);
        entity.handle(1, [](Bytes) {});
    }
    std::span<std::byte> part(std::size_t i) const { return memory.part(i * kBytes, kBytes); }
    Contact contact() const { return {entity.address(), memory.remote(), getpid()}; }

    Entity entity;
    Declared memory{entity.host(), kParts* kBytes};
};

// What the peer has got: of the put that was dropped a part, and nothing that was written to its
// memory later; and all of the other one.
testing::AssertionResult has_got(const Side& peer) {
    const std::size_t at = first_difference(peer.part(0), kNear);
    if (const auto rest = filled(peer.part(0).subspan(at), kFar, at); !rest) return rest;
    return filled(peer.part(2), kNear + 2);
}

// The side that closes an endpoint: of each of its two endpoints a put, a get and a flush.
class Closer {
  public:
    Closer(Side& side, const Contact& peer)
        : side_(side),
          peer_(peer),
          key_(side.entity.host(), peer.memory),
          one_(side.entity.connect(peer.address)),
          other_(side.entity.connect(peer.address)) {}

    Endpoint& one() { return one_; }
    void begin(const Group& who, bool gets) {
        for (unsigned i = 0; i < 2; ++i) {
            begin(who, i, false);
            if (gets || i != 0) begin(who, i, true);
            ASSERT_STATUS(UCS_INPROGRESS,
                          uct_ep_flush(of(i).get(), UCT_FLUSH_FLAG_LOCAL, &completions_[4 + i]));
        }
    }
    // The peer does nothing in the meantime.
    void close_one(const Group& who) {
        const ucs_status_t status = uct_ep_flush(one_.get(), UCT_FLUSH_FLAG_CANCEL, &flushed_);
        if (status == UCS_INPROGRESS) {
            ASSERT_TRUE(eventually(who, [&] { return flushed_.calls == 1; }));
        } else {
            ASSERT_STATUS(UCS_OK, status);
        }
        for (const unsigned i : {0, 1, 4}) EXPECT_EQ(completions_[i].calls, begun_[i]) << i;
        for (const unsigned i : {2, 3, 5}) EXPECT_LE(completions_[i].calls, 1) << i;
        for (const unsigned i : {0, 1}) fill(side_.part(i), kMark);
        one_.reset();
    }
    bool is_over() const {
        for (unsigned i = 0; i < completions_.size(); ++i)
            if (completions_[i].calls != begun_[i]) return false;
        return true;
    }
    // The peer has gone on: nobody has touched the memory of the endpoint that has been closed.
    void expect_unharmed() {
        for (const unsigned i : {0, 1}) EXPECT_TRUE(filled(side_.part(i), kMark));
        for (const unsigned i : {2, 3, 5}) EXPECT_STATUS(UCS_OK, completions_[i].status) << i;
        EXPECT_TRUE(filled(side_.part(3), kFar + 3));
        EXPECT_TRUE(side_.entity.failures().empty());
    }

  private:
    Endpoint& of(unsigned endpoint) { return endpoint == 0 ? one_ : other_; }
    void begin(const Group& who, unsigned endpoint, bool get) {
        const unsigned i = 2 * endpoint + get;
        const uct_iov_t iov = side_.memory.iov(i * kBytes, kBytes);
        const uint64_t there = peer_.memory.address + i * kBytes;
        ASSERT_TRUE(accepted(who, [&] {
            return (get ? get_zcopy : put_zcopy)(of(endpoint), {&iov, 1}, there, key_,
                                                 &completions_[i]);
        }));
        begun_[i] = 1;
        begun_[4 + endpoint] = 1;
    }

    Side& side_;
    const Contact peer_;
    RemoteKey key_;
    Endpoint one_, other_;
    std::deque<Completion> completions_{6};
    Completion flushed_;
    int begun_[6]{};
};

// As if the peer was stopped after some calls of progress.
class ForcedCloseTest : public TernTest {
  protected:
    // Ring and staging memory of both sides serve again.
    void expect_all_goes_on(unsigned seed) {
        const RemoteKey key(near_->entity.host(), far_->memory.remote());
        const Endpoint ep = near_->entity.connect(far_->entity);
        const uct_iov_t iov = near_->memory.iov(0, kParts * kBytes);
        for (unsigned i = 0; i < 3; ++i) {
            fill(near_->memory.part(0, kParts * kBytes), seed + i);
            const uint64_t there = far_->memory.remote().address;
            ASSERT_STATUS(UCS_OK, put_wait(both_, ep, {&iov, 1}, there, key));
            EXPECT_TRUE(filled(far_->memory.part(0, kParts * kBytes), seed + i));
            ASSERT_STATUS(UCS_OK, get_wait(both_, ep, {&iov, 1}, there, key));
            EXPECT_TRUE(filled(near_->memory.part(0, kParts * kBytes), seed + i));
        }
        EXPECT_TRUE(near_->entity.failures().empty());
        EXPECT_TRUE(far_->entity.failures().empty());
    }
    void make_sides(const std::string& scheme) {
        near_.emplace(scheme, kNear);
        far_.emplace(scheme, kFar);
        both_ = {&near_->entity, &far_->entity};
    }

    void drop(const std::string& scheme, bool gets);

    std::optional<Side> near_, far_;
    Group both_;
};

void ForcedCloseTest::drop(const std::string& scheme, bool gets) {
    for (const int turns : {0, 1, 2, 3, 4, 6, 8, 12, 20}) {
        SCOPED_TRACE(turns);
        make_sides(scheme);
        {
            Closer closer(*near_, far_->contact());
            ASSERT_TRUE(accepted(both_, [&] { return am_short(closer.one(), 1, pattern(0, 8)); }));
            ASSERT_TRUE(flush_wait(both_, closer.one()));
            ASSERT_NO_FATAL_FAILURE(closer.begin({&near_->entity}, gets));
            for (int i = 0; i < turns; ++i) progress(both_);
            ASSERT_NO_FATAL_FAILURE(closer.close_one({&near_->entity}));
            ASSERT_TRUE(eventually(both_, [&] { return closer.is_over(); }));
            // What the peer sends late comes behind what it sends to the other endpoint.
            linger(both_, milliseconds(5));
            closer.expect_unharmed();
            EXPECT_TRUE(has_got(*far_));
        }
        ASSERT_NO_FATAL_FAILURE(expect_all_goes_on(100));
    }
}

TEST_F(ForcedCloseTest, DropsWhatGoesThroughRings) {
    drop("superpipeline", true);
}

TEST_F(ForcedCloseTest, DropsPutsInPlace) {
    drop("zcopy", false);
}

// The peer may still write to the memory.
TEST_F(ForcedCloseTest, WaitsForGetsInPlace) {
    make_sides("zcopy");
    const RemoteKey key(near_->entity.host(), far_->memory.remote());
    Endpoint one = near_->entity.connect(far_->entity), other = near_->entity.connect(far_->entity);
    ASSERT_TRUE(accepted(both_, [&] { return am_short(other, 1, pattern(0, 8)); }));
    ASSERT_TRUE(flush_wait(both_, other));
    Completion get, flushed;
    const uct_iov_t iov = near_->memory.iov(0, kBytes);
    ASSERT_STATUS(UCS_OK, am_short(one, 1, pattern(0, 8)));
    ASSERT_STATUS(UCS_INPROGRESS,
                  get_zcopy(one, {&iov, 1}, far_->memory.remote().address, key, &get));
    ASSERT_STATUS(UCS_INPROGRESS, uct_ep_flush(one.get(), UCT_FLUSH_FLAG_CANCEL, &flushed));
    linger({&near_->entity}, milliseconds(5));
    EXPECT_EQ(flushed.calls, 0);
    ASSERT_TRUE(eventually(both_, [&] { return flushed.calls == 1; }));
    EXPECT_EQ(get.calls, 1);
    EXPECT_TRUE(filled(near_->part(0), kFar));
}

// An earlier flush of an endpoint waits for all operations on the connection, the other endpoint's
// too. A flush by force ends it, though the endpoint itself has no operation.
TEST_F(ForcedCloseTest, EndsAnEarlierFlushOfAnEndpointWithoutOperations) {
    make_sides("superpipeline");
    const Group near{&near_->entity};
    const RemoteKey key(near_->entity.host(), far_->memory.remote());
    Endpoint one = near_->entity.connect(far_->entity), other = near_->entity.connect(far_->entity);
    for (const Endpoint* ep : {&one, &other})
        ASSERT_TRUE(accepted(both_, [&] { return am_short(*ep, 1, pattern(0, 8)); }));
    ASSERT_TRUE(flush_wait(both_, one));
    Completion put, flushed, forced;
    const uct_iov_t iov = near_->memory.iov(0, kBytes);
    ASSERT_STATUS(UCS_INPROGRESS,
                  put_zcopy(other, {&iov, 1}, far_->memory.remote().address, key, &put));
    ASSERT_STATUS(UCS_INPROGRESS, uct_ep_flush(one.get(), UCT_FLUSH_FLAG_LOCAL, &flushed));
    if (uct_ep_flush(one.get(), UCT_FLUSH_FLAG_CANCEL, &forced) == UCS_INPROGRESS) {
        ASSERT_TRUE(eventually(near, [&] { return forced.calls == 1; }));
    }
    EXPECT_EQ(flushed.calls, 1);
    EXPECT_EQ(put.calls, 0);
    one.reset();
    ASSERT_TRUE(eventually(both_, [&] { return put.calls == 1; }));
    EXPECT_STATUS(UCS_OK, put.status);
    EXPECT_TRUE(filled(far_->part(0), kNear));
}

// Operations of an endpoint that is destroyed continue. An endpoint that is made at its address,
// which is for the allocator to decide (not with the address sanitizer), does not own them.
TEST_F(ForcedCloseTest, LeavesTheOperationsOfAnEndpointThatIsGone) {
    make_sides("superpipeline");
    const Group near{&near_->entity};
    const RemoteKey key(near_->entity.host(), far_->memory.remote());
    Endpoint other = near_->entity.connect(far_->entity);
    ASSERT_TRUE(accepted(both_, [&] { return am_short(other, 1, pattern(0, 8)); }));
    ASSERT_TRUE(flush_wait(both_, other));
    bool again = false;
    for (int tries = 0; tries < 20 && !again; ++tries) {
        Endpoint one = near_->entity.connect(far_->entity);
        const uct_ep_h first = one.get();
        ASSERT_TRUE(accepted(both_, [&] { return am_short(one, 1, pattern(0, 8)); }));
        Completion put, forced;
        const uct_iov_t iov = near_->memory.iov(0, kBytes);
        ASSERT_STATUS(UCS_INPROGRESS,
                      put_zcopy(one, {&iov, 1}, far_->memory.remote().address, key, &put));
        one.reset();
        one = near_->entity.connect(far_->entity);
        again = one.get() == first;
        ASSERT_TRUE(accepted(near, [&] { return am_short(one, 1, pattern(0, 8)); }));
        if (uct_ep_flush(one.get(), UCT_FLUSH_FLAG_CANCEL, &forced) == UCS_INPROGRESS) {
            ASSERT_TRUE(eventually(near, [&] { return forced.calls == 1; }));
        }
        EXPECT_EQ(put.calls, 0);
        one.reset();
        ASSERT_TRUE(eventually(both_, [&] { return put.calls == 1; }));
        EXPECT_STATUS(UCS_OK, put.status);
    }
}

// Progresses until the test says something.
void serve(Link& link, Entity& entity) {
    char note;
    while (recv(link.fd(), &note, sizeof note, MSG_DONTWAIT) < 0) entity.progress();
}

class StoppedPeerTest : public TernTest {
  protected:
    // Stops the peer before the connection is up, or after it.
    void close_one_of_two(bool before);
};

void StoppedPeerTest::close_one_of_two(bool before) {
    Team team;
    team.spawn([](Link& link) {
        Side side("superpipeline", kFar);
        link.send(side.contact());
        serve(link, side.entity);
        // Not by the other process: a stopped process keeps the locks of the software HCA.
        raise(SIGSTOP);
        serve(link, side.entity);
        EXPECT_TRUE(has_got(side));
        EXPECT_TRUE(side.entity.failures().empty());
    });
    const auto peer = team[0].receive<Contact>();
    Side side("superpipeline", kNear);
    const Group alone{&side.entity};
    const auto stop = [&] {
        team[0].send();
        int status = 0;
        return eventually(alone, [&] {
            return waitpid(peer.process, &status, WUNTRACED | WNOHANG) == peer.process;
        });
    };
    if (before) {
        ASSERT_TRUE(stop());
    }
    {
        Closer closer(side, peer);
        ASSERT_TRUE(accepted(alone, [&] { return am_short(closer.one(), 1, pattern(0, 8)); }));
        if (!before) {
            ASSERT_TRUE(flush_wait(alone, closer.one()));
            ASSERT_TRUE(stop());
        }
        EXPECT_NO_FATAL_FAILURE({
            closer.begin(alone, true);
            linger(alone, milliseconds(20));
            closer.close_one(alone);
        });
        ASSERT_EQ(kill(peer.process, SIGCONT), 0);
        ASSERT_TRUE(eventually(alone, [&] { return closer.is_over(); }));
        linger(alone, milliseconds(5));
        closer.expect_unharmed();
    }
    team[0].send();
    team.finish();
}

TEST_F(StoppedPeerTest, OneOfTwoEndpointsIsClosed) {
    close_one_of_two(false);
}

TEST_F(StoppedPeerTest, OneOfTwoEndpointsIsClosedBeforeTheyAreConnected) {
    close_one_of_two(true);
}

}  // namespace forced_close_test
}  // namespace uct_test
