// SPDX-License-Identifier: BSD-3-Clause
// The numbers that messages carry.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

namespace bench {

// The word at the end of a message written by RDMA, by which the receiver recognises the message.
constexpr uint32_t kWord = sizeof(uint64_t);

inline std::atomic_ref<uint64_t> word_at(char* memory) {
    return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(memory));
}

// A message that is not recognised by its end begins and ends with its number, or with as many
// bytes of it as the message has.
inline void mark(char* message, uint32_t size, uint64_t number) {
    if (size < kWord) {
        std::memcpy(message, &number, size);
        return;
    }
    std::memcpy(message, &number, kWord);
    std::memcpy(message + size - kWord, &number, kWord);
}
inline bool is_marked(const char* message, uint32_t size, uint64_t number) {
    if (size < kWord) return std::memcmp(message, &number, size) == 0;
    return std::memcmp(message, &number, kWord) == 0 &&
           std::memcmp(message + size - kWord, &number, kWord) == 0;
}

// The end of a message written by RDMA, which the receiver polls: the last word or, if the message
// is shorter than that, the last byte, with the number of the message. A number comes again in a
// byte: clear it before the first message of an order.
class Tail {
  public:
    Tail(char* message, uint32_t size)
        : is_byte_(size < kWord), memory_(message + size - (is_byte_ ? 1 : kWord)) {}
    void store(uint64_t number) {
        if (is_byte_) return byte().store(static_cast<uint8_t>(number), std::memory_order_relaxed);
        word_at(memory_).store(number, std::memory_order_relaxed);
    }
    bool has(uint64_t number) {
        if (is_byte_) return byte().load(std::memory_order_acquire) == static_cast<uint8_t>(number);
        return word_at(memory_).load(std::memory_order_acquire) == number;
    }

  private:
    std::atomic_ref<uint8_t> byte() {
        return std::atomic_ref<uint8_t>(*reinterpret_cast<uint8_t*>(memory_));
    }

    bool is_byte_;
    char* memory_;
};

}  // namespace bench
