// SPDX-License-Identifier: BSD-3-Clause
#include "common/ucx/resources.h"

#include <algorithm>
#include <span>
#include <string_view>

namespace rwapi {
namespace {

template <class T>
using Config = Owner<T, uct_config_release>;

using Components = Owner<uct_component_h, uct_release_component_list>;

bool is_called(uct_component_h component, const char* name) {
    uct_component_attr_t attributes{};
    attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME;
    return uct_component_query(component, &attributes) == UCS_OK &&
           std::string_view(attributes.name) == name;
}

std::vector<std::string> list_domains(uct_component_h component) {
    uct_component_attr_t attributes{};
    attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
    if (uct_component_query(component, &attributes) != UCS_OK) return {};
    std::vector<uct_md_resource_desc_t> found(attributes.md_resource_count);
    attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
    attributes.md_resources = found.data();
    if (uct_component_query(component, &attributes) != UCS_OK) return {};
    std::vector<std::string> names;
    names.reserve(found.size());
    for (const uct_md_resource_desc_t& domain : found) names.emplace_back(domain.md_name);
    return names;
}

}  // namespace

Domain open_domain(const Resource& resource) {
    uct_md_config_t* settings = nullptr;
    if (uct_md_config_read(resource.component, nullptr, nullptr, &settings) != UCS_OK)
        return nullptr;
    const Config<uct_md_config_t> owner(settings);
    // Without UCX's registration cache, which may use a stale registration of memory that the user
    // has unmapped and mapped again. A region is registered once, so it needs no cache. Domains
    // without this setting have none.
    uct_config_modify(settings, "REG_METHODS", "direct");
    uct_md_h md = nullptr;
    if (uct_md_open(resource.component, resource.domain.c_str(), settings, &md) != UCS_OK)
        return nullptr;
    return Domain(md);
}

std::vector<Resource> list_resources() {
    std::vector<Resource> found;
    uct_component_h* list = nullptr;
    unsigned count = 0;
    if (uct_query_components(&list, &count) != UCS_OK) return found;
    const Components owner(list);
    for (uct_component_h component : std::span(list, count)) {
        for (const std::string& domain : list_domains(component)) {
            const Domain md = open_domain({component, domain, {}, {}});
            uct_tl_resource_desc_t* transports = nullptr;
            unsigned transport_count = 0;
            if (!md || uct_md_query_tl_resources(md.get(), &transports, &transport_count) != UCS_OK)
                continue;
            const Owner<uct_tl_resource_desc_t, uct_release_tl_resource_list> owner_of_transports(
                transports);
            for (const uct_tl_resource_desc_t& each : std::span(transports, transport_count))
                found.push_back({component, domain, each.tl_name, each.dev_name});
        }
    }
    return found;
}

bool has_component(const char* name) {
    uct_component_h* list = nullptr;
    unsigned count = 0;
    if (uct_query_components(&list, &count) != UCS_OK) return false;
    const Components owner(list);
    return std::any_of(list, list + count,
                       [name](uct_component_h component) { return is_called(component, name); });
}

std::vector<Resource> choose_resources(const std::vector<Resource>& all, const char* transports,
                                       const char* device) {
    std::vector<Resource> chosen;
    const auto add = [&](std::string_view name) {
        for (const Resource& resource : all) {
            if ((name.empty() || resource.transport == name) &&
                (device == nullptr || resource.device == device))
                chosen.push_back(resource);
        }
    };
    std::string_view left = transports != nullptr ? transports : RWAPI_BEST_TRANSPORTS;
    while (!left.empty()) {
        const std::string_view name = left.substr(0, left.find(','));
        left.remove_prefix(std::min(left.size(), name.size() + 1));
        if (!name.empty()) add(name);
    }
    if (transports == nullptr) add({});
    return chosen;
}

}  // namespace rwapi
