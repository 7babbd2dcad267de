// SPDX-License-Identifier: BSD-3-Clause
// Random operations of random shapes between several queue pairs; every byte is compared with a
// model. TERN_TEST_SEED repeats a run.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "common/seed.h"
#include "qp.h"

namespace conformance {
namespace {

constexpr std::size_t kBytes = 1 << 17;
constexpr std::size_t kLargest = 20000;

// One direction of a connection: operations of `from` on the memory of `to`. Each direction has one
// half of each memory, so that the directions do not race.
class Direction {
  public:
    Direction(Endpoint& from, Region& local, Endpoint& to, Region& remote, bool first_half,
              int read_elements, bool atomics, std::mt19937_64& random)
        : from_(from),
          to_(to),
          local_(local),
          remote_(remote),
          base_(first_half ? 0 : kBytes / 2),
          read_elements_(read_elements),
          atomics_(atomics),
          random_(random),
          local_model_(kBytes / 2),
          remote_model_(kBytes / 2) {}

    // Posts one random operation and applies it to the models.
    void step() {
        const unsigned kinds = 3 + (read_elements_ != 0 ? 1 : 0) + (atomics_ ? 1 : 0);
        switch (below(kinds)) {
            case 0:
                message();
                break;
            case 1:
                write(false);
                break;
            case 2:
                write(true);
                break;
            case 3:
                read_elements_ != 0 ? read() : fetch_add();
                break;
            default:
                fetch_add();
                break;
        }
        ++outstanding_;
        if (outstanding_ >= 16 || below(8) == 0) drain();
    }

    // Takes every completion, then compares both memories with their models.
    void drain() {
        if (!sends_.empty()) {
            const auto ids = std::vector<uint64_t>(sends_.begin(), sends_.end());
            ASSERT_TRUE(next_are(from_.send_cq, ids));
        }
        if (!receives_.empty()) {
            const auto ids = std::vector<uint64_t>(receives_.begin(), receives_.end());
            ASSERT_TRUE(next_are(to_.recv_cq, ids));
        }
        sends_.clear();
        receives_.clear();
        outstanding_ = 0;
        ASSERT_EQ(std::memcmp(local_.data() + base_, local_model_.data(), kBytes / 2), 0);
        ASSERT_EQ(std::memcmp(remote_.data() + base_, remote_model_.data(), kBytes / 2), 0);
    }

  private:
    struct Piece {
        std::size_t offset;
        std::size_t length;
    };

    std::size_t below(std::size_t limit) { return random_() % limit; }

    std::size_t some_size() {
        const std::size_t limits[] = {1, 64, 2048, kLargest};
        return below(limits[below(4)] + 1);
    }

    // Up to `most` disjoint pieces, in ascending order, of `size` bytes in total.
    std::vector<Piece> shape(std::size_t size, int most = 4) {
        const std::size_t count = 1 + below(static_cast<std::size_t>(most));
        const std::size_t gap = (kBytes / 2 - size) / (count + 1);
        std::vector<Piece> pieces;
        std::size_t at = below(gap + 1);
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t n = i + 1 == count ? size : below(size + 1);
            pieces.push_back({at, n});
            at += n + below(gap + 1);
            size -= n;
        }
        return pieces;
    }

    std::vector<ibv_sge> elements(const Region& region, const std::vector<Piece>& pieces) const {
        std::vector<ibv_sge> list;
        for (const Piece& p : pieces) list.push_back(region.sge(base_ + p.offset, p.length));
        return list;
    }

    // Copies the pieces `from` of a model into the pieces `to` of another, in order.
    static void copy(const std::vector<uint8_t>& source, const std::vector<Piece>& from,
                     std::vector<uint8_t>& sink, const std::vector<Piece>& to) {
        std::vector<uint8_t> bytes;
        for (const Piece& p : from) {
            bytes.insert(bytes.end(), source.begin() + static_cast<std::ptrdiff_t>(p.offset),
                         source.begin() + static_cast<std::ptrdiff_t>(p.offset + p.length));
        }
        std::size_t taken = 0;
        for (const Piece& p : to) {
            const std::size_t n = std::min(p.length, bytes.size() - taken);
            std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(taken), n,
                        sink.begin() + static_cast<std::ptrdiff_t>(p.offset));
            taken += n;
        }
    }

    // Stores new bytes in the source, after outstanding requests that may use it have completed.
    void refresh(const std::vector<Piece>& pieces) {
        drain();
        for (const Piece& p : pieces)
            for (std::size_t i = p.offset; i < p.offset + p.length; ++i)
                local_model_[i] = local_.data()[base_ + i] = static_cast<uint8_t>(random_());
    }

    void post(SendWr& wr, uint64_t id) {
        ASSERT_EQ(wr.post(from_.qp), 0);
        sends_.push_back(id);
    }

    void message() {
        const std::size_t size = some_size();
        const auto source = shape(size);
        const auto sink = shape(size + below(100));
        refresh(source);
        ASSERT_EQ(RecvWr(next_).sges(elements(remote_, sink)).post(to_.qp), 0);
        receives_.push_back(next_);
        SendWr wr(IBV_WR_SEND, next_);
        wr.sges(elements(local_, source));
        post(wr, next_++);
        copy(local_model_, source, remote_model_, sink);
    }

    void write(bool with_immediate) {
        const std::size_t size = some_size();
        const auto source = shape(size);
        const std::vector<Piece> sink{{below(kBytes / 2 - size + 1), size}};
        if (below(2)) refresh(source);
        if (with_immediate) {
            ASSERT_EQ(RecvWr(next_).post(to_.qp), 0);
            receives_.push_back(next_);
        }
        SendWr wr(with_immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE, next_);
        wr.sges(elements(local_, source)).remote(remote_, base_ + sink[0].offset).imm(1);
        // The sources may be destinations of earlier reads.
        wr.flags(read_elements_ != 0 ? IBV_SEND_SIGNALED | IBV_SEND_FENCE : IBV_SEND_SIGNALED);
        post(wr, next_++);
        copy(local_model_, source, remote_model_, sink);
    }

    void read() {
        const std::size_t size = some_size();
        const std::vector<Piece> source{{below(kBytes / 2 - size + 1), size}};
        const auto sink = shape(size, read_elements_);
        drain();  // the destination may still be the source of an earlier request
        SendWr wr(IBV_WR_RDMA_READ, next_);
        wr.sges(elements(local_, sink)).remote(remote_, base_ + source[0].offset);
        post(wr, next_++);
        copy(remote_model_, source, local_model_, sink);
        drain();
    }

    void fetch_add() {
        const std::size_t word = below(kBytes / 16) * 8;
        const std::size_t result = below(kBytes / 16) * 8;
        const uint64_t add = random_();
        drain();
        SendWr wr(IBV_WR_ATOMIC_FETCH_AND_ADD, next_);
        wr.sge(local_.sge(base_ + result, 8))
            .atomic(remote_.addr(base_ + word), remote_.rkey(), add);
        post(wr, next_++);
        uint64_t value;
        std::memcpy(&value, &remote_model_[word], 8);
        std::memcpy(&local_model_[result], &value, 8);
        value += add;
        std::memcpy(&remote_model_[word], &value, 8);
        drain();
    }

    Endpoint& from_;
    Endpoint& to_;
    Region& local_;
    Region& remote_;
    std::size_t base_;
    int read_elements_;  // of an RDMA read; 0: no reads
    bool atomics_;
    std::mt19937_64& random_;
    std::vector<uint8_t> local_model_;
    std::vector<uint8_t> remote_model_;
    std::deque<uint64_t> sends_;
    std::deque<uint64_t> receives_;
    uint64_t next_ = 0;
    int outstanding_ = 0;
};

class StressTest : public TransportTest {};

TEST_P(StressTest, RandomTrafficLeavesEveryByteRight) {
    std::mt19937_64 random(tern::test::any_seed());
    constexpr int kPairs = 3;
    const bool rc = GetParam() == IBV_QPT_RC;
    QpSpec spec;
    spec.type = GetParam();
    std::vector<std::unique_ptr<Pair>> pairs;
    std::vector<std::unique_ptr<Direction>> directions;
    for (int i = 0; i < kPairs; ++i) {
        pairs.push_back(std::make_unique<Pair>(hca_, pd_.get(), spec, kBytes));
        Pair& p = *pairs.back();
        const bool atomics = rc && hca_.has_atomics();
        const int reads = rc ? std::min(4, hca_.attr().max_sge_rd) : 0;
        directions.push_back(
            std::make_unique<Direction>(p.a, p.a_mem, p.b, p.b_mem, true, reads, atomics, random));
        directions.push_back(
            std::make_unique<Direction>(p.b, p.b_mem, p.a, p.a_mem, false, reads, atomics, random));
    }
    for (int i = 0; i < 3000 && !HasFatalFailure(); ++i)
        directions[random() % directions.size()]->step();
    for (auto& direction : directions)
        if (!HasFatalFailure()) direction->drain();
}

INSTANTIATE_TEST_SUITE_P(Connected, StressTest, testing::Values(IBV_QPT_RC, IBV_QPT_UC),
                         transport_case);

}  // namespace
}  // namespace conformance
