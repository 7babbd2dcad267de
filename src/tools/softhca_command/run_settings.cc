// SPDX-License-Identifier: BSD-3-Clause
#include "tools/softhca_command/run_settings.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "tools/common/library.h"

namespace softhca {
namespace {

constexpr tools::Library kLibrary = {"libsofthca.so", "../softhca/.libs", SOFTHCA_LIBDIR, "../lib"};
constexpr int kExitCannotExecute = 126;
constexpr int kExitNotFound = 127;

}  // namespace

std::string check_settings(const SettingValues& values, Settings* settings) {
    for (size_t i = 0; i < kSettingCount; ++i) {
        const char* given = values[i];
        const char* inherited = std::getenv(kSettings[i].name);
        const char* value = given != nullptr ? given : inherited;
        if (value == nullptr || *value == '\0') value = kSettings[i].fallback;
        if (const auto reason = kSettings[i].set(*settings, value)) {
            const std::string source = given != nullptr ? "--" + option_name(kSettings[i])
                                                        : std::string(kSettings[i].name);
            return source + "=" + value + ": " + *reason;
        }
    }
    return {};
}

std::string export_settings(const SettingValues& values) {
    std::string error;
    const std::string library = tools::find_library(kLibrary, &error);
    if (library.empty()) return error;
    for (size_t i = 0; i < kSettingCount; ++i) {
        if (values[i] != nullptr) ::setenv(kSettings[i].name, values[i], 1);
    }
    const char* existing = std::getenv("LD_PRELOAD");
    ::setenv("LD_PRELOAD",
             tools::prepend_path(library, existing != nullptr ? existing : "").c_str(), 1);
    return {};
}

int become(char** command, std::string* error) {
    ::execvp(command[0], command);
    const int code = errno;
    *error = std::string(command[0]) + ": " + std::strerror(code);
    return code == ENOENT ? kExitNotFound : kExitCannotExecute;
}

}  // namespace softhca
