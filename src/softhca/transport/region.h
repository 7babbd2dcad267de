// SPDX-License-Identifier: BSD-3-Clause
// Registering memory: publishing keys and taking them back.
#pragma once

#include <cstdint>

#include "fabric/backing_file.h"
#include "fabric/host.h"

namespace softhca {

class Adapter;

struct RegionAttributes {
    uint64_t address = 0;
    uint64_t length = 0;
    uint64_t iova = 0;
    uint32_t pd = 0;
    uint32_t access = 0;
    KeyKind kind = KeyKind::region;  ///< or a null region: `address` is that of what is behind it
};

/// Takes a table entry; 0 when there is none left.
uint32_t allocate_key(Adapter& adapter);
void release_key(Adapter& adapter, uint32_t index);
/// The next key for an entry: never one used for it before, as far as 8 bits go.
uint32_t next_key(Adapter& adapter, uint32_t index);

/// 0, or why this memory can't be registered: EFAULT when it isn't there or can't be written as
/// asked, ENOMEM when a fault asks for it.
int check_registration(Adapter& adapter, const RegionAttributes& attributes);
/// Returns when a registration of so many bytes that began at `begun` (ns) has taken the time that
/// the model says; the processor is busy meanwhile, as it is in a kernel that pins pages.
void delay_registration(Adapter& adapter, uint64_t begun, uint64_t bytes);
/// Fills the entry that `key` names and makes the key valid; returns it. `file`: how others may
/// map the memory.
uint32_t publish_region(Adapter& adapter, uint32_t key, const RegionAttributes& attributes,
                        const BackingFile& file);
/// Makes the key invalid; returns when nobody uses it any more.
void withdraw_region(Adapter& adapter, uint32_t index);
/// Makes a withdrawn key valid again.
void restore_region(Adapter& adapter, uint32_t key);

}  // namespace softhca
