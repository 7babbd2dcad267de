// SPDX-License-Identifier: BSD-3-Clause
// Start-up: how a process learns its rank, the number of processes, and their addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "rwapi/include/rwapi.h"

namespace rwapi {

// The functions return 0 or an RWAPI_ERR_*; whoever detects an error has logged it.
class Bootstrap {
  public:
    Bootstrap() = default;
    Bootstrap(const Bootstrap&) = delete;
    Bootstrap& operator=(const Bootstrap&) = delete;
    virtual ~Bootstrap() = default;

    virtual uint32_t rank() const = 0;
    virtual uint32_t size() const = 0;

    // Collective: offers the address of this process, and returns when all have. Once only.
    virtual int publish(std::span<const std::byte> mine) = 0;
    // Gets the address that `node` has published, after publish(). Asks the launcher at each call.
    virtual int lookup(uint32_t node, std::vector<std::byte>& address) = 0;
    // Collective: returns when all processes have called it.
    virtual int barrier() = 0;
};

// The start-up by `table`, or if that is null, by the launcher that the environment names: PMI-1
// by a socket, PMIx, PMI-1 by a port, otherwise a job of one process. Null: not possible, `error`
// says why.
std::unique_ptr<Bootstrap> make_bootstrap(const rwapi_bootstrap* table, int& error);

}  // namespace rwapi
