// SPDX-License-Identifier: BSD-3-Clause
// How late the software HCA's fabric was against its timing model, seen from outside.
#pragma once

#include <cstdint>
#include <memory>

namespace softhca {
class FabricView;
}

namespace bench {

class LatenessWatch {
  public:
    /// Watches the fabric that the environment names, if there is one.
    LatenessWatch();
    ~LatenessWatch();

    /// Share of the operations since the last call that were late, 0..1; kNone if there were none.
    double share();

  private:
    std::unique_ptr<softhca::FabricView> fabric_;
    uint64_t operations_ = 0;
    uint64_t late_ = 0;
};

}  // namespace bench
