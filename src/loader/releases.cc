// SPDX-License-Identifier: BSD-3-Clause
#include "loader/releases.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <optional>

namespace tern::loader {
namespace {

using Numbers = std::array<unsigned, 3>;

std::optional<Numbers> numbers_of(const std::string& name) {
    Numbers numbers{};
    int length = 0;
    const int found =
        std::sscanf(name.c_str(), "%u.%u.%u%n", &numbers[0], &numbers[1], &numbers[2], &length);
    if (found != 3 || static_cast<size_t>(length) != name.size()) return std::nullopt;
    return numbers;
}

struct CloseFolder {
    void operator()(DIR* folder) const { ::closedir(folder); }
};

}  // namespace

std::string transport_path(const std::string& folder, const std::string& release) {
    return folder + "/" + release + "/libuct_tern.so.0";
}

std::vector<std::string> releases_in(const std::string& folder) {
    std::vector<std::string> releases;
    const std::unique_ptr<DIR, CloseFolder> entries(::opendir(folder.c_str()));
    if (entries == nullptr) return releases;
    while (const dirent* entry = ::readdir(entries.get())) {
        const std::string name = entry->d_name;
        if (numbers_of(name) && ::access(transport_path(folder, name).c_str(), R_OK) == 0)
            releases.push_back(name);
    }
    std::ranges::sort(releases, {}, numbers_of);
    return releases;
}

std::string text_of(const std::vector<std::string>& releases) {
    std::string text;
    for (size_t i = 0; i < releases.size(); ++i) {
        if (i != 0) text += i + 1 == releases.size() ? " and " : ", ";
        text += releases[i];
    }
    return text;
}

std::string misfit(const std::vector<std::string>& releases, const std::string& loaded) {
    const std::string prefix = "transport tern is not available: ";
    if (releases.empty())
        return prefix + "it is installed for no release of UCX; install it for " + loaded +
               " (configure --with-ucx=PREFIX)";
    return prefix + "it is installed for UCX " + text_of(releases) + ", and this is UCX " + loaded +
           "; build it for this one too (configure --with-ucx=PREFIX:PREFIX) or run with UCX " +
           releases.back();
}

}  // namespace tern::loader
