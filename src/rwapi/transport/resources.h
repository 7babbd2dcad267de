// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "rwapi/transport/handles.h"

namespace rwapi {

// A transport on a device, as UCT offers it.
struct Resource {
    uct_component_h component = nullptr;
    std::string domain;
    std::string transport;
    std::string device;
};

// All of them, in UCT's order.
std::vector<Resource> list_resources();

// Opens the resource's memory domain; null: it cannot be.
Domain open_domain(const Resource& resource);

// The resources to try, the best first. `transports` is a comma list, null: tern, rc_verbs, then
// any; `device` null: any.
std::vector<Resource> choose_resources(const std::vector<Resource>& all, const char* transports,
                                       const char* device);

}  // namespace rwapi
