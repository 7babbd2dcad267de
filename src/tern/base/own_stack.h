// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>

namespace tern::base {

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

}  // namespace tern::base
