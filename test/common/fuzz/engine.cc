// SPDX-License-Identifier: BSD-3-Clause
// A whole engine with transfers, on the software HCA in this process, and a peer that connects
// properly and then sends anything: cold frames, words into its block, control frames, messages of
// transfers with their rings and keys, immediate data. Memory of which the peer has no key stays as
// it is, and the connection of another peer works on.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "fuzz.h"
#include "rendezvous_node.h"
#include "rogue.h"

using namespace tern;
using namespace tern::test;
using fuzz::require;

namespace {

// Lives as long as the process: what one input leaves behind meets the next one.
struct Honest {
    Honest()
        : victim(SchemeSetting::kSuperpipeline, PollMode::kMemory),
          peer(SchemeSetting::kSuperpipeline, PollMode::kMemory) {
        std::string why;
        to = peer.engine->attach(victim.engine->address(), this, why);
        require(to != nullptr, "the honest peer does not attach");
        expect_works();
    }
    void poll() {
        victim.poll();
        peer.poll();
    }
    // A put and a message of the honest peer arrive.
    void expect_works() {
        const size_t before = victim.messages;
        peer.completions.clear();
        std::ranges::fill(peer.hidden, std::byte{++round});
        const Buffers::Piece piece{peer.hidden.data(), peer.hidden.size()};
        Status status = Status::kNoResource;
        const bool put = until(
            [&] {
                status = peer.rendezvous->put(*to, {&piece, 1}, victim.address(),
                                              victim.key(victim.open), 0, {this});
                poll();
            },
            [&] { return status == Status::kInProgress; });
        require(put, "the honest peer cannot put");
        require(until([&] { poll(); }, [&] { return peer.completions.size() == 1; }),
                "a put does not end");
        require(peer.completions[0] == Status::kOk && peer.hidden == victim.memory,
                "a put of the honest peer fails");
        require(until(
                    [&] {
                        uint32_t length = 0;
                        status = peer.engine->am_bcopy(
                            *to, 3, [](void*) { return 0u; }, length);
                        poll();
                    },
                    [&] { return status == Status::kOk; }),
                "the honest peer cannot send");
        require(until([&] { poll(); }, [&] { return victim.messages > before; }),
                "a message of the honest peer is lost");
        require(peer.closures == 0, "the honest peer's connection ends");
    }

    RendezvousNode victim, peer;
    Channel* to = nullptr;
    uint8_t round = 0;
};

Honest& honest() {
    static Honest* const one = [] {
        setenv("SOFTHCA_FABRIC", ("fuzz-" + std::to_string(getpid())).c_str(), 0);
        return new Honest;
    }();
    return *one;
}

class World {
  public:
    explicit World(fuzz::Input& input) : input_(input), victim_(honest().victim) {}

    void run() {
        require(rogue_.begin(victim_.engine->address()), "the rogue does not begin");
        require(turn([&] { return rogue_.up(); }), "the rogue does not connect");
        victim_.completions.clear();
        const size_t closures = victim_.closures;
        if (input_.chance(3)) let_ask(input_.chance(2));
        while (!input_.empty() && !rogue_.over()) {
            step();
            for (uint32_t i = input_.below(3); i > 0; --i) honest().poll();
            rogue_.poll();
        }
        if (!rogue_.over()) rogue_.drop();
        require(until([] { honest().poll(); },
                      [&] { return victim_.completions.size() == (channel_ != nullptr ? 1 : 0); }),
                "an operation with a peer that has gone does not end");
        if (channel_ != nullptr && victim_.closures == closures)
            victim_.engine->leave(channel_, &victim_);
        require(
            std::ranges::all_of(victim_.hidden, [](std::byte byte) { return byte == std::byte{}; }),
            "memory is written of which the peer has no key");
    }

  private:
    template <class Done>
    bool turn(Done&& done) {
        return until(
            [this] {
                honest().poll();
                rogue_.poll();
            },
            done);
    }

    // The victim puts to the rogue, or gets from it.
    void let_ask(bool get) {
        std::string why;
        channel_ = victim_.engine->attach(rogue_.address(), &victim_, why);
        require(channel_ != nullptr, "the victim does not attach");
        const Buffers::Piece piece{victim_.memory.data(), victim_.memory.size()};
        Status status = Status::kNoResource;
        require(turn([&] {
                    if (status == Status::kInProgress) return true;
                    status = get ? victim_.rendezvous->get(*channel_, {&piece, 1}, 4096, {1, 2}, 0,
                                                           {}, {this})
                                 : victim_.rendezvous->put(*channel_, {&piece, 1}, 4096, {1, 2}, 0,
                                                           {this});
                    return false;
                }),
                "the victim cannot ask");
    }

    uint64_t length() {
        constexpr uint64_t kLengths[] = {0,         1, 4096, 4097, 100000, RendezvousNode::kSize,
                                         UINT64_MAX};
        const uint32_t which = input_.below(8);
        return which < std::size(kLengths) ? kLengths[which] : input_.number();
    }
    uint32_t number() {
        for (; !rogue_.controls.empty(); rogue_.controls.pop_front())
            numbers_.push_back(rogue_.controls.front().as<uint32_t>());
        return input_.chance(8) ? static_cast<uint32_t>(input_.number())
                                : numbers_[input_.below(256) % numbers_.size()];
    }
    WireKey key() { return input_.chance(8) ? input_.take<WireKey>() : victim_.key(victim_.open); }
    uint64_t address() {
        return input_.chance(8) ? input_.number() : victim_.address() + input_.below(2);
    }
    WirePart part() {
        return {.upto = length(),
                .address = input_.chance(8) ? input_.number()
                                            : reinterpret_cast<uint64_t>(rogue_.window().data()),
                .rkey = rogue_.window().rkey() ^ (input_.chance(8) ? 1u : 0u),
                .flags = input_.chance(16) ? input_.take<uint32_t>() : input_.below(4)};
    }
    WireRing ring() {
        constexpr uint16_t kSlots[] = {1, 2, 15, 60, 0, 4096, 4097, 16};
        return {.address = reinterpret_cast<uint64_t>(rogue_.window().data()),
                .rkey = rogue_.window().rkey() ^ (input_.chance(16) ? 1u : 0u),
                .slots = kSlots[input_.below(8)],
                .flags = static_cast<uint16_t>(input_.chance(4) ? input_.below(4) : 0),
                .generation = input_.number()};
    }
    std::string bytes(size_t most) {
        const auto taken = input_.take_bytes(most);
        return {reinterpret_cast<const char*>(taken.data()), taken.size()};
    }

    void step() {
        switch (input_.below(15)) {
            case 0:
                return rogue_.send_control(TransferId::kFetch, Fetch{.receiver = number(),
                                                                     .reserved = 0,
                                                                     .address = address(),
                                                                     .length = length(),
                                                                     .key = key(),
                                                                     .ring = ring(),
                                                                     .part = part()});
            case 1:
                return rogue_.send_control(TransferId::kDeliver, Deliver{.sender = number(),
                                                                         .reserved = 0,
                                                                         .address = address(),
                                                                         .length = length(),
                                                                         .key = key()});
            case 2:
                return rogue_.send_control(
                    TransferId::kAccept,
                    Accept{
                        .sender = number(), .receiver = number(), .ring = ring(), .part = part()});
            case 3:
                return rogue_.send_control(
                    TransferId::kPart,
                    MorePart{.receiver = number(), .reserved = 0, .part = part()});
            case 4: {
                const Ack ack{.receiver = number(),
                              .count = static_cast<uint32_t>(input_.number()),
                              .flags = input_.below(16),
                              .reply = input_.below(40)};
                return rogue_.send_frame(
                    FrameKind::kControl, static_cast<uint32_t>(TransferId::kAck),
                    std::string(reinterpret_cast<const char*>(&ack), sizeof ack) +
                        bytes(input_.below(40)));
            }
            case 5:
                return rogue_.send_control(TransferId::kFinish,
                                           Finish{.receiver = number(), .reserved = 0});
            case 6:
                return rogue_.send_control(TransferId::kRefuse,
                                           Refuse{.what = input_.below(4), .number = number()});
            case 7:
                return rogue_.write_to("", 0, 0, 0, number() << 16 | input_.below(20));
            case 8: {  // any bytes
                const std::string frame = bytes(1 + input_.below(120));
                return rogue_.send(frame.data(), frame.size());
            }
            case 9:  // any control frame
                return rogue_.send_frame(
                    FrameKind::kControl, input_.below(32), bytes(input_.below(90)),
                    input_.below(4) / 3,
                    static_cast<uint16_t>(input_.chance(4) ? input_.number() : 0));
            case 10: {
                BlockOffer offer{.address = reinterpret_cast<uint64_t>(rogue_.window().data()),
                                 .rkey = rogue_.window().rkey(),
                                 .size = static_cast<uint32_t>(input_.number()) & ~7u,
                                 .most = static_cast<uint32_t>(input_.number()),
                                 .flags = input_.below(3)};
                return rogue_.send_frame(
                    FrameKind::kControl, static_cast<uint32_t>(ControlId::kOffer),
                    std::string(reinterpret_cast<const char*>(&offer), sizeof offer));
            }
            case 11:
                // Enough messages are answered with a block.
                for (uint32_t i = input_.below(40); i > 0 && !rogue_.over(); --i) {
                    rogue_.send_frame(FrameKind::kActiveMessage, 1, "hello");
                    honest().victim.poll();
                    rogue_.poll();
                }
                return;
            case 12: {
                if (!rogue_.grant()) return;
                const std::string words = bytes(8 * (1 + input_.below(8)));
                const uint32_t size = rogue_.grant()->size;
                const uint32_t at = input_.chance(2) ? size - static_cast<uint32_t>(words.size())
                                                     : 8 * input_.below(256);
                if (at + words.size() <= size) rogue_.write(words.data(), words.size(), at);
                return;
            }
            case 13: {
                const RepeatFrame frame{.number = input_.below(repeat::kNumbers + 1),
                                        .id = input_.below(33),
                                        .words = input_.take<repeat::Words>()};
                if (input_.chance(2))
                    return rogue_.send_frame(
                        FrameKind::kControl, static_cast<uint32_t>(ControlId::kRepeat),
                        std::string(reinterpret_cast<const char*>(&frame), sizeof frame));
                return rogue_.write_to(
                    "", 0, 0, 0,
                    repeat::immediate(input_.below(repeat::kNumbers), input_.below(512),
                                      static_cast<uint16_t>(input_.below(4) / 3)));
            }
            default:
                if (victim_.regions.undeclare(victim_.open)) {
                }
                victim_.open = victim_.regions.declare(victim_.memory.data(), victim_.memory.size(),
                                                       kLocalRead | kLocalWrite | kRemoteAll);
        }
    }

    fuzz::Input& input_;
    RendezvousNode& victim_;
    Rogue rogue_;
    Channel* channel_ = nullptr;
    std::vector<uint32_t> numbers_{0, 1, 2, 0x10000};
};

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static unsigned count = 0;
    fuzz::Input input(data, size);
    honest();
    World(input).run();
    if (++count % 64 == 0) honest().expect_works();
    return 0;
}
