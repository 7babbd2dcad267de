// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/bootstrap/pmi1_message.h"

#include <algorithm>
#include <charconv>

namespace rwapi {
namespace {

constexpr size_t kLengthDigits = 8;  // of the address's length, in the first value
constexpr size_t kMaxWords = 64;

void append_hex(uint64_t number, size_t digits, std::string* text) {
    for (size_t i = digits; i-- > 0;) text->push_back("0123456789abcdef"[(number >> (4 * i)) & 15]);
}

std::optional<unsigned> parse_hex(std::string_view text) {
    unsigned number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return number;
}

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

std::vector<std::string> encode_values(std::span<const std::byte> address, size_t max_value) {
    std::vector<std::string> values(1);
    append_hex(address.size(), kLengthDigits, &values.back());
    for (const std::byte byte : address) {
        if (values.back().size() + 2 > max_value) values.emplace_back();
        append_hex(std::to_integer<unsigned>(byte), 2, &values.back());
    }
    return values;
}

bool ValueDecoder::take(std::string_view value) {
    if (complete()) return false;
    if (!started_) {
        const auto length = parse_hex(value.substr(0, kLengthDigits));
        if (value.size() < kLengthDigits || !length || *length > kMaxAddress) return false;
        length_ = *length;
        started_ = true;
        value.remove_prefix(kLengthDigits);
    } else if (value.empty()) {
        return false;
    }
    if (value.size() % 2 != 0 || value.size() / 2 > length_ - address_.size()) return false;
    for (; !value.empty(); value.remove_prefix(2)) {
        const auto byte = parse_hex(value.substr(0, 2));
        if (!byte) return false;
        address_.push_back(static_cast<std::byte>(*byte));
    }
    return true;
}

}  // namespace rwapi
