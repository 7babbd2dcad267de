// SPDX-License-Identifier: BSD-3-Clause
#include "failure.h"

#include <cerrno>
#include <cstring>

namespace softhca::bench {

Failure call_failed(const std::string& what) {
    return Failure(what + ": " + std::strerror(errno));
}

}  // namespace softhca::bench
