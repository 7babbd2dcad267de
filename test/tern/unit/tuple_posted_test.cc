// SPDX-License-Identifier: BSD-3-Clause
// The transport's table of posted receives, as the core of TupleQ sees it, against a list.
#include "tern/tupleq/core/posted.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "schedules.h"

namespace tern {
namespace tuple_posted_test {

constexpr uint64_t kFull = PostedReceive::kFullMask;

struct Pair {
    Pair() : table(16), posted(table) {}

    auto after(size_t from, uint64_t tag) const {
        return std::find_if(
            list.begin() + static_cast<ptrdiff_t>(from), list.end(),
            [&](const auto& r) { return r->mask == table.key_mask() && r->matches(tag); });
    }
    ReceiveHandle handle(std::vector<std::unique_ptr<PostedReceive>>::const_iterator it) const {
        return it == list.end() ? 0 : TuplePosted::handle(it->get());
    }

    PostedReceives table;
    TuplePosted posted;
    std::vector<std::unique_ptr<PostedReceive>> list;  // in the order of posting
};

std::string run(Random random) {
    Pair pair;
    const uint64_t often = random.chance(50) ? kFull : ~uint64_t{1};
    for (int step = 0; step < 150; ++step) {
        const uint64_t tag = random.below(4);
        if (pair.table.wants_other_key() && random.chance(20)) pair.posted.change_key();
        if (random.chance(50)) {
            const uint64_t mask = random.chance(20) ? random.below(4) : often;
            pair.list.push_back(std::make_unique<PostedReceive>());
            pair.table.post(*pair.list.back(), tag, mask);
        } else if (random.chance(30) && !pair.list.empty()) {
            const auto which =
                pair.list.begin() + static_cast<ptrdiff_t>(random.below(pair.list.size()));
            pair.posted.remove(TuplePosted::handle(which->get()));
            pair.list.erase(which);
        } else {
            const auto it = std::find_if(pair.list.begin(), pair.list.end(),
                                         [tag](const auto& r) { return r->matches(tag); });
            const TakenReceive taken = pair.posted.take(tag);
            if (taken.receive != pair.handle(it)) return "another receive is taken";
            if (it == pair.list.end()) continue;
            if (taken.wildcard == pair.table.is_keyed(**it)) return "a wildcard is none, or is one";
            pair.list.erase(it);
        }
        for (uint64_t each = 0; each < 4; ++each)
            if (pair.posted.first(each) != pair.handle(pair.after(0, each)))
                return "another receive is first";
        bool wildcard[4] = {};
        for (size_t i = 0; i < pair.list.size(); ++i) {
            const PostedReceive& receive = *pair.list[i];
            const ReceiveHandle handle = TuplePosted::handle(&receive);
            const uint64_t key = pair.table.key_mask();
            if (receive.mask != key) {
                for (uint64_t each = 0; each < 4; ++each)
                    for (uint64_t other = 0; other < 4; ++other)
                        wildcard[each] |= ((each ^ other) & key) == 0 && receive.matches(other);
                continue;
            }
            if (TuplePosted::next(handle) != pair.handle(pair.after(i + 1, receive.tag)))
                return "another receive is next";
            if (pair.posted.behind_wildcard(handle) != wildcard[receive.tag])
                return "a wildcard is not seen, or there is none";
        }
    }
    return {};
}

TEST(TuplePosted, IsTheListOfReceivesInTheOrderOfPosting) {
    each_schedule(5'000, run);
}

}  // namespace tuple_posted_test
}  // namespace tern
