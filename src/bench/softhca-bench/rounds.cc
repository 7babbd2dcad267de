// SPDX-License-Identifier: BSD-3-Clause
#include "bench/softhca-bench/rounds.h"

#include <algorithm>

#include "bench/softhca-bench/session.h"

namespace softhca::bench {
namespace {

/// Median of the rounds' ratios.
double ratio(const Samples& measured, const Samples& yardstick) {
    Samples ratios;
    for (size_t i = 0; i < measured.size(); ++i) ratios.push_back(measured[i] / yardstick[i]);
    return median(ratios);
}

}  // namespace

Rounds::Item& Rounds::add(std::string label, const char* unit, Measure measure) {
    items_.push_back(std::make_unique<Item>(Item{std::move(label), unit, std::move(measure)}));
    return *items_.back();
}

/// An item is wanted for itself or as the yardstick of another one.
bool Rounds::wanted(const Item& item) const {
    const auto chosen = [&](const Item& one) {
        return one.label.find(session_.options.only) != std::string::npos;
    };
    return chosen(item) || std::ranges::any_of(items_, [&](const auto& other) {
               return other->yardstick == &item && chosen(*other);
           });
}

void Rounds::measure(Item& item) {
    session_.peer.meet();
    lateness_.share();
    const Samples samples = item.measure();
    session_.peer.meet();
    if (samples.empty()) return;
    append(&item.all, samples);
    item.medians.push_back(median(samples));
    if (const double late = lateness_.share(); is_set(late)) item.late.push_back(late);
}

Row Rounds::row_of(const Item& item) const {
    Row row = make_row(item.label, item.unit, item.all);
    row.target = item.target;
    row.ratio_target = item.ratio_target;
    row.model = item.model;
    if (item.yardstick != nullptr) row.ratio = ratio(item.medians, item.yardstick->medians);
    if (!item.late.empty()) row.late_share = median(item.late);
    return row;
}

void Rounds::run() {
    std::vector<Item*> chosen;
    for (const auto& item : items_) {
        if (wanted(*item)) chosen.push_back(item.get());
    }
    for (int round = 0; round < session_.options.rounds; ++round) {
        for (Item* item : chosen) measure(*item);
    }
    for (const auto& item : items_) {
        if (!item->all.empty()) session_.report(row_of(*item));
    }
}

}  // namespace softhca::bench
