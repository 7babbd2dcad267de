// SPDX-License-Identifier: BSD-3-Clause
// Object numbers. Each holds the process that owns the object, its index in that process's table,
// and a generation, so that a number of an object that is gone is not taken for its successor's.
#pragma once

#include <cstdint>

namespace softhca {

constexpr uint32_t kProcessBits = 8;
constexpr uint32_t kMaxProcesses = 1u << kProcessBits;
constexpr uint32_t kObjectBits = 13;
constexpr uint32_t kMaxObjects =
    1u << kObjectBits;  ///< queue pairs, SRQs, CQs: of each kind, per process
constexpr uint32_t kKeyBits = 16;
constexpr uint32_t kMaxKeys = 1u << kKeyBits;  ///< memory regions and windows per process

/// Queue pairs, shared receive queues and completion queues: 24 bits, as a queue pair number has.
struct ObjectNumber {
    static constexpr uint32_t kGenerations = 8;
    static uint32_t make(uint32_t process, uint32_t index, uint32_t generation) {
        return process << 16 | index << 3 | generation % kGenerations;
    }
    static uint32_t process(uint32_t number) { return number >> 16 & (kMaxProcesses - 1); }
    static uint32_t index(uint32_t number) { return number >> 3 & (kMaxObjects - 1); }
};

/// lkeys and rkeys: the low 8 bits are the generation, which for type 2 windows is the consumer's
/// to choose.
struct KeyNumber {
    static uint32_t make(uint32_t process, uint32_t index, uint8_t generation) {
        return process << 24 | index << 8 | generation;
    }
    static uint32_t process(uint32_t key) { return key >> 24; }
    static uint32_t index(uint32_t key) { return key >> 8 & (kMaxKeys - 1); }
};

}  // namespace softhca
