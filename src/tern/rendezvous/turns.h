// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <vector>

#include "tern/rendezvous/progress_budget.h"

namespace tern {

// The transfers of one half whose bytes are being moved. They take turns: if the budget of one call
// of progress is too small for all, the next call begins where it was spent. Pure.
template <class T>
class Turns {
  public:
    explicit Turns(const ProgressBudget& budget) : budget_(budget) {}

    bool empty() const { return transfers_.empty(); }
    auto begin() const { return transfers_.begin(); }
    auto end() const { return transfers_.end(); }
    void add(T& transfer) { transfers_.push_back(&transfer); }
    // Returns how many were removed: one, or none.
    size_t remove(T& transfer) { return std::erase(transfers_, &transfer); }

    // Moves each transfer on by `step(transfer)`, which returns how much there was to do. Returns
    // the sum. The step may remove its transfer, and a completion calls the user, who may begin
    // others.
    template <class Step>
    unsigned advance(Step&& step) {
        unsigned count = 0;
        size_t at = budget_.behind() ? next_ : 0;
        for (size_t left = transfers_.size(); left != 0 && !transfers_.empty(); --left) {
            if (at >= transfers_.size()) at = 0;
            T& transfer = *transfers_[at];
            const bool late = budget_.over();
            count += step(transfer);
            // If the transfer is over, the next one has taken its place.
            const size_t was = at;
            if (at < transfers_.size() && transfers_[at] == &transfer) ++at;
            // A registration that did not fit in comes first in the next call.
            if (!late && budget_.over()) next_ = budget_.put_off() ? was : at;
        }
        return count;
    }

  private:
    const ProgressBudget& budget_;
    std::vector<T*> transfers_;
    size_t next_ = 0;  // comes first if the last budget was too small
};

}  // namespace tern
