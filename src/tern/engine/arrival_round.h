// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "tern/base/tunables.h"

namespace tern {

// Takes the frames and completions that had arrived when a round began. Under load there are always
// more: so the completion queue, and after it each block, need be seen empty only once, or be
// polled as often as it takes to empty a full one. A round takes several polls, which limits the
// time of each. Pure. Data path.
class ArrivalRound {
  public:
    // Takes all or a part, adds their number to `count`, and returns whether the round is over; the
    // next call begins another one. `whole_block`: the most frames in a block. `arrivals`:
    //
    //   poll_queue(empty)      takes a burst; sets whether the queue was seen empty; returns the
    //                          number taken
    //   queue_capacity()       the most completions in the queue
    //   blocks()               their number
    //   poll_block(i)          takes a burst, and returns the number taken
    //   emptied(i)             a word of the block, 0 at first, that only this class changes
    template <class Arrivals>
    bool take(Arrivals&& arrivals, unsigned whole_block, unsigned& count) {
        for (unsigned now = 0; now < kArrivalsAtOnce;) {
            unsigned taken = queue_done_ ? 0 : take_from_queue(arrivals);
            bool blocks_done = true;
            for (size_t i = 0; i < arrivals.blocks(); ++i) {
                uint32_t& emptied = arrivals.emptied(i);  // what is taken may change the list
                if (emptied == number_) continue;
                const unsigned frames = arrivals.poll_block(i);
                taken += frames;
                // Before the queue is empty, frames may wait in the block for cold ones.
                if (frames < kArrivalBurst && queue_done_)
                    emptied = number_;
                else
                    blocks_done = false;
            }
            now += taken;
            count += taken;
            if (queue_done_ && (blocks_done || ++passes_ * kArrivalBurst >= whole_block)) {
                begin_next();
                return true;
            }
        }
        return false;
    }

  private:
    template <class Arrivals>
    unsigned take_from_queue(Arrivals& arrivals) {
        bool empty = false;
        const unsigned taken = arrivals.poll_queue(empty);
        completions_ += taken;
        queue_done_ = empty || completions_ >= arrivals.queue_capacity();
        return taken;
    }
    void begin_next() {
        ++number_;
        passes_ = completions_ = 0;
        queue_done_ = false;
    }

    uint32_t number_ = 1;
    unsigned passes_ = 0;       // over the blocks, since the queue was done
    unsigned completions_ = 0;  // taken
    bool queue_done_ = false;   // it has been seen empty
};

}  // namespace tern
