// SPDX-License-Identifier: BSD-3-Clause
#include "tern/engine/batches.h"

#include <sched.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "tern/base/tunables.h"
#include "tern/engine/completion_poller.h"
#include "tern/engine/parts.h"
#include "tern/engine/peer_blocks.h"
#include "tern/engine/poll_budget.h"
#include "tern/engine/resources.h"
#include "tern/engine/send_pool.h"
#include "tern/engine/settings.h"
#include "tern/engine/work_requests.h"

namespace tern {

Batches::Batches(const EngineParts& parts, PollBudget& budget)
    : after_(parts.settings.batch.after),
      most_(std::min(kLongestBatch, parts.settings.segment_size & ~(Word::kUnit - 1))),
      pool_(parts.resources.pool),
      requests_(parts.requests),
      blocks_(parts.peer_blocks),
      completions_(parts.completions),
      budget_(budget) {}

Batches::~Batches() {
    if (timer_ >= 0) close(timer_);
}

// The other thread posts, or has lost its processor while it does.
void Batches::Lock::wait(const std::atomic<bool>& taken) {
    for (int tries = 0; taken.load(std::memory_order_relaxed); ++tries)
        if (tries >= 1000) (void)sched_yield();
}

int Batches::enable() {
    if (after_ == EngineSettings::kUnlimited) return -1;
    if (timer_ < 0) timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    enabled_ = timer_ >= 0;
    return timer_;
}

void Batches::disable() {
    enabled_ = false;
    push_all();
}

void Batches::make_room(size_t channels) {
    const Lock lock(taken_);
    base::make_room(open_, channels);
}

void Batches::begin(Channel& channel) {
    channel.batch.owner = this;
    if (!enabled_) return;
    const uint32_t most = channel.sends.depth() / 4;
    const uint32_t after = std::min(after_, most);
    channel.sends.change_marks([=](BatchMarks& marks) { marks.enable(after, most); });
}

void Batches::set_timer(bool runs) {
    ticks_ = runs;
    itimerspec timer{};
    if (runs) timer.it_value.tv_nsec = timer.it_interval.tv_nsec = kBatchPeriod;
    (void)timerfd_settime(timer_, 0, &timer, nullptr);
}

// Where the frame goes whose first message takes `space` bytes. False: a frame by itself has to
// wrap, to wait or to fail.
bool Batches::plan(Channel& channel, uint32_t space) {
    Channel::Batch& batch = channel.batch;
    SendPath& path = channel.sending.path;
    const SendPath::Choice choice = blocks_.choose(channel, space);
    if (PeerBlocks::refuses(choice) || !channel.sends.takes_data()) return false;
    batch.in_block = path.hot() && !path.fenced();
    const uint16_t credit = channel.receiving.path.credit();
    if (!batch.in_block) {
        batch.plan.most = most_;
        batch.word = path.cold_word(FrameKind::kBatch, 0, 0, credit).raw();
        return space <= most_;
    }
    batch.plan = path.plan_batch(most_);
    if (batch.plan.most < 2 * space) return false;
    batch.word = path.batch_word(batch.plan, credit).raw();
    batch.notify = channel.sending.notify;
    batch.block_address = channel.sending.block_address;
    batch.block_rkey = channel.sending.block_rkey;
    path.batch_begins(batch.plan);
    return true;
}

bool Batches::open(Channel& channel, uint32_t length) {
    if (!enabled_ || !pool_.prepare()) return false;
    bool bursts = false;
    if (after_ != 0) {
        bool of_others = false;
        const bool waits = completions_.still_waits(channel, of_others);
        bursts = !waits && of_others && unpolled(channel);
        channel.sends.change_marks(
            [=](BatchMarks& marks) { marks.looked(!waits && of_others && !bursts); });
        if (!waits && !bursts) return false;
    }
    if (!plan(channel, BatchEntry::space(length))) return false;
    if (bursts) burst_at_ = budget_.polls();
    Channel::Batch& batch = channel.batch;
    SendPool::Buffer* const buffer = pool_.take();
    buffer->holder = channel.tag;
    batch.frame = buffer->data;
    batch.lkey = buffer->lkey;
    batch.next = batch.payload();
    batch.number = channel.sends.next();
    channel.sends.posted(false, true);
    channel.sends.record(buffer, nullptr);
    channel.sends.hold(true);
    if (held_++ == 0) budget_.begin_reason();
    channel.receiving.path.credit_sent();
    channel.sending.stalled = false;
    if (!batch.in_block) {
        channel.sending.path.sent_cold();
        channel.sending.allowance.sent();
    }
    const Lock lock(taken_);
    batch.index = static_cast<uint32_t>(open_.size());
    open_.push_back(&channel);
    batch.limit = batch.payload() + batch.plan.most;
    ++opened_;
    in_blocks_ += batch.in_block;
    if (!ticks_) set_timer(true);
    return true;
}

void Batches::remove(Channel& channel) {
    Channel::Batch& batch = channel.batch;
    open_.back()->batch.index = batch.index;
    open_[batch.index] = open_.back();
    open_.pop_back();
    batch.limit = nullptr;
}

void Batches::post(Channel& channel) {
    Channel::Batch& batch = channel.batch;
    remove(channel);
    const Word word = Word(batch.word).with_length(batch.length());
    memcpy(batch.in_block ? batch.next : batch.frame, &word, sizeof(word));
    ibv_sge piece{.addr = address_of(batch.frame) + (batch.in_block ? sizeof(Word) : 0),
                  .length = batch.length() + uint32_t{sizeof(Word)},
                  .lkey = batch.lkey};
    ibv_send_wr request{};
    request.wr_id = channel.tag | batch.number;
    request.sg_list = &piece;
    request.num_sge = 1;
    request.send_flags = IBV_SEND_SIGNALED;
    request.opcode = IBV_WR_SEND;
    if (batch.in_block)
        aim_at_block(request, batch.notify, batch.block_address + (batch.plan.end - piece.length),
                     batch.block_rkey);
    ibv_send_wr* bad = nullptr;
    batch.refused = ibv_post_send(channel.qp.get(), &request, &bad) != 0;
}

void Batches::release(Channel& channel) {
    channel.sends.hold(false);
    if (--held_ == 0) budget_.end_reason();
}

void Batches::push(Channel& channel) {
    TERN_ASSERT(channel.sends.held());
    {
        const Lock lock(taken_);
        if (channel.batch.open()) post(channel);
    }
    if (channel.batch.in_block)
        channel.sending.path.batch_ends(channel.batch.plan, channel.batch.length());
    release(channel);
    mark(channel);
    if (burst_at_ == budget_.polls())
        channel.sends.change_marks([](BatchMarks& marks) { marks.hurry(); });
    if (channel.batch.refused) [[unlikely]]
        (void)requests_.on_refused(channel);
}

void Batches::push_all() {
    for (;;) {
        Channel* channel = nullptr;
        {
            const Lock lock(taken_);
            if (open_.empty()) return;
            channel = open_.back();
        }
        push(*channel);
    }
}

void Batches::drop(Channel& channel) {
    if (!channel.sends.held()) return;
    {
        const Lock lock(taken_);
        if (channel.batch.open()) remove(channel);
    }
    release(channel);
}

void Batches::on_timer() {
    uint64_t expirations = 0;
    if (timer_ >= 0) (void)!read(timer_, &expirations, sizeof(expirations));
    const Lock lock(taken_);
    if (open_.empty() && opened_before_ == opened_) set_timer(false);
    opened_before_ = opened_;
    // One that is empty is about to get its first message.
    for (size_t i = open_.size(); i-- != 0;)
        if (open_[i]->batch.length() != 0) post(*open_[i]);
}

}  // namespace tern
