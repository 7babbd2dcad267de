// SPDX-License-Identifier: BSD-3-Clause
// Registers memory: publishes keys and withdraws them.
#pragma once

#include <cstdint>
#include <functional>

#include "softhca/fabric/backing_file.h"
#include "softhca/fabric/host.h"

namespace softhca {

class Adapter;

struct RegionAttributes {
    uint64_t address = 0;
    uint64_t length = 0;
    uint64_t iova = 0;
    uint32_t pd = 0;
    uint32_t access = 0;
    KeyKind kind = KeyKind::kRegion;  // of a null region, `address` is that of its zeros
};

// Allocates an entry of the key table; 0 if all are in use.
uint32_t allocate_key(Adapter& adapter);
void release_key(Adapter& adapter, uint32_t index);
// A new key for an entry, of the next generation (8 bits).
uint32_t next_key(Adapter& adapter, uint32_t index);
// The key of a new region. Some devices give a new region the key of a deregistered one.
uint32_t region_key(Adapter& adapter, uint32_t index);

// 0, or why the memory cannot be registered: EFAULT if it does not exist or is not writable as
// asked, ENOMEM by a fault or the limit of locked memory.
int check_registration(Adapter& adapter, const RegionAttributes& attributes);
// Waits until a registration of `bytes` that began at `begun` (ns) has taken its modeled time.
// Occupies the processor, as pinning in the kernel does.
void delay_registration(Adapter& adapter, uint64_t begun, uint64_t bytes);
// Fills the entry of `key`, makes the key valid and returns it. `file`: how other processes can
// map the memory.
uint32_t publish_region(Adapter& adapter, uint32_t key, const RegionAttributes& attributes,
                        const BackingFile& file);
// Makes the key invalid, and waits for accesses to end; unless bound() finds a window that is bound
// to the region: then false, and the key has been valid all the time.
bool withdraw_region(Adapter& adapter, uint32_t index, const std::function<bool()>& bound);
// Makes the keys of all regions of private memory invalid, without waiting: after a fork the device
// may have other pages than the process.
void lose_private_regions(Adapter& adapter);

}  // namespace softhca
