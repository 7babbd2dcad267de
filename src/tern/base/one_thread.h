// SPDX-License-Identifier: BSD-3-Clause
// Checks, in debug builds, that an object is used by one thread at a time. Which thread may change,
// as with UCX's serialized workers.
#pragma once

#include "common/assert.h"

#if defined(TERN_ENABLE_ASSERT) && TERN_ENABLE_ASSERT
#include <atomic>
#include <thread>
#endif

namespace tern::base {

class OneThread {
  public:
#if defined(TERN_ENABLE_ASSERT) && TERN_ENABLE_ASSERT
    // The thread is within the object for the life of a Scope. Scopes of one thread may nest.
    class Scope {
      public:
        explicit Scope(OneThread& object) : object_(object) {
            std::thread::id outside;
            const auto self = std::this_thread::get_id();
            outermost_ = object.inside_.compare_exchange_strong(outside, self);
            TERN_ASSERT(outermost_ || outside == self);
        }
        ~Scope() {
            if (outermost_) object_.inside_.store(std::thread::id());
        }
        Scope(const Scope&) = delete;
        Scope& operator=(const Scope&) = delete;

      private:
        OneThread& object_;
        bool outermost_;
    };
#else
    class Scope {
      public:
        explicit Scope(OneThread&) {}
        ~Scope() {}
    };
#endif

    // For a part of the object that has functions of its own: `guarded->function()` runs within a
    // Scope.
    template <class T>
    class Guarded {
      public:
        Guarded(OneThread& object, T& part) : scope_(object), part_(part) {}
        T* operator->() const { return &part_; }

      private:
        [[no_unique_address]] const Scope scope_;
        T& part_;
    };

#if defined(TERN_ENABLE_ASSERT) && TERN_ENABLE_ASSERT
  private:
    std::atomic<std::thread::id> inside_;
#endif
};

}  // namespace tern::base
