// SPDX-License-Identifier: BSD-3-Clause
// A block with its writer, its reader, and a simulated device between them.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "schedules.h"
#include "tern/veloblock/block_writer.h"
#include "tern/veloblock/receive_path.h"

namespace tern {

// The device places the bytes of each posted write in order, lowest address first, in pieces of any
// size, and up to three writes at the same time. The reader may look between pieces.
class SimulatedBlock {
  public:
    explicit SimulatedBlock(uint32_t size) : memory_(size / 8), in_use_(size / 8) {
        writer.attach(size);
        reader.attach(base(), size);
    }

    // Posts a frame. False if the writer has no room for it.
    bool post(FrameKind kind, uint32_t id, const std::vector<std::byte>& payload, uint16_t credit,
              uint16_t sequence) {
        const auto length = static_cast<uint32_t>(payload.size());
        const BlockWriter::Plan plan = writer.plan(length);
        const uint32_t space = in_steps(length);
        const bool straight = writer.straight(space);
        if (straight != (plan.fits && !plan.wrap && plan.end >= 2 * space))
            broken("the short question and the long one have different answers");
        if (straight && (plan.last || plan.end != writer.straight_end() || plan.space != space))
            broken("a frame that goes straight goes elsewhere");
        if (!plan.fits) return false;
        if (plan.wrap) {
            const Word wrap(FrameKind::kWrap, 0, 0, credit, sequence);
            put(plan.wrap_at, {word_bytes(wrap.in_round(writer.round()))});
            take_units(plan.wrap_at / 8 + 1, true);
        }
        std::vector<std::byte> frame(padded(length));
        std::copy(payload.begin(), payload.end(), frame.begin());
        const Word word =
            Word(kind, id, length, credit, sequence).in_round(writer.round() + plan.wrap);
        const auto tail = word_bytes(plan.last ? word.as_last() : word);
        frame.insert(frame.end(), tail.begin(), tail.end());
        put(plan.end - BlockWriter::body(length), std::move(frame));
        take_units(space / 8, false);
        if (plan.last && plan.end != space) take_units((plan.end - space) / 8, true);
        ++sent_;
        if (straight)
            writer.commit_straight(space);
        else
            writer.commit(plan);
        return true;
    }

    // Posts a frame that grows, by pieces of `piece` bytes, until its payload has as many bytes as
    // `payload`, or as the writer gives it. Returns its bytes; 0: it gives none.
    uint32_t post_growing(FrameKind kind, uint32_t id, const std::vector<std::byte>& payload,
                          uint32_t piece, uint16_t credit, uint16_t sequence) {
        const auto most = static_cast<uint32_t>(payload.size());
        const BlockWriter::Growing plan = writer.plan_growing(most);
        if (plan.most < piece) return 0;
        const Word word = Word(kind, id, 0, credit, sequence).in_round(writer.round());
        writer.commit_growing(plan);
        const uint32_t length = plan.most - plan.most % piece;
        writer.settle(plan, length);
        std::vector<std::byte> frame(payload.begin(), payload.begin() + length);
        const auto tail = word_bytes((plan.last ? word.as_last() : word).with_length(length));
        frame.insert(frame.end(), tail.begin(), tail.end());
        put(plan.end - BlockWriter::body(length), std::move(frame));
        const uint32_t space = in_steps(length);
        take_units(space / 8, false);
        if (plan.last && plan.end != space) take_units((plan.end - space) / 8, true);
        ++sent_;
        return length;
    }

    // Places the next `bytes` posted bytes, or all that are left, of the writes by turns.
    void place(uint64_t bytes) {
        while (bytes > 0 && !wire_.empty()) {
            turn_ = (turn_ + 1) % std::min<size_t>(wire_.size(), 3);
            Write& write = wire_[turn_];
            const uint64_t piece = std::min<uint64_t>(bytes, write.bytes.size() - write.done);
            memcpy(base() + write.at + write.done, &write.bytes[write.done], piece);
            write.done += piece;
            bytes -= piece;
            if (write.done == write.bytes.size())
                wire_.erase(wire_.begin() + static_cast<ptrdiff_t>(turn_));
        }
    }
    void place_all() { place(UINT64_MAX); }

    // Looks with the reader, and checks the result.
    BlockReader::Look look(Word& word) {
        const BlockReader::Look look = reader.look(word);
        note_freed();
        if (look == BlockReader::Look::kMalformed) broken("a good frame is called malformed");
        if (look != BlockReader::Look::kFrame) return look;
        const auto at =
            static_cast<uint32_t>(reinterpret_cast<const std::byte*>(reader.next()) - base());
        if (read_ == sent_) broken("a frame that nobody has sent");
        for (const Write& write : wire_)
            if (write.at + write.bytes.size() == at + Word::kUnit)
                broken("a frame is seen before all of it is there");
        return look;
    }
    void consume(Word word) {
        ++read_;
        reader.consume(word);
        note_freed();
    }

    bool idle() const { return wire_.empty(); }
    const std::string& wrong() const { return wrong_; }
    std::byte* base() { return reinterpret_cast<std::byte*>(memory_.data()); }

    BlockWriter writer;
    BlockReader reader;

  private:
    struct Write {
        uint32_t at;
        std::vector<std::byte> bytes;
        size_t done = 0;
    };

    void broken(const std::string& rule) {
        if (wrong_.empty()) wrong_ = rule;
    }

    static std::vector<std::byte> word_bytes(Word word) {
        std::vector<std::byte> out(8);
        const uint64_t raw = word.raw();
        memcpy(out.data(), &raw, 8);
        return out;
    }

    void put(uint32_t at, std::vector<std::byte> bytes) {
        if (at % 8 != 0 || at + bytes.size() > memory_.size() * 8)
            return broken("a write outside the block");
        for (size_t unit = at / 8; unit < at / 8 + bytes.size() / 8; ++unit)
            if (in_use_[unit]) broken("a write over what the reader has not freed");
        wire_.push_back({at, std::move(bytes)});
    }

    // Records the units of a write in the order in which the reader has to free them; `rest`: the
    // write takes all units down to 0.
    void take_units(uint32_t count, bool rest) {
        for (; count > 0; --count) {
            taken_.push_back(top_);
            in_use_[top_] = true;
            top_ = top_ == 0 ? static_cast<uint32_t>(memory_.size()) - 1 : top_ - 1;
        }
        if (rest && top_ != memory_.size() - 1) broken("a wrap that leaves something behind");
    }

    void note_freed() {
        for (; freed_ != reader.freed_units(); ++freed_) {
            if (taken_.empty()) return broken("more is freed than was written");
            in_use_[taken_.front()] = false;
            taken_.pop_front();
        }
    }

    std::vector<uint64_t> memory_;
    std::vector<bool> in_use_;                                  // by unit: written and not freed
    uint32_t top_ = static_cast<uint32_t>(memory_.size()) - 1;  // the highest unit not taken
    std::deque<uint32_t> taken_;
    uint16_t freed_ = 0;
    std::deque<Write> wire_;
    size_t turn_ = 0;
    uint32_t sent_ = 0;  // frames
    uint32_t read_ = 0;
    std::string wrong_;
};

}  // namespace tern
