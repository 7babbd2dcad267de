// SPDX-License-Identifier: BSD-3-Clause
// State of the verbs layer, one for each process: the adapter, created on first use, and the
// contexts that receive its events.
#pragma once

#include "softhca/settings.h"
#include "softhca/transport/adapter.h"
#include "softhca/verbs/objects.h"

namespace softhca {

// The process's adapter; joins the fabric on first use. nullptr if that fails, with the reason
// printed once.
Adapter* adapter();
// The number of the fabric's devices, which asks for no place in it; 0 if that fails, likewise.
uint32_t device_count();

// In virtual time, the process has an adapter for each member of the fabric. From now on adapter()
// is that of this member. Members join in their order, 0 first. False if it cannot join.
bool select_member(uint32_t member);
// The adapter of a member that has been selected before; nullptr if there is none.
Adapter* member_adapter(uint32_t member);

// Whether an object's adapter was inherited over fork(): then verbs on the object have no effect,
// and the parent continues.
inline bool inherited(ibv_context* context) {
    return adapter_of(context).inherited();
}

inline const FabricConfig& config_of(ibv_context* context) {
    return adapter_of(context).host().header().config;
}

inline Faults& faults_of(ibv_context* context) {
    return adapter_of(context).host().header().faults;
}

inline const Personality& personality_of(ibv_context* context) {
    return adapter_of(context).host().personality();
}

// The context receives asynchronous events of ports and devices, until it is released.
void add_context(Context* context);

// ibv_fork_init() and ibv_is_fork_initialized().
int protect_forks();
ibv_fork_status fork_protection();

// Whether the device copies directly to memory that is shared already.
bool copies_shared_memory();

}  // namespace softhca
