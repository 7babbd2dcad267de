// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "common/ucx/resources.h"

namespace rwapi {

// A memory domain of UCT, which all contexts of the process share that use the same device. Memory
// that several of them register for the same use is registered once. For any thread.
class SharedDomain {
  public:
    // The domain of the resource, which is opened if no context has it. Null: UCT cannot.
    static std::shared_ptr<SharedDomain> open(const Resource& resource);
    // Contexts from now on share no domain with those before: a simulation has several hosts in one
    // process.
    static void forget();

    explicit SharedDomain(Domain domain) : domain_(std::move(domain)) {}

    // For the registrations of single operations, which are not shared, and need no lock: UCP's
    // workers, too, register in the same domain from several threads.
    uct_md_h get() const { return domain_.get(); }

    // Registers memory, or counts one more user of its registration (`shared`). flags: UCT's.
    ucs_status_t add(std::byte* memory, uint64_t length, unsigned flags, uct_mem_h& registered,
                     bool& shared);
    // Takes back one add() with these arguments.
    void remove(const std::byte* memory, uint64_t length, unsigned flags);
    // Packs the key of what add() has registered.
    ucs_status_t pack_key(uct_mem_h registered, std::byte* to);

  private:
    using Use = std::tuple<const std::byte*, uint64_t, unsigned>;  // length, flags
    struct Registration {
        uct_mem_h registered;
        uint32_t users;
    };

    const Domain domain_;
    std::mutex mutex_;
    std::map<Use, Registration> registrations_;
};

}  // namespace rwapi
