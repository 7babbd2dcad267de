// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tern/pinning/cache/pin_cache.h"
#include "tern/rendezvous/rendezvous.h"
#include "tern/tupleq/xrc/owner.h"

namespace tern {

// The objects of the interface that direct messages use. `posted` must contain only TupleReceive.
struct TupleQParts {
    const verbs::Device& device;
    const verbs::Port& port;
    Engine& engine;
    Rendezvous& rendezvous;
    Regions& regions;
    PinCache& pins;
    PostedReceives& posted;
    TupleQOwner& owner;
};

}  // namespace tern
