// SPDX-License-Identifier: BSD-3-Clause
// The wire format of PMI-1, the protocol between MPICH's launchers and the processes that they
// start. A message is a line of words NAME=value; the first word is cmd=NAME. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rwapi/bootstrap/launcher.h"

namespace rwapi {

// Lengths in bytes that all known launchers accept.
constexpr size_t kPmi1MaxLine = 8192;
constexpr size_t kPmi1MaxValue = 4096;

// Parses a decimal number. Nothing: it is not a number, or is out of bounds.
std::optional<int> parse_number(std::string_view text, int min, int max);

// A received message. It has a copy of its text.
class Pmi1Message {
  public:
    // Parses a line without its newline. Nothing: the line is not a message.
    static std::optional<Pmi1Message> parse(std::string_view line);

    std::string_view command() const { return words_.front().second; }
    // The value of a word; nothing if the message has no such word.
    std::optional<std::string_view> text(std::string_view name) const;
    // The value of a word as a number; nothing if there is none, or it is out of bounds.
    std::optional<int> number(std::string_view name, int min, int max) const;

  private:
    std::vector<std::pair<std::string, std::string>> words_;
};

// Splits a byte stream into lines. It stores at most one incomplete line.
class LineBuffer {
  public:
    // False: a line is too long, and next() returns nothing from now on.
    bool append(std::string_view bytes);
    // The next complete line, without its newline.
    std::optional<std::string> next();

  private:
    std::string bytes_;
    bool broken_ = false;
};

// An address as a value of a key-value space, which cannot have binary data: hexadecimal digits.
std::string encode_value(std::span<const std::byte> address);
// False: encode_value() cannot have made this value; the address stays as it was.
bool decode_value(std::string_view value, std::vector<std::byte>& address);

}  // namespace rwapi
