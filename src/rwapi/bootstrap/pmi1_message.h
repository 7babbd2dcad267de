// SPDX-License-Identifier: BSD-3-Clause
// The wire format of PMI-1, the protocol between MPICH's launchers and the processes that they
// start: lines of words NAME=value, the first of which is cmd=NAME. Pure; for the client in the
// library and for the server in rwapi-run.
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

// Lengths in bytes, with which every launcher that we know gets along.
constexpr size_t kPmi1MaxLine = 8192;
constexpr size_t kPmi1MaxValue = 4096;
constexpr size_t kPmi1MinValue = 32;

// Parses a decimal number. Nothing: it is no number, or out of bounds.
std::optional<int> parse_number(std::string_view text, int min, int max);

// A message that has been received, with text of its own.
class Pmi1Message {
  public:
    // Takes a line without its newline. Nothing: it breaks the format.
    static std::optional<Pmi1Message> parse(std::string_view line);

    std::string_view command() const { return words_.front().second; }
    // The value of a word; nothing if the message has no such word.
    std::optional<std::string_view> text(std::string_view name) const;
    // The same as a number; nothing also if it is none or out of bounds.
    std::optional<int> number(std::string_view name, int min, int max) const;

  private:
    std::vector<std::pair<std::string, std::string>> words_;
};

// Puts together the lines of a byte stream. It holds at most one line that is not complete.
class LineBuffer {
  public:
    // False: a line is too long, and no line comes any more.
    bool append(std::string_view bytes);
    // The next complete line, without its newline.
    std::optional<std::string> next();

  private:
    std::string bytes_;
    bool broken_ = false;
};

// An address as values of a key-value space, which hold no binary data and have a maximum length:
// hexadecimal digits, after the length in the first value. The maximum is at least kPmi1MinValue.
std::vector<std::string> encode_values(std::span<const std::byte> address, size_t max_value);

// Puts an address together from its values in order, which may hold anything.
class ValueDecoder {
  public:
    // False: this value is not what encode_values() gives.
    bool take(std::string_view value);
    // Whether the address is complete; without it, another value must follow.
    bool complete() const { return started_ && address_.size() == length_; }
    std::vector<std::byte>& address() { return address_; }

  private:
    std::vector<std::byte> address_;
    size_t length_ = 0;
    bool started_ = false;
};

}  // namespace rwapi
