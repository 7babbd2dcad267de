// SPDX-License-Identifier: BSD-3-Clause
#include "nic_profiles.h"

#include <algorithm>

#include "common/assert.h"
#include "personality.h"

namespace softhca {
namespace {

using Error = std::optional<std::string>;

std::string quoted(std::string_view text) {
    return "'" + std::string(text) + "'";
}

// A file, line by line.
class Reader {
  public:
    explicit Reader(Model& model) : model_(model) {}

    Error line(std::string_view text) {
        text = trimmed(text.substr(0, text.find('#')));
        if (text.empty()) return std::nullopt;
        if (text.starts_with('[')) return begin_group(text);
        const ListEntry entry = entry_of(text);
        if (entry.key.empty() || entry.value.empty())
            return "wants [GROUP] or NAME = VALUE # SOURCE, not " + quoted(text);
        if (entry.key == "host") return begin_host();
        if (auto error = once(entry.key)) return error;
        if (auto error = entry.key == "personality" ? set_personality(entry.value)
                                                    : set_parameter(entry, model_.nic))
            return error;
        return check(entry.key);
    }

  private:
    Error once(std::string_view name) {
        if (std::ranges::count(seen_, name) != 0) return std::string(name) + " is there twice";
        if (seen_count_ < seen_.size()) seen_[seen_count_++] = name;
        return std::nullopt;
    }

    Error begin_group(std::string_view text) {
        const auto* group = std::ranges::find_if(kGroups, [text](std::string_view name) {
            return text == "[" + std::string(name) + "]";
        });
        if (group == kGroups.end())
            return "no group " + quoted(text) + "; choose from " + joined(kGroups);
        group_ = *group;
        return once(text);
    }

    // Where the group's values were measured, for readers of the file.
    Error begin_host() {
        if (group_.empty()) return "a host is of a group; choose from " + joined(kGroups);
        if (group_with_host_ == group_) return "a second host of group " + std::string(group_);
        group_with_host_ = group_;
        return std::nullopt;
    }

    Error set_personality(std::string_view value) {
        const size_t comma = std::min(value.find(','), value.size());
        auto named = find_personality(value.substr(0, comma));
        if (!named)
            return "no personality " + quoted(value) + "; choose from " + personality_names();
        model_.personality = value;
        return apply_rules(value.substr(comma), *named);
    }

    Error check(std::string_view name) const {
        const std::string_view group = softhca::group_of(name);
        if (group == group_) return std::nullopt;
        return std::string(name) +
               (group.empty() ? " must be above the groups" : " is of group " + std::string(group));
    }

    Model& model_;
    std::string_view group_;
    std::string_view group_with_host_;
    std::array<std::string_view, 64> seen_ = {};  // more than there are names
    size_t seen_count_ = 0;
};

struct Profile {
    std::string_view name;
    Model model;
};

// In static memory: what a simulation finds on the heap does not depend on the profiles.
std::span<const Profile> profiles() {
    static std::array<Profile, 16> all;
    static const size_t count = [] {
        TERN_ASSERT(model_texts().size() <= all.size());
        std::ranges::transform(model_texts(), all.begin(), [](const ModelText& text) {
            Profile profile{text.name, {}};
            [[maybe_unused]] const auto error = parse_model(text.text, profile.model);
            TERN_ASSERT(!error);
            return profile;
        });
        return model_texts().size();
    }();
    return std::span(all).first(count);
}

}  // namespace

std::optional<std::string> parse_model(std::string_view text, Model& model) {
    model = {};
    Reader reader(model);
    for (size_t number = 1; !text.empty(); ++number) {
        const size_t end = std::min(text.find('\n'), text.size());
        if (auto error = reader.line(text.substr(0, end)))
            return "line " + std::to_string(number) + ": " + *error;
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return std::nullopt;
}

const Model* find_model(std::string_view name) {
    for (const Profile& profile : profiles())
        if (name == profile.name) return &profile.model;
    return nullptr;
}

const NicParameters* find_profile(std::string_view name) {
    const Model* model = find_model(name);
    return model != nullptr ? &model->nic : nullptr;
}

std::string profile_names() {
    return joined(profiles(), &Profile::name);
}

}  // namespace softhca
