// SPDX-License-Identifier: BSD-3-Clause
// A launcher starts the processes of a job, exchanges their addresses, and has barriers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace rwapi {

constexpr size_t kMaxAddress = 65536;  // bytes of an address

// A process's connection to its launcher. The functions return 0 or an RWAPI_ERR_*, which they have
// logged.
class Launcher {
  public:
    Launcher() = default;
    Launcher(const Launcher&) = delete;
    Launcher& operator=(const Launcher&) = delete;
    virtual ~Launcher() = default;

    virtual uint32_t rank() const = 0;
    virtual uint32_t size() const = 0;
    // Publishes an address under a number that was not used before. Peers get it after a barrier.
    virtual int put(uint32_t number, std::span<const std::byte> address) = 0;
    // node < size().
    virtual int get(uint32_t number, uint32_t node, std::vector<std::byte>& address) = 0;
    // RWAPI_ERR_PEER: processes have ended.
    virtual int barrier() = 0;
    // Leaves the job; without this, the launcher treats the end of the process as a failure. Does
    // nothing while another thread is in a call.
    virtual void finish() = 0;
};

// Whether the environment names a launcher of each kind, and the connection to it; null: it has
// failed, which has been logged. PMI-1 by a socket that is open and whose number is in PMI_FD:
// MPICH's mpiexec.hydra.
bool pmi1_offered();
std::unique_ptr<Launcher> connect_pmi1();
// PMIx: Open MPI's mpirun, prterun, Slurm.
bool pmix_offered();
std::unique_ptr<Launcher> connect_pmix();

}  // namespace rwapi
