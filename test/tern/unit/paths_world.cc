// SPDX-License-Identifier: BSD-3-Clause
#include "paths_world.h"

#include <algorithm>
#include <cstring>

namespace tern {
namespace {

std::vector<std::byte> payload_of(uint64_t number, uint32_t length) {
    std::vector<std::byte> payload(padded(length));
    Random random(number);
    for (uint32_t at = 0; at < length; at += 8) {
        const uint64_t value = random();
        memcpy(&payload[at], &value, 8);
    }
    payload.resize(length);
    return payload;
}

void append(std::vector<std::byte>& bytes, Word word) {
    const uint64_t raw = word.raw();
    const auto* data = reinterpret_cast<const std::byte*>(&raw);
    bytes.insert(bytes.end(), data, data + sizeof raw);
}

}  // namespace

PathsWorld::PathsWorld(Random random, const Limits& limits) : random_(random), limits_(limits) {}

void PathsWorld::broken(const std::string& rule) {
    if (wrong_.empty()) wrong_ = rule;
}

void PathsWorld::chaos(unsigned steps) {
    while (steps-- > 0 && wrong_.empty()) step();
}

void PathsWorld::step() {
    const auto index = static_cast<int>(random_.below(2));
    Side& side = sides_[index];
    switch (random_.below(16)) {
        case 0:
        case 1:
        case 2:
        case 3: {
            const auto length = static_cast<uint32_t>(
                random_.chance(60) ? random_.below(64) : random_.below(limits_.longest + 1));
            (void)send(index, length, random_.chance(10));
            break;
        }
        case 4:
        case 5:
        case 6:
            carry(side, random_.chance(50) ? random_.below(40) : random_.below(4000));
            break;
        case 7:
        case 8:
        case 9:
            if (!limits_.notify) poll_block(side, static_cast<unsigned>(random_.below(10)));
            break;
        case 10:
        case 11:
        case 12:
            poll_completion(side);
            break;
        case 13:
            // As many as the send queue has room for.
            pay(side, static_cast<unsigned>(random_.below(4)));
            break;
        case 14:
            promote(index);
            break;
        case 15:
            if (random_.chance(30)) revoke(index);
            break;
    }
}

// `packed`: the payload exists before the path is chosen, so a stall cannot refuse it.
bool PathsWorld::send(int index, uint32_t length, bool packed) {
    Side& side = sides_[index];
    take_credit(side);
    const SendPath::Choice choice = side.tx.choose(length);
    if (choice.route == SendPath::Route::kStall) {
        stall(side);
        if (!packed) return false;
    }
    const uint32_t id = side.sent % 32;
    Bytes payload = payload_of(side.sent, length);
    const uint16_t credit = side.rx.credit();
    if (choice.route == SendPath::Route::kBlock) {
        if (choice.plan.wrap) {
            Bytes wrap;
            append(wrap, side.tx.block_word(FrameKind::kWrap, 0, 0, 0));
            post_write(side, choice.plan.wrap_at, std::move(wrap), false);
        }
        payload.resize(padded(length));
        append(payload,
               side.tx.block_word(choice.plan, FrameKind::kActiveMessage, id, length, credit));
        post_write(side, choice.plan.end - BlockWriter::body(length), std::move(payload),
                   (side.held.flags & BlockOffer::kNotify) != 0);
        side.tx.sent_block(choice.plan);
        side.stalled = false;
        ++sent_hot_;
    } else {
        post_send(side, side.tx.cold_word(FrameKind::kActiveMessage, id, length, credit), payload);
        ++sent_cold_;
        if (side.tx.detoured(length)) side.due |= kReleaseDue;
    }
    side.rx.credit_sent();
    ++side.sent;
    return true;
}

void PathsWorld::take_credit(Side& side) {
    if (side.credit_word == side.credit_seen) return;
    const BlockWriter::Taken taken = side.tx.credit_word(side.credit_word);
    if (taken == BlockWriter::Taken::kMalformed) broken("a good credit word is refused");
    if (taken == BlockWriter::Taken::kYes) side.credit_seen = side.credit_word;
}

void PathsWorld::pay_credit(Side& side) {
    if (!limits_.words || side.rx.credit_frame_due()) {
        send_control(side, ControlId::kCredit, nullptr, 0);
        return;
    }
    const uint32_t freed = side.rx.credit_word();
    Post post{.bytes = Bytes(sizeof freed), .credit = true};
    memcpy(post.bytes.data(), &freed, sizeof freed);
    side.wire.push_back(std::move(post));
    side.rx.credit_written();
    ++words_written_;
}

void PathsWorld::stall(Side& side) {
    if (side.stalled) return;
    side.stalled = true;
    if (side.tx.stalled()) side.due |= kReleaseDue;
}

void PathsWorld::post_send(Side& side, Word word, const Bytes& payload) {
    Post post;
    append(post.bytes, word);
    post.bytes.insert(post.bytes.end(), payload.begin(), payload.end());
    side.wire.push_back(std::move(post));
    side.tx.sent_cold();
}

void PathsWorld::post_write(Side& side, uint32_t at, Bytes bytes, bool notify) {
    if (at % 8 != 0 || at + bytes.size() > side.held.size) broken("a write outside its block");
    side.wire.push_back({side.held.address + at, notify, std::move(bytes)});
}

void PathsWorld::promote(int index) {
    Side& side = sides_[index];
    if (side.active) return;
    side.active = true;
    side.due |= kGrantDue;
}

void PathsWorld::revoke(int index) {
    Side& side = sides_[index];
    if (side.rx.block() != ReceivePath::Block::kOffered) return;
    side.rx.revoke();
    side.due |= kRevokeDue;
}

// Sends at most `most` of the control frames that are due.
void PathsWorld::pay(Side& side, unsigned most) {
    if (!side.rx.credit_due()) side.due &= ~kCreditDue;
    for (const unsigned what : {kReleaseDue, kGrantDue, kRevokeDue, kCreditDue}) {
        if ((side.due & what) == 0) continue;
        if (most-- == 0) return;
        side.due &= ~what;
        if (what == kGrantDue) {
            grant(side);
        } else if (what == kRevokeDue) {
            send_control(side, ControlId::kRevoke, nullptr, 0);
        } else if (what == kCreditDue) {
            pay_credit(side);
        } else if (side.tx.release_due()) {
            const Release release = side.tx.release();
            send_control(side, ControlId::kRelease, &release, sizeof release);
            side.tx.released();
        }
    }
}

bool PathsWorld::send_control(Side& side, ControlId id, const void* payload, uint32_t length) {
    Bytes bytes(length);
    if (length != 0) memcpy(bytes.data(), payload, length);
    post_send(
        side,
        side.tx.cold_word(FrameKind::kControl, static_cast<uint32_t>(id), length, side.rx.credit()),
        bytes);
    side.rx.credit_sent();
    return true;
}

void PathsWorld::grant(Side& side) {
    const uint32_t size = std::max(side.requested_bytes, limits_.block_first);
    if (side.block) return broken("a second block");
    side.block = std::make_unique<Block>();
    side.block->memory.resize(size / kStep);
    side.rx.offer(reinterpret_cast<std::byte*>(side.block->memory.data()), size);
    const BlockOffer grant{.address = side.block->address(),
                           .rkey = 1,
                           .size = size,
                           .most = limits_.block_most,
                           .flags = limits_.notify ? BlockOffer::kNotify : 0};
    send_control(side, ControlId::kOffer, &grant, sizeof grant);
    ++blocks_offered_;
}

void PathsWorld::carry(Side& side, uint64_t bytes) {
    while (bytes > 0 && !side.wire.empty()) {
        Post& post = side.wire.front();
        const uint64_t piece = std::min<uint64_t>(bytes, post.bytes.size() - post.done);
        if (post.to != 0) {
            const Side& target = peer(side);
            const uint64_t to = post.to + post.done;
            if (!target.block || to < target.block->address() ||
                to + piece > target.block->address() + target.block->size())
                return broken("a write to a block that is not there any more");
            memcpy(reinterpret_cast<std::byte*>(target.block->memory.data()) +
                       (to - target.block->address()),
                   &post.bytes[post.done], piece);
        }
        post.done += piece;
        bytes -= piece;
        if (post.done < post.bytes.size()) return;
        arrived(side, post);
        side.wire.pop_front();
    }
}

void PathsWorld::arrived(Side& side, Post& post) {
    if (post.credit)
        memcpy(&peer(side).credit_word, post.bytes.data(), sizeof(uint32_t));
    else if (post.to == 0)
        peer(side).completions.push_back({false, std::move(post.bytes)});
    else if (post.notify)
        peer(side).completions.push_back({true, {}});
}

unsigned PathsWorld::poll_block(Side& side, unsigned most) {
    unsigned count = 0;
    Word word;
    while (count < most && wrong_.empty()) {
        const ReceivePath::Look look = side.rx.look(word);
        if (look == ReceivePath::Look::kNothing) break;
        if (look == ReceivePath::Look::kMalformed) broken("a good frame is called malformed");
        if (!side.tx.credited(word.credit())) broken("good credit of a block frame is refused");
        if (word.kind() != FrameKind::kActiveMessage) broken("not a message");
        if (!wrong_.empty()) break;
        message(side, word, side.rx.payload(word));
        side.rx.consume(word);
        ++count;
        if (side.rx.credit_pressing() && random_.chance(limits_.pays)) pay_credit(side);
    }
    if (side.rx.credit_due()) side.due |= kCreditDue;
    return count;
}

bool PathsWorld::poll_completion(Side& side) {
    if (side.completions.empty()) return false;
    const Completion completion = std::move(side.completions.front());
    side.completions.pop_front();
    if (!completion.write)
        received_cold(side, completion.bytes);
    else if (poll_block(side, 1) != 1)
        broken("a write notified of is not in its block");
    return true;
}

void PathsWorld::received_cold(Side& side, const Bytes& frame) {
    uint64_t raw = 0;
    memcpy(&raw, frame.data(), sizeof raw);
    const Word word(raw);
    if (!word.well_formed() || frame.size() != sizeof(Word) + word.length())
        return broken("a cold frame is not what was sent");
    const unsigned before = side.rx.before(word.sequence());
    if (before != 0 && poll_block(side, before) != before)
        return broken("frames that come before a cold one are not in the block");
    if (!side.tx.credited(word.credit())) return broken("good credit of a cold frame is refused");
    const std::byte* payload = frame.data() + sizeof(Word);
    if (word.kind() == FrameKind::kActiveMessage) {
        message(side, word, payload);
        side.rx.received_cold();
    } else {
        side.rx.received_cold();
        control(side, word, payload);
    }
}

void PathsWorld::control(Side& side, Word word, const std::byte* payload) {
    switch (static_cast<ControlId>(word.id())) {
        case ControlId::kCredit:
            return;
        case ControlId::kOffer:
            memcpy(&side.held, payload, sizeof side.held);
            if (!side.tx.take_offer(side.held)) broken("a good offer is refused");
            side.stalled = false;
            side.credit_word = side.credit_seen = 0;
            return;
        case ControlId::kRevoke:
            side.tx.revoked();
            if (side.tx.release_due()) side.due |= kReleaseDue;
            return;
        case ControlId::kRelease: {
            Release release;
            memcpy(&release, payload, sizeof release);
            const bool revoked = side.rx.block() == ReceivePath::Block::kRevoked;
            if (!side.rx.released()) return broken("a good release is refused");
            if (release.requested_bytes > limits_.block_most)
                broken("a request beyond what was offered");
            if (release.requested_bytes != 0 && release.requested_bytes <= side.block->size())
                broken("a request for no more than it had");
            side.block.reset();
            side.requested_bytes = release.requested_bytes & ~(kStep - 1);
            if (side.requested_bytes != 0 && !revoked)
                side.due |= kGrantDue;
            else
                side.active = false;
            return;
        }
        default:
            broken("a control frame that nobody sends");
    }
}

void PathsWorld::message(Side& side, Word word, const std::byte* payload) {
    const auto expected = payload_of(side.received, word.length());
    if (word.id() != side.received % 32)
        broken("a message is missing, comes twice, or out of order");
    else if (!std::equal(expected.begin(), expected.end(), payload))
        broken("a message has other bytes");
    ++side.received;
}

void PathsWorld::deliver_to_busy(int index) {
    Side& side = sides_[index];
    carry(side, UINT64_MAX);
    while (poll_completion(peer(side)) && wrong_.empty()) {
    }
    poll_block(peer(side), UINT32_MAX);
}

void PathsWorld::settle() {
    for (unsigned rounds = 0; wrong_.empty(); ++rounds) {
        if (rounds > 1000) return broken("it never comes to rest");
        bool moved = false;
        for (Side& side : sides_) {
            pay(side, UINT32_MAX);
            moved = moved || side.due != 0 || !side.wire.empty();
            carry(side, UINT64_MAX);
        }
        for (Side& side : sides_) {
            while (poll_completion(side) && wrong_.empty()) moved = true;
            if (!limits_.notify) moved = poll_block(side, UINT32_MAX) != 0 || moved;
            moved = moved || side.due != 0;
        }
        if (!moved) break;
    }
    for (Side& side : sides_)
        if (wrong_.empty() && side.received != peer(side).sent) broken("a message is missing");
}

void PathsWorld::expect_room() {
    for (int index = 0; index < 2; ++index) {
        Side& side = sides_[index];
        take_credit(side);
        if (side.tx.hot() != (peer(side).rx.block() != ReceivePath::Block::kNone))
            broken("the two ends disagree on whether there is a block");
        if (!side.tx.hot()) continue;
        const uint32_t longest = BlockWriter::max_payload(side.tx.block_size());
        if (side.tx.choose(longest).route != SendPath::Route::kBlock ||
            side.tx.choose(0).route != SendPath::Route::kBlock)
            broken("a block without room though all has been read");
    }
}

void PathsWorld::expect_no_blocks() {
    revoke(0);
    revoke(1);
    settle();
    for (Side& side : sides_)
        if (side.block || side.tx.hot() || side.active) broken("a block is not given back");
}

}  // namespace tern
