// SPDX-License-Identifier: BSD-3-Clause
// What the fuzz targets share. A target is a file with LLVMFuzzerTestOneInput(), which libFuzzer
// calls with each input; docs/tern/reliability.md describes them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace tern::fuzz {

// A rule is broken: libFuzzer stops, and keeps the input.
[[noreturn]] inline void broken(const std::string& rule) {
    std::fprintf(stderr, "broken: %s\n", rule.c_str());
    std::abort();
}

inline void require(bool holds, const char* rule) {
    if (!holds) [[unlikely]]
        broken(rule);
}

// For the worlds of the unit tests, which have an empty text if no rule is broken.
inline void require_nothing(const std::string& wrong) {
    if (!wrong.empty()) broken(wrong);
}

// An input, taken from its front. What it does not have is zero.
class Input {
  public:
    Input(const uint8_t* data, size_t size) : left_(data, size) {}

    bool empty() const { return left_.empty(); }

    template <typename T>
    T take() {
        static_assert(std::is_trivially_copyable_v<T>);
        T value{};
        const auto bytes = take_bytes(sizeof value);
        memcpy(static_cast<void*>(&value), bytes.data(), bytes.size());
        return value;
    }
    // `limit`: at most 256.
    uint32_t below(uint32_t limit) { return take<uint8_t>() % limit; }
    bool chance(uint32_t of) { return below(of) == 0; }
    // A number that is often small, or close to a power of two.
    uint64_t number() {
        const auto kind = take<uint8_t>();
        if (kind < 128) return kind;
        if (kind < 192) return take<uint16_t>();
        if (kind < 255) return (uint64_t{1} << (kind & 63)) + static_cast<uint64_t>(take<int8_t>());
        return take<uint64_t>();
    }

    // At most `size` bytes.
    std::span<const std::byte> take_bytes(size_t size) {
        const auto bytes = left_.first(std::min(size, left_.size()));
        left_ = left_.subspan(bytes.size());
        return std::as_bytes(bytes);
    }
    std::span<const std::byte> rest() { return take_bytes(left_.size()); }
    std::string_view text() {
        const auto bytes = rest();
        return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }

  private:
    std::span<const uint8_t> left_;
};

}  // namespace tern::fuzz
