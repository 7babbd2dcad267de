// SPDX-License-Identifier: BSD-3-Clause
#include "bench/measure/program.h"

#include <unistd.h>

#include <climits>

#include "bench/measure/failure.h"

namespace bench {

std::string program_path() {
    char path[PATH_MAX];
    const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
    if (length <= 0) throw call_failed("/proc/self/exe");
    return {path, static_cast<size_t>(length)};
}

std::string program_beside(const std::string& name) {
    const std::string self = program_path();
    const std::string path = self.substr(0, self.rfind('/') + 1) + name;
    return ::access(path.c_str(), X_OK) == 0 ? path : std::string();
}

}  // namespace bench
