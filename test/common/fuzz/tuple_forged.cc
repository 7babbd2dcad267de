// SPDX-License-Identifier: BSD-3-Clause
// Bind, Bound, Close, Closed, marks, grants and direct messages of peers that lie. One peer's lies
// end nothing of another peer's; the memory for grants of other tuples is never touched; and each
// receive is used once.
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "fuzz.h"
#include "tern/matching/key_mask.h"
#include "tern/tupleq/core/matcher.h"
#include "tern/tupleq/core/posted.h"
#include "tern/tupleq/core/senders.h"

using namespace tern;
using fuzz::require;

namespace {

constexpr uint32_t kPeers = 3;
constexpr uint32_t kTuples = 4;
constexpr uint32_t kDepth = 4;

// This side sends: the peers bind, close, and write grants wherever the device lets them.
class Sending {
  public:
    explicit Sending(fuzz::Input& input) : input_(input) {}

    void run() {
        while (!input_.empty()) step();
    }

  private:
    void step() {
        const uint32_t peer = input_.below(kPeers);
        switch (input_.below(6)) {
            case 0:
                bind(peer);
                break;
            case 1: {
                const uint32_t before = senders_.bound();
                const TupleClose close{static_cast<uint16_t>(input_.below(kTuples + 1)),
                                       input_.chance(2)};
                TupleClosed answer;
                const auto owner = owners_.find(close.sender);
                const bool owns = owner != owners_.end() && owner->second == peer;
                require(senders_.close(peer, close, answer) == owns,
                        "it closes what is not its own");
                if (!owns) break;
                if (close.unbind) owners_.erase(close.sender);
                require(senders_.bound() + (close.unbind ? 1 : 0) == before, "another tuple ends");
                break;
            }
            case 2:
                words_[input_.below(static_cast<uint32_t>(words_.size()))] =
                    input_.take<uint64_t>();
                break;
            case 3:
            case 4:
                send(peer);
                break;
            case 5:
                if (!input_.chance(4)) break;
                senders_.peer_died(peer);
                std::erase_if(owners_, [&](const auto& each) { return each.second == peer; });
                break;
        }
        require(senders_.bound() == owners_.size(), "a tuple is lost");
    }

    void bind(uint32_t peer) {
        TupleBind bind{.tag = input_.below(6),
                       .mask = input_.chance(4) ? input_.take<uint64_t>() : KeyMask::kFull,
                       .tuple = static_cast<uint16_t>(input_.below(8)),
                       .depth = static_cast<uint16_t>(1 << input_.below(4))};
        if (input_.chance(8)) bind.depth = input_.take<uint16_t>();
        TupleBound answer;
        if (!senders_.bind(peer, bind, answer) || answer.sender == TupleBound::kRefused) return;
        require(answer.sender < kTuples && owners_.count(answer.sender) == 0,
                "a number is used twice");
        require(answer.slot + TupleSender::words(bind.depth) <= words_.size(),
                "grants outside their memory");
        owners_[answer.sender] = peer;
    }

    void send(uint32_t peer) {
        const uint64_t tag = input_.below(6);
        TupleSenders::Tuple* tuple = senders_.find(peer, tag);
        if (tuple == nullptr) return;
        const auto owner = owners_.find(tuple->number);
        require(owner != owners_.end() && owner->second == peer, "a tuple of another peer");
        // Nothing but this tuple's own words is written.
        std::vector<uint64_t> before = words_;
        const uint64_t length = input_.number();
        const uint16_t sequence = tuple->sender.sequence();
        if (tuple->may_send_direct(tag, length) && tuple->sender.send_direct(length)) {
        } else {
            senders_.mark(*tuple);
        }
        require(static_cast<uint16_t>(tuple->sender.sequence() - sequence) == 1,
                "a message has no number, or two");
        const size_t first = tuple->number * TupleSender::words(kDepth);
        for (size_t i = 0; i < words_.size(); ++i)
            if (i < first || i >= first + TupleSender::words(kDepth))
                require(words_[i] == before[i], "the words of another tuple are written");
    }

    fuzz::Input& input_;
    std::vector<uint64_t> words_ = std::vector<uint64_t>(kTuples * TupleSender::words(kDepth));
    TupleSenders senders_{words_.data(), kTuples, kDepth};
    std::map<uint16_t, uint32_t> owners_;
};

// This side receives: peers send marks, answers and direct messages that need not fit. Peer 0 is
// honest: it only ever refuses, and sends ordinary messages without a mark.
class Receiving {
  public:
    explicit Receiving(fuzz::Input& input) : input_(input) {}

    void run() {
        while (!input_.empty()) step();
    }

  private:
    struct Table : TuplePosted {
        using TuplePosted::TuplePosted;
        static uint64_t capacity(ReceiveHandle) { return 64; }
        static bool prepare(ReceiveHandle) { return true; }
    };

    void step() {
        const uint32_t peer = 1 + input_.below(kPeers - 1);
        const auto tuple = static_cast<uint16_t>(input_.below(kTuples + 1));
        if (dead_.count(peer) != 0) return;
        bool fine = true;
        switch (input_.below(10)) {
            case 0:
            case 1:
                post();
                break;
            case 2:
                (void)core_.bind(peer, input_.below(4));
                break;
            case 3: {
                const TupleBound bound{tuple,
                                       input_.chance(4) ? TupleBound::kRefused
                                                        : static_cast<uint16_t>(input_.below(4)),
                                       input_.below(64)};
                fine = core_.bound(peer, bound);
                break;
            }
            case 4:
                fine = core_.closed(peer, {tuple, input_.take<uint16_t>(), input_.chance(2)});
                break;
            case 5:
            case 6: {
                const TupleMark mark{tuple, near(tuple)};
                fine = ordinary(peer, input_.below(4), input_.chance(3) ? nullptr : &mark);
                break;
            }
            case 7:
                direct(tuple);
                break;
            case 8:
                if (tuple < kTuples && core_.tuple(tuple).revoking)
                    core_.revoked(tuple, core_.tuple(tuple).revoke_count, near(tuple));
                break;
            case 9:
                if (tuple < kTuples) core_.unbind(tuple);
                break;
        }
        if (!fine) die(peer);
        act();
    }

    uint16_t near(uint16_t tuple) {
        const auto by = input_.take<int8_t>();
        return static_cast<uint16_t>(tuple < kTuples && by < 100 ? last_[tuple] + by / 16
                                                                 : by << 8);
    }

    void post() {
        if (posted_.size() > 32) return;
        auto receive = std::make_unique<PostedReceive>();
        const uint64_t tag = input_.below(4);
        table_.post(*receive, tag, input_.chance(6) ? 0 : KeyMask::kFull);
        posted_[TuplePosted::handle(receive.get())] = std::move(receive);
        core_.posted(tag);
    }

    // A receive has its message, or is canceled: from now on nobody may name it.
    void used(ReceiveHandle receive) {
        if (receive == 0) return;
        require(posted_.erase(receive) == 1, "a receive is used twice");
    }

    bool ordinary(uint32_t peer, uint64_t tag, const TupleMark* mark) {
        const auto arrival = core_.ordinary(peer, tag, mark, 8);
        return took(peer, tag, arrival);
    }
    template <class Arrival>
    bool took(uint32_t peer, uint64_t tag, const Arrival& arrival) {
        using Verdict = TupleMatcher<Table>::Arrival::Verdict;
        if (arrival.verdict == Verdict::kBroken) return false;
        if (arrival.verdict == Verdict::kHold)
            held_[peer].push_back(tag);
        else
            used(arrival.receive);
        return true;
    }

    // The device has put a message into the first entry of a queue.
    void direct(uint16_t tuple) {
        if (tuple >= kTuples || queues_[tuple].empty()) return;
        queues_[tuple].pop_front();
        const auto placed = core_.direct(tuple);
        if (placed.receive == 0) return die(core_.tuple(tuple).peer);
        used(placed.receive);
        ++last_[tuple];
    }

    void die(uint32_t peer) {
        if (peer == 0 || !dead_.insert(peer).second) return;
        core_.peer_died(peer);
        core_.drop_held(peer);
        held_.erase(peer);
    }

    void act() {
        using Kind = TupleAction::Kind;
        for (unsigned i = 0; !core_.actions().empty(); ++i) {
            require(i < 10'000, "actions without end");
            const TupleAction action = core_.actions().front();
            core_.actions().pop();
            switch (action.kind) {
                case Kind::kGrant:
                    require(dead_.count(action.peer) == 0, "a grant for a peer that has failed");
                    require(queues_[action.tuple].size() < kDepth, "a queue has too many receives");
                    queues_[action.tuple].push_back(action.place);
                    break;
                case Kind::kDrain:
                    for (uint32_t n = 0; n < action.count; ++n) {
                        if (queues_[action.tuple].empty()) break;
                        queues_[action.tuple].pop_front();
                        uint32_t place = 0;
                        (void)core_.drained(action.tuple, place);
                    }
                    break;
                case Kind::kCanceled:
                case Kind::kFailed:
                    used(action.receive);
                    break;
                case Kind::kRetry:
                    retry(action.peer);
                    break;
                case Kind::kDiscard:
                    queues_[action.tuple].clear();
                    core_.replaced(action.tuple);
                    break;
                case Kind::kBind:
                    last_[action.tuple] = 0;
                    break;
                default:
                    break;
            }
        }
    }

    void retry(uint32_t peer) {
        using Verdict = TupleMatcher<Table>::Arrival::Verdict;
        auto& held = held_[peer];
        while (!held.empty()) {
            const auto arrival = core_.retry(peer, held.front());
            if (arrival.verdict == Verdict::kHold) return;
            held.pop_front();
            used(arrival.receive);
        }
    }

    fuzz::Input& input_;
    PostedReceives table_{16};
    Table posted_table_{table_};
    TupleMatcher<Table> core_{posted_table_, kTuples, kDepth};
    std::map<ReceiveHandle, std::unique_ptr<PostedReceive>> posted_;
    std::map<uint32_t, std::deque<uint64_t>> held_;
    std::deque<uint32_t> queues_[kTuples + 1];
    uint16_t last_[kTuples + 1] = {};
    std::set<uint32_t> dead_;
};

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    fuzz::Input input(data, size);
    if (input.chance(2))
        Sending(input).run();
    else
        Receiving(input).run();
    return 0;
}
