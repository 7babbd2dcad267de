// SPDX-License-Identifier: BSD-3-Clause
#include "transfer_world.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <sstream>

#include "tern/rendezvous/schedule.h"

namespace tern::test {

namespace {

// The bytes of all messages, such that the bytes at an offset identify the offset.
constexpr uint64_t kCycle = 65521;  // prime
const std::byte* bytes_at(uint64_t offset) {
    static const std::vector<std::byte> table = [] {
        std::vector<std::byte> bytes(kCycle + SubBlocks::kSubBlock);
        std::mt19937 random(1);
        for (uint64_t i = 0; i < kCycle; ++i) bytes[i] = static_cast<std::byte>(random());
        std::copy_n(bytes.begin(), SubBlocks::kSubBlock, bytes.begin() + kCycle);
        return bytes;
    }();
    return table.data() + offset % kCycle;
}

// Address of a placed part, chosen so that a wrong place cannot be right by chance.
uint64_t address_of_part(uint64_t begin) {
    return (begin << 8) + 0x10000000000000;
}

}  // namespace

std::string TransferCase::describe() const {
    std::ostringstream text;
    text << length << " bytes, window " << slots << ", staging " << staging_slots << ", buffers "
         << buffers << (notified ? ", notified" : "") << (copied ? ", copied" : "") << ", parts";
    for (const Part& part : parts) text << " " << part.upto << (part.placed ? "d" : "s");
    text << ", head " << head.blocks << " from " << head.first;
    return text.str();
}

TransferCase any_case(Random& random) {
    const auto below = [&](uint64_t limit) { return random.below(limit); };
    TransferCase what;
    const bool huge = below(16) == 0;
    switch (below(5)) {
        case 0:
            what.length = 1 + below(3);
            break;
        case 1:
            what.length = SubBlocks::kSubBlock * (1 + below(40)) - 1 + below(3);
            break;
        default:
            what.length = 1 + below(uint64_t{1} << (1 + below(20)));
    }
    const auto ring = [&] { return static_cast<uint32_t>(1 + below(below(2) != 0 ? 4 : 64)); };
    what.slots = ring();
    what.staging_slots = below(3) == 0 ? ring() : what.slots;
    what.buffers = static_cast<uint32_t>(1 + below(5));
    what.notified = below(2) == 0;
    what.copied = below(3) == 0;
    if (below(2) == 0) what.most = 1 + below(3 * SubBlocks::kSubBlock);
    if (what.length / what.most > 1000) what.most = what.length / 100;
    const uint64_t count = below(3) != 0 ? 1 : 1 + below(std::min<uint64_t>(what.length, 6));
    std::vector<uint64_t> ends;
    for (uint64_t i = 1; i < count; ++i) ends.push_back(1 + below(what.length));
    ends.push_back(what.length);
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    uint64_t begin = 0;
    uint64_t longer = 0;  // bytes added by huge placed parts
    for (const uint64_t end : ends) {
        Part part{.placed = below(2) == 0};
        if (huge && part.placed) {
            longer += below(uint64_t{1} << 50);
            what.most = std::max(what.most, uint64_t{1} << 44);
        }
        part.upto = end + longer;
        if (part.placed) {
            part.address = address_of_part(begin);
            part.rkey = static_cast<uint32_t>(begin) + 1;
        }
        what.parts.push_back(part);
        begin = part.upto;
    }
    what.length = begin;
    // An early copy for the whole message, for its first part, or for something else.
    if (below(2) == 0) {
        const uint64_t of[] = {what.length, what.parts[0].upto, 1 + below(what.length)};
        what.head = {static_cast<uint32_t>(1 + below(what.staging_slots)),
                     SubBlocks::first(of[below(3)])};
    }
    return what;
}

std::string TransferWorld::run(const TransferCase& what) {
    case_ = what;
    window_.resize(std::max(window_.size(), size_t{what.slots} * SubBlocks::kSlot));
    staging_.assign(what.staging_slots, UINT64_MAX);
    const ScheduleLimits limits{
        .first_bytes = static_cast<uint32_t>(random_.below(40000)),
        .q = 1 + static_cast<double>(random_.below(100)) / 50,
        .most = ScheduleLimits::most_of(std::min(what.slots, what.staging_slots), what.buffers)};
    sender_.emplace(what.length, what.slots, what.staging_slots, limits);
    sender_->set_early_chunk(what.head);
    for (uint32_t i = 0; i < what.head.blocks; ++i) staging_[i] = i;
    ready_ = 0;
    receiver_.emplace(what.length, what.slots, ++generation_, what.notified,
                      what.slots / (what.buffers + 1));
    wire_.clear();
    controls_.clear();
    arrived_.clear();
    posted_ = taken_ = 0;
    announced_ = under_way_ = 0;
    finished_ = end_sent_ = ended_ = false;
    wrong_.clear();
    while (!ended_ && wrong_.empty()) {
        Action possible[static_cast<size_t>(Action::kKinds)];
        size_t count = 0;
        for (size_t i = 0; i < static_cast<size_t>(Action::kKinds); ++i)
            if (can(static_cast<Action>(i))) possible[count++] = static_cast<Action>(i);
        if (count == 0) {
            wrong("nothing goes on: " + std::to_string(sender_->sent()) + " bytes sent, " +
                  std::to_string(taken_) + " of " + std::to_string(posted_) + " blocks taken");
            break;
        }
        const Action action = possible[random_.below(count)];
        // Repeats one action for a while; otherwise no side would fall far behind.
        for (uint64_t again = random_.below(4); wrong_.empty() && !ended_ && can(action); --again) {
            act(action);
            if (again == 0) break;
        }
    }
    if (wrong_.empty() && (!wire_.empty() || !controls_.empty())) wrong("over, but not all is");
    if (wrong_.empty() && (arrived_.size() != 1 || arrived_.begin()->first != 0 ||
                           arrived_.begin()->second != what.length))
        wrong("bytes are missing");
    const uint64_t head =
        !what.head.fits(what.parts[0])
            ? 0
            : std::min<uint64_t>(SubBlocks::count(what.parts[0].upto), what.head.blocks);
    if (wrong_.empty() && ready_ != head) wrong("the head is copied again");
    return wrong_;
}

bool TransferWorld::can(Action action) {
    RingReader::Block block;
    ChunkSource::Chunk chunk;
    switch (action) {
        case Action::kTellPart:
            return announced_ < case_.parts.size();
        case Action::kTake:
            return receiver_->next(window_.data(), block);
        case Action::kAck:
            if (end_sent_) return false;
            if (receiver_->complete()) return true;
            return receiver_->ack_due() ||
                   (receiver_->ack_owed() && !receiver_->next(window_.data(), block));
        case Action::kPost:
            return can_post(chunk);
        case Action::kFinish:
            return sender_->all_posted() && sender_->needs_finish() && !finished_;
        case Action::kPlace:
            return !wire_.empty();
        default:
            return !controls_.empty();
    }
}

void TransferWorld::act(Action action) {
    switch (action) {
        case Action::kTellPart: {
            const Part part = case_.parts[announced_++];
            receiver_->add(part);
            controls_.push_back({.part = part});
            break;
        }
        case Action::kTake:
            take();
            break;
        case Action::kAck:
            end_sent_ = receiver_->complete();
            receiver_->acked();
            controls_.push_back({.part = {}, .count = receiver_->count(), .end = end_sent_});
            break;
        case Action::kPost:
            post();
            break;
        case Action::kFinish:
            finished_ = true;
            wire_.push_back({.chunk = {}, .finish = true});
            break;
        case Action::kPlace:
            place();
            break;
        default:
            deliver();
    }
}

// Staging memory holds either staged chunks or placed ones, not both.
bool TransferWorld::can_post(ChunkSource::Chunk& chunk) {
    if (!sender_->next(case_.most, chunk)) return false;
    if (!case_.copied) return true;
    return chunk.placed ? sender_->all_acknowledged() : under_way_ == 0;
}

void TransferWorld::post() {
    ChunkSource::Chunk chunk;
    if (!can_post(chunk)) return;
    if (chunk.bytes == 0) return wrong("an empty write");
    // A device may limit a write to less.
    if (chunk.placed && random_.below(4) == 0) chunk.bytes = 1 + random_.below(chunk.bytes);
    if (chunk.placed) {
        under_way_ += case_.copied;
        if (case_.copied) staging_.assign(staging_.size(), UINT64_MAX);
    } else {
        if (chunk.index != posted_) return wrong("a number is left out");
        posted_ += chunk.blocks;
        if (posted_ - taken_ > case_.slots) return wrong("past the window");
        const uint64_t slot = chunk.index % case_.staging_slots;
        if (slot + chunk.blocks > case_.staging_slots ||
            chunk.index % case_.slots + chunk.blocks > case_.slots)
            return wrong("around the ring's end");
        if (chunk.ready > chunk.blocks ||
            (chunk.ready != 0 && chunk.index == 0 && chunk.first != case_.head.first))
            return wrong("something else is ready");
        ready_ += chunk.ready;
        for (uint32_t i = 0; i < chunk.blocks; ++i) {
            if (i < chunk.ready && staging_[slot + i] != chunk.index + i)
                return wrong("what is ready is not there");
            staging_[slot + i] = chunk.index + i;
        }
    }
    wire_.push_back({.chunk = chunk});
    sender_->posted(chunk);
}

void TransferWorld::place() {
    Write& write = wire_.front();
    if (write.finish) {
        if (!receiver_->finished()) return wrong("the end is not believed");
    } else if (write.chunk.placed) {
        uint64_t begin = 0;
        for (const Part& part : case_.parts) {
            if (write.chunk.offset < part.upto) {
                if (!part.placed || write.chunk.offset + write.chunk.bytes > part.upto ||
                    write.chunk.rkey != part.rkey ||
                    write.chunk.address != part.address + (write.chunk.offset - begin))
                    return wrong("a placed write to the wrong place");
                break;
            }
            begin = part.upto;
        }
        under_way_ -= case_.copied;
        arrived(write.chunk.offset, write.chunk.offset + write.chunk.bytes);
    } else if (write.placed != write.chunk.blocks) {
        place_block(write, write.placed++);
        if (case_.notified || write.placed != write.chunk.blocks) return;
    } else if (!receiver_->arrived(write.chunk.blocks)) {
        return wrong("a notification is not believed");
    }
    wire_.pop_front();
}

// Makes one sub-block and its flag visible.
void TransferWorld::place_block(const Write& write, uint32_t block) {
    const uint64_t index = write.chunk.index + block;
    if (staging_[index % case_.staging_slots] != index)
        return wrong("staging memory is overwritten before it is sent");
    if (index >= taken_ + case_.slots) return wrong("overwritten before it is taken");
    const uint32_t bytes = block == 0 ? write.chunk.first : SubBlocks::kSubBlock;
    const uint64_t offset = write.chunk.offset + (block == 0 ? 0 : write.chunk.first) +
                            (block == 0 ? 0 : uint64_t{block - 1} * SubBlocks::kSubBlock);
    std::byte* const end =
        window_.data() + index % case_.slots * SubBlocks::kSlot + SubBlocks::kSubBlock;
    memcpy(end - bytes, bytes_at(offset), bytes);
    const uint64_t flag = flag_of(generation_, index);
    memcpy(end, &flag, sizeof(flag));
}

void TransferWorld::take() {
    RingReader::Block block;
    if (!receiver_->next(window_.data(), block)) return;
    if (block.bytes == 0 || block.bytes > SubBlocks::kSubBlock ||
        memcmp(window_.data() + block.at, bytes_at(block.offset), block.bytes) != 0)
        return wrong("the bytes at " + std::to_string(block.offset) + " are others");
    arrived(block.offset, block.offset + block.bytes);
    receiver_->taken();
    ++taken_;
}

void TransferWorld::deliver() {
    const Control control = controls_.front();
    controls_.pop_front();
    if (control.part) {
        if (!sender_->add(*control.part)) wrong("a part is not believed");
        return;
    }
    if (!sender_->acknowledged(control.count)) return wrong("an acknowledgement is not believed");
    if (!control.end) return;
    if (!sender_->all_posted() || !sender_->all_acknowledged()) return wrong("over too early");
    ended_ = true;
}

void TransferWorld::arrived(uint64_t begin, uint64_t end) {
    auto next = arrived_.lower_bound(begin);
    if (next != arrived_.end() && next->first < end) return wrong("bytes come twice");
    if (next != arrived_.end() && next->first == end) {
        end = next->second;
        next = arrived_.erase(next);
    }
    if (next != arrived_.begin()) {
        const auto before = std::prev(next);
        if (before->second > begin) return wrong("bytes come twice");
        if (before->second == begin) {
            before->second = end;
            return;
        }
    }
    arrived_[begin] = end;
}

}  // namespace tern::test
