// SPDX-License-Identifier: BSD-3-Clause
// The front end's one state per process: the adapter, made when first asked for, and who hears its
// events.
#pragma once

#include <string>

#include "settings.h"
#include "transport/adapter.h"
#include "verbs/objects.h"

namespace softhca {

/// The process's adapter, joined to the fabric on first use. nullptr if that is impossible; the
/// reason has been printed, once.
Adapter* adapter();

/// Whether an object's adapter was inherited over fork(): its verbs do nothing, the parent goes on
/// undisturbed.
inline bool inherited(ibv_context* context) {
    return adapter_of(context).inherited();
}

inline const FabricConfig& config_of(ibv_context* context) {
    return adapter_of(context).host().header().config;
}

/// Contexts that get asynchronous events.
void add_context(Context* context);
void remove_context(Context* context);

/// Asynchronous events of an object go to its context's queue and are counted against its
/// destruction.
void put_async_event(ibv_context* context, const ibv_async_event& event);

/// Whether memory that is shared already is to be reached by copying.
bool copies_shared_memory();

}  // namespace softhca
