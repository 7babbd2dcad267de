// SPDX-License-Identifier: BSD-3-Clause
// Whether the address space of another process still has threads. A process id does not tell this:
// threads survive the first one of their process, a program may be replaced by exec(), and ids are
// used again.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace softhca {

// A random number at an address of a process, by which other processes recognize its address
// space.
struct Witness {
    uint64_t address = 0;
    uint64_t value = 0;
};

// A witness whose value is *value, which it sets.
Witness make_witness(uint64_t* value);

// Whether a thread of process `pid` may still use the address space that has the witness: run in
// it, or copy to or from it. A process that cannot be inspected counts until it ends. Takes several
// system calls.
bool address_space_in_use(pid_t pid, const Witness& witness);

}  // namespace softhca
