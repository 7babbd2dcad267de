// SPDX-License-Identifier: BSD-3-Clause
// Direct messages on the software HCA in this process, with a peer that connects properly and then
// sends any Bind, Bound, Close, Closed, Connect and Connected, tagged messages with any mark, and
// grants: each receive is used once, and tuples end with the connection.
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "direct_node.h"
#include "fuzz.h"
#include "rogue.h"

using namespace tern;
using namespace tern::test;
using fuzz::require;

namespace {

// A new one now and then, because receives stay posted. The last one is not destroyed: at the end
// of the process, its device may be gone.
DirectNode& victim() {
    static unsigned inputs = 0;
    static auto& node = *new std::unique_ptr<DirectNode>;
    if (inputs++ % 32 == 0) {
        setenv("SOFTHCA_FABRIC", ("fuzz-" + std::to_string(getpid())).c_str(), 0);
        node.reset();
        node = std::make_unique<DirectNode>();
        require(node->tupleq != nullptr, "the device has no XRC");
    }
    return *node;
}

class World {
  public:
    explicit World(fuzz::Input& input) : input_(input), victim_(victim()) {}

    void run() {
        require(rogue_.begin(victim_.engine->address()), "the rogue does not begin");
        require(turn([&] { return rogue_.up(); }), "the rogue does not connect");
        if (input_.chance(2)) attach();
        while (!input_.empty() && !rogue_.over()) {
            step();
            for (uint32_t i = input_.below(3); i > 0; --i) victim_.poll();
            rogue_.poll();
        }
        if (!rogue_.over()) rogue_.drop();
        if (channel_ != nullptr && victim_.closures.size() == closures_)
            victim_.engine->leave(channel_, &victim_);
        require(until([&] { victim_.poll(); }, [&] { return victim_.engine->connections() == 0; }),
                "a connection stays");
        require(
            until([&] { victim_.poll(); }, [&] { return victim_.tupleq->queues_in_use() == 0; }),
            "a tuple stays when its peer has gone");
        // What the node checks: a receive has one message, and is posted no more.
        require(!testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed(),
                "an expectation of DirectNode");
    }

  private:
    template <class Done>
    bool turn(Done&& done) {
        return until(
            [this] {
                victim_.poll();
                rogue_.poll();
            },
            done);
    }
    void attach() {
        closures_ = victim_.closures.size();
        channel_ = victim_.engine->attach(rogue_.address(), &victim_, victim_.reason);
        require(channel_ != nullptr, "the victim does not attach");
        require(turn([&] { return channel_->up(); }), "the channel is not up");
    }

    template <class Frame>
    void say(TupleControlId id, const Frame& frame) {
        rogue_.send_control(static_cast<TransferId>(id), frame);
    }
    // Numbers that the victim has named, and others.
    uint16_t number16() {
        return static_cast<uint16_t>(input_.chance(8) ? input_.number() : input_.below(5));
    }
    uint32_t heard() {
        for (; !rogue_.controls.empty(); rogue_.controls.pop_front())
            last_ = rogue_.controls.front().as<uint32_t>();
        return input_.chance(4) ? static_cast<uint32_t>(input_.number()) : last_;
    }
    uint64_t window() const { return reinterpret_cast<uint64_t>(rogue_.window().data()); }

    void step() {
        switch (input_.below(11)) {
            case 0:
                return say(
                    TupleControlId::kBind,
                    WireBind{.tag = input_.below(6),
                             .mask = input_.chance(6) ? input_.take<uint64_t>() : KeyMask::kFull,
                             .node = input_.chance(2) ? 99 : input_.number(),
                             .queue = static_cast<uint32_t>(input_.number()),
                             .tuple = number16(),
                             .depth = static_cast<uint16_t>(1 << input_.below(5)),
                             .nonce = input_.below(9)});
            case 1:
                return say(
                    TupleControlId::kBound,
                    WireBound{.tuple = number16(),
                              .sender = number16(),
                              .slot = input_.below(16),
                              .address = input_.chance(8) ? input_.number() : window(),
                              .rkey = rogue_.window().rkey() ^ (input_.chance(8) ? 1u : 0u)});
            case 2:
                return say(TupleControlId::kClose,
                           WireClose{.sender = number16(),
                                     .flags = static_cast<uint16_t>(input_.below(3))});
            case 3:
                return say(TupleControlId::kClosed,
                           WireClosed{.tuple = number16(),
                                      .sequence = number16(),
                                      .flags = static_cast<uint16_t>(input_.below(3))});
            case 4:
                return say(TupleControlId::kConnect,
                           WireConnect{.number = input_.below(4),
                                       .qp_num = static_cast<uint32_t>(input_.number()),
                                       .psn = static_cast<uint32_t>(input_.number()),
                                       .mtu = input_.below(7)});
            case 5:
                return say(TupleControlId::kConnected,
                           WireConnected{.number = heard(),
                                         .qp_num = input_.chance(4) ? 0 : 0xfffffeu,
                                         .mtu = input_.below(7),
                                         .flags = input_.below(3)});
            case 6:
            case 7: {
                const DirectNode::Header header{
                    input_.below(6), input_.below(2), {number16(), number16()}};
                return rogue_.send_frame(
                    FrameKind::kTag, 0,
                    std::string(reinterpret_cast<const char*>(&header), sizeof header) + "text");
            }
            case 8:
                if (victim_.receives.size() < 64) (void)victim_.post(input_.below(6));
                return;
            case 9:
                if (channel_ != nullptr && !rogue_.over() && channel_->up())
                    (void)victim_.tupleq->bind(*channel_, input_.below(6));
                return;
            default:
                if (channel_ != nullptr && channel_->up())
                    (void)victim_.send(*channel_, input_.below(6), "hello", input_.chance(2));
        }
    }

    fuzz::Input& input_;
    DirectNode& victim_;
    Rogue rogue_;
    Channel* channel_ = nullptr;
    size_t closures_ = 0;
    uint32_t last_ = 1;
};

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    fuzz::Input input(data, size);
    World(input).run();
    return 0;
}
