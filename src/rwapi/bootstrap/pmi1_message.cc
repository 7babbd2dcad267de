// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/bootstrap/pmi1_message.h"

#include <algorithm>
#include <charconv>

namespace rwapi {
namespace {

constexpr size_t kMaxWords = 64;

}  // namespace

std::optional<int> parse_number(std::string_view text, int min, int max) {
    int number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    if (number < min || number > max) return std::nullopt;
    return number;
}

std::optional<Pmi1Message> Pmi1Message::parse(std::string_view line) {
    Pmi1Message message;
    if (line.find('\0') != std::string_view::npos) return std::nullopt;
    while (!line.empty()) {
        const std::string_view word = line.substr(0, line.find(' '));
        line.remove_prefix(std::min(line.size(), word.size() + 1));
        if (word.empty()) continue;
        const size_t equals = word.find('=');
        if (equals == 0 || equals == std::string_view::npos) return std::nullopt;
        const std::string_view name = word.substr(0, equals);
        if (message.text(name) || message.words_.size() == kMaxWords) return std::nullopt;
        message.words_.emplace_back(name, word.substr(equals + 1));
    }
    if (message.words_.empty() || message.words_.front().first != "cmd") return std::nullopt;
    return message;
}

std::optional<std::string_view> Pmi1Message::text(std::string_view name) const {
    for (const auto& [word, value] : words_) {
        if (word == name) return value;
    }
    return std::nullopt;
}

std::optional<int> Pmi1Message::number(std::string_view name, int min, int max) const {
    const auto value = text(name);
    return value ? parse_number(*value, min, max) : std::nullopt;
}

bool LineBuffer::append(std::string_view bytes) {
    if (broken_) return false;
    bytes_.append(bytes);
    size_t start = 0;
    for (size_t end; (end = bytes_.find('\n', start)) != std::string::npos; start = end + 1) {
        if (end - start > kPmi1MaxLine) broken_ = true;
    }
    if (bytes_.size() - start > kPmi1MaxLine) broken_ = true;
    if (broken_) bytes_.clear();
    return !broken_;
}

std::optional<std::string> LineBuffer::next() {
    const size_t end = bytes_.find('\n');
    if (end == std::string::npos) return std::nullopt;
    std::string line = bytes_.substr(0, end);
    bytes_.erase(0, end + 1);
    return line;
}

std::string encode_value(std::span<const std::byte> address) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string value;
    for (const std::byte byte : address) {
        value.push_back(kDigits[std::to_integer<size_t>(byte >> 4)]);
        value.push_back(kDigits[std::to_integer<size_t>(byte & std::byte{15})]);
    }
    return value;
}

bool decode_value(std::string_view value, std::vector<std::byte>& address) {
    std::vector<std::byte> decoded;
    if (value.empty() || value.size() % 2 != 0 || value.size() / 2 > kMaxAddress) return false;
    for (; !value.empty(); value.remove_prefix(2)) {
        unsigned byte = 0;
        const auto [end, error] = std::from_chars(value.data(), value.data() + 2, byte, 16);
        if (error != std::errc() || end != value.data() + 2) return false;
        decoded.push_back(static_cast<std::byte>(byte));
    }
    address = std::move(decoded);
    return true;
}

}  // namespace rwapi
