// SPDX-License-Identifier: BSD-3-Clause
// Object numbers. A number holds the process that owns the object, the object's index in that
// process's table, and a generation, so that the number of a destroyed object does not name its
// successor.
#pragma once

#include <cstdint>

namespace softhca {

constexpr uint32_t kProcessBits = 8;
constexpr uint32_t kMaxProcesses = 1u << kProcessBits;
constexpr uint32_t kObjectBits = 13;
constexpr uint32_t kMaxObjects = 1u << kObjectBits;  // of each kind, per process
constexpr uint32_t kKeyBits = 16;
constexpr uint32_t kMaxKeys = 1u << kKeyBits;  // memory regions and windows per process

// Numbers of queue pairs, shared receive queues and completion queues have 24 bits, like a QPN.
struct ObjectNumber {
    static constexpr uint32_t kGenerations = 8;
    static uint32_t make(uint32_t process, uint32_t index, uint32_t generation) {
        return process << 16 | index << 3 | generation % kGenerations;
    }
    static uint32_t process(uint32_t number) { return number >> 16 & (kMaxProcesses - 1); }
    static uint32_t index(uint32_t number) { return number >> 3 & (kMaxObjects - 1); }
};

// lkeys and rkeys. The low 8 bits are the generation, which the consumer chooses for type 2
// windows.
struct KeyNumber {
    static uint32_t make(uint32_t process, uint32_t index, uint8_t generation) {
        return process << 24 | index << 8 | generation;
    }
    static uint32_t process(uint32_t key) { return key >> 24; }
    static uint32_t index(uint32_t key) { return key >> 8 & (kMaxKeys - 1); }
};

}  // namespace softhca
