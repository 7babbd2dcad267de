// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "common/ucx/handles.h"

namespace rwapi {

// A transport on a device, as UCT offers it.
struct Resource {
    uct_component_h component = nullptr;
    std::string domain;
    std::string transport;
    std::string device;
};

// All resources, in UCT's order.
std::vector<Resource> list_resources();

// Whether UCT has this component, which need not have found a device.
bool has_component(const char* name);

// Opens the resource's memory domain. Null: UCT cannot.
Domain open_domain(const Resource& resource);

// The transports that are tried first by default. Others follow in UCT's order.
#define RWAPI_BEST_TRANSPORTS "tern,rc_verbs"

// The resources to try, the best first. `transports`: names with commas between; null: the default.
// `device` null: any.
std::vector<Resource> choose_resources(const std::vector<Resource>& all, const char* transports,
                                       const char* device);

}  // namespace rwapi
