// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/model_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "softhca/core/nic_profiles.h"

namespace softhca {
namespace {

// An error text if there is no such file, or it is not one of a few lines.
std::optional<std::string> read_file(const std::string& path, std::string& text) {
    constexpr uintmax_t kMaxBytes = 64 * 1024;
    std::error_code error;
    const uintmax_t bytes = std::filesystem::file_size(path, error);
    if (error) return "cannot read '" + path + "': " + error.message();
    if (bytes > kMaxBytes) return "'" + path + "' is longer than 64 KiB: is it a model file?";
    text.resize(bytes);
    if (!std::ifstream(path).read(text.data(), static_cast<std::streamsize>(bytes)))
        return "cannot read '" + path + "'";
    return std::nullopt;
}

}  // namespace

std::optional<std::string> apply_model(std::string_view value, NicParameters& nic,
                                       std::string& personality) {
    NicParameters changed = nic;
    std::string text;
    Model model;
    const bool has_file = value.starts_with('@');
    if (has_file) {
        const size_t comma = std::min(value.find(','), value.size());
        const std::string path(trimmed(value.substr(1, comma - 1)));
        value.remove_prefix(comma);
        if (auto error = read_file(path, text)) return error;
        if (auto error = parse_model(text, model)) return path + ", " + *error;
        changed = model.nic;
    }
    if (auto error = apply_model_overrides(value, changed)) return error;
    nic = changed;
    if (has_file) personality = model.personality;
    return std::nullopt;
}

}  // namespace softhca
