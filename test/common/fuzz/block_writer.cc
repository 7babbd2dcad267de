// SPDX-License-Identifier: BSD-3-Clause
// The writer's side of a block, with offers, revokes and credit from a peer that lies: the writer
// writes into the block only, and never more than it was given credit for.
#include "fuzz.h"
#include "tern/veloblock/send_path.h"

using namespace tern;
using fuzz::require;

namespace {

class World {
  public:
    explicit World(fuzz::Input& input) : input_(input) {}

    void run() {
        while (!input_.empty() && !failed_) step();
    }

  private:
    void step() {
        switch (input_.below(10)) {
            case 0:
                offer();
                break;
            case 1:
            case 2:
            case 3:
                send(static_cast<uint32_t>(input_.number() & Word::kMaxLength));
                break;
            case 4:
                send_straight(static_cast<uint32_t>(input_.number() & Word::kMaxLength));
                break;
            case 5: {
                // Often a credit that may be.
                const auto ahead = static_cast<uint16_t>(input_.take<uint8_t>());
                const auto units =
                    static_cast<uint16_t>(input_.chance(4) ? input_.take<uint16_t>()
                                                           : path_.freed() / Word::kUnit + ahead);
                if (!path_.credited(units)) failed_ = true;
                break;
            }
            case 6: {
                const auto freed = static_cast<uint32_t>(
                    input_.chance(4) ? input_.number() : path_.freed() + 8 * input_.below(256));
                if (path_.credit_word(freed) == BlockWriter::Taken::kMalformed) failed_ = true;
                break;
            }
            case 7:
                path_.revoked();
                break;
            case 8:
                release();
                break;
            case 9:
                path_.sent_cold();
                break;
        }
        follow_credit();
    }

    void offer() {
        BlockOffer offer{.address = uint64_t{4096},
                         .rkey = 1,
                         .size = 512 + kStep * (input_.take<uint16_t>() % 512u),
                         .most = static_cast<uint32_t>(input_.number()),
                         .flags = input_.below(2)};
        if (input_.chance(8)) offer = input_.take<BlockOffer>();
        const bool hot = path_.hot();
        if (!path_.take_offer(offer)) {
            failed_ = true;
            return;
        }
        require(!hot, "a second block is taken");
        require(path_.block_size() == offer.size, "a block of another size");
        used_ = 0;
        freed_ = path_.freed();
    }

    void send(uint32_t length) {
        const SendPath::Choice choice = path_.choose(length);
        if (choice.route == SendPath::Route::kStall) {
            if (path_.stalled())
                require(path_.release_due(), "it wants more, but does not release");
            return;
        }
        if (choice.route == SendPath::Route::kCold) {
            path_.sent_cold();
            path_.detoured(length);
            return;
        }
        const BlockWriter::Plan& plan = choice.plan;
        require(path_.hot(), "a frame for no block");
        require(plan.fits, "a plan that does not fit");
        if (plan.wrap)
            require(plan.wrap_at % kStep == kStep - 8 && plan.wrap_at <= path_.block_size() - 8,
                    "a wrap outside the block");
        write(plan.end, BlockWriter::body(length));
        used(plan.consumed);
        path_.sent_block(plan);
    }

    void send_straight(uint32_t length) {
        const uint32_t space = in_steps(length);
        if (!path_.straight(space)) return;
        require(path_.hot(), "a frame for no block");
        write(path_.straight_end(), BlockWriter::body(length));
        used(space);
        path_.sent_straight(space);
    }

    void write(uint32_t end, uint32_t bytes) {
        require(end % kStep == 0 && end <= path_.block_size() && bytes <= end,
                "a write outside the block");
    }
    void used(uint32_t bytes) {
        used_ += bytes;
        require(used_ <= path_.block_size(), "more is written than there is credit for");
    }
    void follow_credit() {
        if (!path_.hot()) return;
        const uint32_t step = path_.freed() - freed_;
        require(step <= used_, "more is freed than was written");
        used_ -= step;
        freed_ = path_.freed();
    }

    void release() {
        if (!path_.release_due()) return;
        require(path_.release().requested_bytes <= kMaxBlock,
                "a request for more than there can be");
        path_.sent_cold();
        path_.released();
        require(!path_.hot() && !path_.straight(kStep), "a released block is used");
    }

    fuzz::Input& input_;
    SendPath path_;
    uint32_t used_ = 0;
    uint32_t freed_ = 0;
    bool failed_ = false;
};

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    fuzz::Input input(data, size);
    World(input).run();
    return 0;
}
