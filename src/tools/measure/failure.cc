// SPDX-License-Identifier: BSD-3-Clause
#include "tools/measure/failure.h"

#include <cerrno>
#include <cstring>

namespace measure {

Failure call_failed(const std::string& what) {
    return Failure(what + ": " + std::strerror(errno));
}

}  // namespace measure
