// SPDX-License-Identifier: BSD-3-Clause
// Streams of writes.
#include "bench/measure/exchange.h"

namespace bench {
namespace {

constexpr uint32_t kWindow = 8;  // outstanding requests

// Records when messages are done, several at a time. The first ones are left out, because they
// complete unpolled while the first window is posted.
class Pace {
  public:
    void done(int messages) {
        if (messages == 0) return;
        all_ += static_cast<uint64_t>(messages);
        last_ = now_ns();
        if (all_ > kWindow && first_ == 0) {
            first_ = last_;
            before_ = all_;
        }
    }
    double spacing() const {
        return static_cast<double>(last_ - first_) / 1000 / static_cast<double>(all_ - before_);
    }

  private:
    uint64_t all_ = 0;
    uint64_t before_ = 0;
    uint64_t first_ = 0;
    uint64_t last_ = 0;
};

}  // namespace

Samples message_spacings(Link& link, const Order& order) {
    Samples samples;
    for (uint64_t burst = 0; burst < order.count; ++burst) {
        Pace pace;
        const auto reap_until = [&](uint32_t outstanding) {
            wait_until(
                "completions", [&] { return link.outstanding() <= outstanding; },
                [&] { pace.done(link.reap()); });
        };
        for (uint64_t i = 0; i < order.per_sample; ++i) {
            reap_until(kWindow - 1);
            link.write(place_of(i, order.size, kWindow, link.half()), order.size);
        }
        reap_until(0);
        samples.push_back(pace.spacing());
    }
    return samples;
}

}  // namespace bench
