// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tern-bench/fastpath_design.h"

#include <cstring>
#include <deque>
#include <vector>

#include "bench/measure/failure.h"
#include "veloblock/block_writer.h"
#include "veloblock/receive_path.h"

namespace bench {
namespace {

class FixedSlots : public Design {
  public:
    FixedSlots(uint32_t slot_size, uint32_t slots)
        : slot_size_(slot_size), slots_(slots), free_(slots) {}

    bool send(uint32_t size) override {
        if (size > slot_size_ || free_ == 0) return false;
        --free_;
        ++full_;
        return true;
    }
    void consume(bool answered) override {
        unreported_ += full_;
        full_ = 0;
        if (!answered && unreported_ < slots_ / 4) return;
        free_ += unreported_;
        unreported_ = 0;
    }
    uint32_t bytes() const override { return 2 * slot_size_ * slots_; }

  private:
    const uint32_t slot_size_;
    const uint32_t slots_;
    uint32_t free_;
    uint32_t full_ = 0;
    uint32_t unreported_ = 0;
};

class Veloblock : public Design {
  public:
    explicit Veloblock(uint32_t size) : memory_(size / sizeof(uint64_t)) {
        writer_.attach(size);
        reader_.attach(base(), size);
    }

    bool send(uint32_t size) override {
        if (size > tern::BlockWriter::max_payload(writer_.size())) return false;
        const tern::BlockWriter::Plan plan = writer_.plan(size);
        if (!plan.fits) return false;
        if (plan.wrap) put(plan.wrap_at, tern::Word(tern::FrameKind::kWrap, 0, 0, 0, 0));
        put(plan.at, plan.below());
        std::memset(base() + plan.at + tern::Word::kUnit, static_cast<int>(++sent_ & 0xff),
                    tern::padded(size));
        put(plan.at + tern::Word::kUnit + tern::padded(size),
            tern::Word(tern::FrameKind::kActiveMessage, 0, size, 0, 0));
        writer_.commit(plan);
        under_way_.push_back(size);
        return true;
    }

    void consume(bool answered) override {
        tern::Word word;
        tern::BlockReader::Look look;
        while ((look = reader_.look(word)) == tern::BlockReader::Look::kFrame) {
            take(word);
            reader_.consume(word);
        }
        if (look != tern::BlockReader::Look::kNothing || !under_way_.empty()) {
            throw Failure("the block lost a frame");
        }
        if (!answered && !reader_.due()) return;
        if (!writer_.credit(reader_.freed_units())) throw Failure("wrong credit");
        reader_.reported();
    }
    uint32_t bytes() const override { return writer_.size(); }

  private:
    std::byte* base() { return reinterpret_cast<std::byte*>(memory_.data()); }
    void put(uint32_t at, tern::Word word) {
        const uint64_t raw = word.raw();
        std::memcpy(base() + at, &raw, sizeof raw);
    }
    void take(tern::Word word) {
        ++taken_;
        const uint32_t size = under_way_.empty() ? 0 : under_way_.front();
        const auto mark = static_cast<std::byte>(taken_ & 0xff);
        const std::byte* payload = reader_.payload(word);
        if (under_way_.empty() || word.length() != size ||
            (size > 0 && (payload[0] != mark || payload[size - 1] != mark))) {
            throw Failure("the block damaged a frame");
        }
        under_way_.pop_front();
    }

    std::vector<uint64_t> memory_;
    tern::BlockWriter writer_;
    tern::BlockReader reader_;
    std::deque<uint32_t> under_way_;
    uint64_t sent_ = 0;
    uint64_t taken_ = 0;
};

}  // namespace

std::unique_ptr<Design> fixed_slots(uint32_t slot_size, uint32_t slots) {
    return std::make_unique<FixedSlots>(slot_size, slots);
}

std::unique_ptr<Design> veloblock(uint32_t size) {
    return std::make_unique<Veloblock>(size);
}

}  // namespace bench
