// SPDX-License-Identifier: BSD-3-Clause
#include "tern/uct/memory_types.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

namespace tern {
namespace {

// The components that detect memory of GPUs, in all releases. Others are not opened: most take time
// or resources.
constexpr std::array<std::string_view, 3> kDetectors = {"cuda_cpy", "rocm_cpy", "ze_cpy"};

bool detects(uct_component_h component) {
    uct_component_attr_t attributes{};
    attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME;
    return uct_component_query(component, &attributes) == UCS_OK &&
           std::ranges::count(kDetectors, std::string_view(attributes.name)) != 0;
}

void open_domains(uct_component_h component, std::vector<uct_md_h>& domains) {
    uct_component_attr_t attributes{};
    attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
    if (uct_component_query(component, &attributes) != UCS_OK) return;
    std::vector<uct_md_resource_desc_t> names(attributes.md_resource_count);
    attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
    attributes.md_resources = names.data();
    domains.reserve(domains.size() + names.size());
    uct_md_config_t* config;
    if (names.empty() || uct_component_query(component, &attributes) != UCS_OK ||
        uct_md_config_read(component, nullptr, nullptr, &config) != UCS_OK)
        return;
    for (const auto& name : names) {
        uct_md_h domain;
        if (uct_md_open(component, name.md_name, config, &domain) == UCS_OK)
            domains.push_back(domain);
    }
    uct_config_release(config);
}

// Types are compared by name, because older releases lack some of the constants. Managed memory and
// Level Zero's host memory are the processor's too.
const char* inaccessible_name(ucs_memory_type_t type) {
    constexpr std::array<std::string_view, 3> kInaccessible = {"cuda", "rocm", "ze-device"};
    const char* const name = type < UCS_MEMORY_TYPE_LAST ? ucs_memory_type_names[type] : nullptr;
    if (name == nullptr || std::ranges::count(kInaccessible, std::string_view(name)) == 0)
        return nullptr;
    return name;
}

}  // namespace

MemoryTypes::MemoryTypes() {
    uct_component_h* components;
    unsigned count;
    if (uct_query_components(&components, &count) != UCS_OK) return;
    const std::unique_ptr<uct_component_h, decltype(&uct_release_component_list)> list(
        components, uct_release_component_list);
    for (unsigned i = 0; i < count; ++i)
        if (detects(components[i])) open_domains(components[i], detectors_);
}

MemoryTypes::~MemoryTypes() {
    for (uct_md_h detector : detectors_) uct_md_close(detector);
}

const char* MemoryTypes::inaccessible(const void* address, size_t length) const {
    ucs_memory_info_t cached;
    const ucs_status_t status = ucs_memtype_cache_lookup(address, length, &cached);
    if (status == UCS_ERR_NO_ELEM) return nullptr;
    if (status == UCS_OK && cached.type != UCS_MEMORY_TYPE_UNKNOWN)
        return inaccessible_name(cached.type);
    for (uct_md_h detector : detectors_) {
        ucs_memory_type_t type;
        if (uct_md_detect_memory_type(detector, address, length, &type) == UCS_OK)
            return inaccessible_name(type);
    }
    return nullptr;
}

}  // namespace tern
