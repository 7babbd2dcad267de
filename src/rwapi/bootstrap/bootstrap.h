// SPDX-License-Identifier: BSD-3-Clause
// Start-up: the rank of a process, the number of processes, and the exchange of their addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "rwapi/include/rwapi.h"

namespace rwapi {

// The functions return 0 or an RWAPI_ERR_*, which has been logged.
class Bootstrap {
  public:
    Bootstrap() = default;
    Bootstrap(const Bootstrap&) = delete;
    Bootstrap& operator=(const Bootstrap&) = delete;
    virtual ~Bootstrap() = default;

    virtual uint32_t rank() const = 0;
    virtual uint32_t size() const = 0;

    // Collective: publishes the address of this process, and returns when all processes have
    // published theirs. Called once.
    virtual int publish(std::span<const std::byte> mine) = 0;
    // Gets the address that `node` has published. Each call sends a request to the launcher.
    // Called after publish().
    virtual int lookup(uint32_t node, std::vector<std::byte>& address) = 0;
    // Collective: begins a barrier, which is over when all processes have begun it.
    virtual int begin_barrier() = 0;
    // Of the barrier that was begun. 1: it is over; 0: not yet; RWAPI_ERR_PEER: it is over for
    // those that live; another error: it never will be.
    virtual int test_barrier() = 0;
};

// The start-up by the user's table. If `table` is null: by the launcher that the environment names
// (PMI-1 by a socket, or PMIx, in this order); without one, a job of one process.
// Null: it has failed, and `error` is set.
std::unique_ptr<Bootstrap> make_bootstrap(const rwapi_bootstrap* table, int& error);
std::unique_ptr<Bootstrap> make_table_bootstrap(const rwapi_bootstrap& table, int& error);

}  // namespace rwapi
