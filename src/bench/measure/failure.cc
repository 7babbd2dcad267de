// SPDX-License-Identifier: BSD-3-Clause
#include "bench/measure/failure.h"

#include <cerrno>
#include <cstring>

namespace bench {

Failure call_failed(const std::string& what) {
    return Failure(what + ": " + std::strerror(errno));
}

}  // namespace bench
