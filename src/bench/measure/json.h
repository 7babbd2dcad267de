// SPDX-License-Identifier: BSD-3-Clause
// JSON, as far as results need it.
#pragma once

#include <string>
#include <string_view>

namespace bench {

std::string quoted_json(std::string_view text);

/// One object, built member by member.
class JsonObject {
  public:
    void add(std::string_view key, std::string_view text) { add_raw(key, quoted_json(text)); }
    void add(std::string_view key, const char* text) { add(key, std::string_view(text)); }
    void add(std::string_view key, bool value) { add_raw(key, value ? "true" : "false"); }
    /// Left out if it is kNone.
    void add(std::string_view key, double number);
    /// `value` is JSON already.
    void add_raw(std::string_view key, std::string_view value);
    std::string take() { return std::move(text_) + "}"; }

  private:
    std::string text_ = "{";
};

/// A list, one entry a line.
class JsonList {
  public:
    void add_raw(std::string_view value) {
        text_.append(text_.size() > 1 ? ",\n" : "\n").append(value);
    }
    std::string take() { return std::move(text_) + "\n]"; }

  private:
    std::string text_ = "[";
};

}  // namespace bench
