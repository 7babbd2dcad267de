// SPDX-License-Identifier: BSD-3-Clause
// Tells who packs a key of declared memory: UCP, for a message of its own, or the program. No
// argument of UCT's function distinguishes them, and remote access depends on it: memory is opened
// to peers when the program packs its key. A key of UCP's is of one message; the transfer of the
// message pins what it needs, so such memory is not opened.
//
// What the rule assumes:
// - Up to UCX 1.14: UCP asks for the right to atomic operations only for memory that a program maps
//   (ucp_mem_map).
// - From 1.15 on: UCP packs a message's key in the pack callback of the message, which the
//   transport calls itself and marks in the thread (PackingMessage).
// - From 1.16 on, UCP packs a short request to send before it calls the transport: on the stack,
//   within kStackBytes above the frame of the function that packs the key, and with the address of
//   the message. Keys of programs are packed into memory that UCP has allocated, which may lie
//   there too: above the stack of a thread, or in the same heap as that of a user-level thread. So
//   the place must be in the thread's own stack.
//
// When the rule is wrong:
// - A program's key is taken for UCP's: the memory is not opened. Puts and gets still work, as
//   transfers, which need the progress of the owner; atomic operations fail with an error. The
//   memory may be read by an rkey of its pin, which permits reads only.
// - A key of UCP's is taken for a program's: all of the memory is registered, which takes the time
//   that the transfer would have saved, and peers that have the key can read and write the memory
//   until its declaration ends. The message is not copied early. So it is with short requests to
//   send of user-level threads, which have other stacks.
//
// UCX_TERN_OPEN_ALL_KEYS=y avoids the first error: every key counts as a program's.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>

#include "tern/pinning/regions/regions.h"

namespace tern {

enum class KeyOwner : uint8_t { kUcp, kProgram };

// The message that this thread packs, if any.
enum class Packer : uint8_t { kNone, kRequestToSend, kOtherMessage };
extern constinit thread_local Packer packer __attribute__((tls_model("initial-exec")));

// Marks the thread while a pack callback of UCP's runs.
class PackingMessage {
  public:
    explicit PackingMessage(Packer what) { packer = what; }
    ~PackingMessage() { packer = Packer::kNone; }
    PackingMessage(const PackingMessage&) = delete;
    PackingMessage& operator=(const PackingMessage&) = delete;
};

// The rule up to 1.14. `access`: the rights that the memory was declared with.
inline KeyOwner owner_by_rights(unsigned access) {
    return (access & kRemoteAtomic) != 0 ? KeyOwner::kProgram : KeyOwner::kUcp;
}

constexpr uintptr_t kStackBytes = 16 << 10;  // bytes; UCP's message is at most UCS_ALLOCA_MAX_SIZE

// Whether an address lies in the stack that the C library has given to this thread. A user-level
// thread runs on another one. Looked up once in each thread.
inline bool in_own_stack(const void* address) {
    struct Range {
        uintptr_t start;
        uintptr_t size;
        bool known;
    };
    static constinit thread_local Range stack{};
    if (!stack.known) {
        pthread_attr_t attributes;
        if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
            void* start = nullptr;
            size_t size = 0;
            if (pthread_attr_getstack(&attributes, &start, &size) == 0)
                stack = {reinterpret_cast<uintptr_t>(start), size, false};
            pthread_attr_destroy(&attributes);
        }
        stack.known = true;
    }
    return reinterpret_cast<uintptr_t>(address) - stack.start < stack.size;
}

// The rule from 1.15 on. `marked`: of this thread. `key`: where the key is packed. `frame`: the
// frame of the function that packs it. `memory`: the address that the key is for, as the caller has
// named it; null in 1.15, and from UCT's older function, which other programs than UCP use.
inline KeyOwner owner_by_place(Packer marked, const void* key, const void* frame,
                               const void* memory) {
    if (marked != Packer::kNone) return KeyOwner::kUcp;
    const auto above = reinterpret_cast<uintptr_t>(key) - reinterpret_cast<uintptr_t>(frame);
    return memory != nullptr && above < kStackBytes && in_own_stack(key) ? KeyOwner::kUcp
                                                                         : KeyOwner::kProgram;
}

}  // namespace tern
