// SPDX-License-Identifier: BSD-3-Clause

// Random traffic among all processes, with checks of every byte and of the notifications' order.

#include <memory>

#include "job.h"

namespace job {
namespace {

constexpr size_t kCells = 8;      // of each sender at each target
constexpr size_t kCell = 20'000;  // bytes
constexpr size_t kSmallest = 16;  // the number of the write, and its length
constexpr size_t kGuard = 64;
constexpr size_t kStride = kCell + kGuard;

uint64_t seed_of(int from, int to, uint64_t number) {
    return number * 1000 + at(from) * 10 + at(to);
}

// The writes of this process to another one, and of that one to this.
struct Channel {
    uint64_t sent = 0;
    uint64_t seen = 0;
    uint64_t small_sent = 0;
    uint64_t small_seen = 0;
};

class Traffic {
  public:
    Traffic(uint64_t seed, uint64_t writes)
        : random_(seed + at(rank())), writes_(writes), channels_(at(size())) {
        const size_t total = at(size()) * kCells * kStride;
        cells_.assign(total, std::byte{0xcc});
        constants_.resize(kCell);
        fill(constants_.data(), kCell, at(rank()));
        acks_ = std::make_unique<uint64_t[]>(at(size()));
        sources_.resize(at(size()) * kCells * kCell);
        cells_of_ = share(cells_.data(), total, RWAPI_WRITE | RWAPI_SIGNAL, &own_);
        constants_of_ = share(constants_.data(), kCell, RWAPI_READ, &own_);
        acks_of_ = share(acks_.get(), at(size()) * 8, RWAPI_WRITE | RWAPI_SIGNAL, &own_);
        // Some of the sources are registered memory.
        CHECK_OK(rwapi_register(nullptr, sources_.data(), sources_.size() / 2, 0, &own_));
    }

    void run() {
        bool over = false;
        while (!over) {
            over = true;
            for (int node = 0; node < size(); ++node) {
                look(node);
                Channel& channel = channels_[at(node)];
                if (channel.sent < writes_ && random_.below(4) > 0) write(node);
                if (channel.small_sent < writes_ && random_.below(8) == 0) send_small(node);
                if (channel.sent < writes_ || channel.seen < writes_ ||
                    channel.small_sent < writes_ || channel.small_seen < writes_)
                    over = false;
            }
            receive_small();
            if (random_.below(16) == 0) read(static_cast<int>(random_.below(at(size()))));
        }
        for (int node = 0; node < size(); ++node) flush(node);
        barrier();
        for (size_t cell = 0; cell < at(size()) * kCells; ++cell) {
            for (size_t i = kCell; i < kStride; ++i)
                CHECK(cells_[cell * kStride + i] == std::byte{0xcc});
        }
        CHECK(matches(constants_.data(), kCell, at(rank())));
    }

  private:
    // Writes into the next cell, if its last content has been seen.
    void write(int node) {
        Channel& channel = channels_[at(node)];
        if (channel.sent - rwapi_signal_read(&acks_[at(node)]) >= kCells) return;
        const uint64_t number = channel.sent;
        const size_t cell = number % kCells;
        const bool large = random_.below(4) == 0;
        const size_t length = kSmallest + random_.below((large ? kCell : 200) - kSmallest);
        std::byte* const source = &sources_[(at(node) * kCells + cell) * kCell];
        std::memcpy(source, &number, 8);
        std::memcpy(source + 8, &length, 8);
        fill(source + kSmallest, length - kSmallest, seed_of(rank(), node, number));
        // The parts before the last one need no notification of their own.
        const size_t place = (at(rank()) * kCells + cell) * kStride;
        const size_t first = random_.below(3) == 0 ? length / 2 : 0;
        if (first > 0)
            CHECK_OK(rwapi_put(nullptr, cells_of_[at(node)], place, source, first, nullptr));
        if (first > 0 && random_.below(2) == 0) CHECK_OK(rwapi_fence(nullptr, node));
        const auto slot = static_cast<uint32_t>(at(rank()) * kCells + cell);
        CHECK_OK(rwapi_put_notify(nullptr, cells_of_[at(node)], place + first, source + first,
                                  length - first, slot, number + 1, nullptr));
        ++channel.sent;
    }

    // Looks at what has come from a process: all slots, in order.
    void look(int node) {
        Channel& channel = channels_[at(node)];
        bool later = false;
        for (size_t ahead = 0; ahead < kCells; ++ahead) {
            const size_t cell = (channel.seen + (kCells - 1 - ahead)) % kCells;
            const auto slot = static_cast<uint32_t>(at(node) * kCells + cell);
            const int set = is_set(nullptr, slot, nullptr);
            CHECK(set >= 0);
            // From the last to the first: one that is seen has all its predecessors behind it.
            CHECK(!later || set == 1);
            later = set == 1;
        }
        if (!later) return;
        const size_t cell = channel.seen % kCells;
        uint64_t value = 0, number = 0, length = 0;
        CHECK_EQ(
            rwapi_notify_reset(nullptr, static_cast<uint32_t>(at(node) * kCells + cell), &value),
            1);
        CHECK_EQ(value, channel.seen + 1);
        const std::byte* const data = &cells_[(at(node) * kCells + cell) * kStride];
        std::memcpy(&number, data, 8);
        std::memcpy(&length, data + 8, 8);
        CHECK_EQ(number, channel.seen);
        CHECK(length >= kSmallest && length <= kCell);
        CHECK(matches(data + kSmallest, length - kSmallest, seed_of(node, rank(), number)));
        ++channel.seen;
        CHECK_OK(rwapi_put_signal(nullptr, acks_of_[at(node)], 0, nullptr, 0, 8 * at(rank()), 1,
                                  RWAPI_SIGNAL_ADD, nullptr));
    }

    void read(int node) {
        const size_t length = 1 + random_.below(kCell - 1);
        std::vector<std::byte> data(length);
        rwapi_id id = 0;
        CHECK_OK(rwapi_get(nullptr, constants_of_[at(node)], 0, data.data(), length, &id));
        wait(id);
        CHECK(matches(data.data(), length, at(node)));
    }

    void send_small(int node) {
        const uint64_t number = channels_[at(node)].small_sent;
        const Small message{5, static_cast<uint32_t>(number), seed_of(rank(), node, number)};
        rwapi_small small;
        std::memcpy(&small, &message, sizeof small);
        const int error = rwapi_send(node, &small);
        if (error == RWAPI_ERR_AGAIN) return;
        CHECK_OK(error);
        ++channels_[at(node)].small_sent;
    }

    void receive_small() {
        int node = kAny;
        Small message;
        if (!try_receive(5, &node, &message)) return;
        const uint64_t number = channels_[at(node)].small_seen++;
        CHECK_EQ(message.number, number);
        CHECK_EQ(message.word, seed_of(node, rank(), number));
    }

    Random random_;
    const uint64_t writes_;
    std::vector<Channel> channels_;
    std::vector<std::byte> cells_, constants_, sources_;
    std::unique_ptr<uint64_t[]> acks_;
    std::vector<rwapi_net> cells_of_, constants_of_, acks_of_;
    rwapi_net own_{};
};

void traffic() {
    Traffic(common_seed(), 500).run();
}

}  // namespace

const std::vector<Case> traffic_cases = {{"traffic", traffic, RWAPI_FULL_AGAIN}};

}  // namespace job
