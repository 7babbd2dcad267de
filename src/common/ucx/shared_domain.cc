// SPDX-License-Identifier: BSD-3-Clause
#include "common/ucx/shared_domain.h"

#include <string>
#include <utility>

#include "common/assert.h"

namespace rwapi {
namespace {

// The domains that contexts use. They are not destroyed at exit(), for the reason that contexts are
// not.
struct OpenDomains {
    std::mutex mutex;
    std::map<std::pair<uct_component_h, std::string>, std::weak_ptr<SharedDomain>> list;
};

OpenDomains& open_domains() {
    static OpenDomains& all = *new OpenDomains;
    return all;
}

}  // namespace

std::shared_ptr<SharedDomain> SharedDomain::open(const Resource& resource) {
    OpenDomains& all = open_domains();
    const std::lock_guard guard(all.mutex);
    std::weak_ptr<SharedDomain>& known = all.list[{resource.component, resource.domain}];
    std::shared_ptr<SharedDomain> found = known.lock();
    if (found) return found;
    Domain domain = open_domain(resource);
    if (!domain) return nullptr;
    found = std::make_shared<SharedDomain>(std::move(domain));
    known = found;
    return found;
}

void SharedDomain::forget() {
    OpenDomains& all = open_domains();
    const std::lock_guard guard(all.mutex);
    all.list.clear();
}

ucs_status_t SharedDomain::add(std::byte* memory, uint64_t length, unsigned flags,
                               uct_mem_h& registered, bool& shared) {
    const std::lock_guard guard(mutex_);
    const auto [at, is_new] =
        registrations_.try_emplace(Use{memory, length, flags}, Registration{nullptr, 0});
    Registration& registration = at->second;
    if (is_new) {
        const ucs_status_t status =
            uct_md_mem_reg(get(), memory, length, flags, &registration.registered);
        if (status != UCS_OK) {
            registrations_.erase(at);
            return status;
        }
    }
    shared = !is_new;
    ++registration.users;
    registered = registration.registered;
    return UCS_OK;
}

void SharedDomain::remove(const std::byte* memory, uint64_t length, unsigned flags) {
    const std::lock_guard guard(mutex_);
    const auto found = registrations_.find(Use{memory, length, flags});
    TERN_ASSERT(found != registrations_.end() && found->second.users > 0);
    if (--found->second.users != 0) return;
    uct_md_mem_dereg(get(), found->second.registered);
    registrations_.erase(found);
}

// Transports may make the device's key at its first use.
ucs_status_t SharedDomain::pack_key(uct_mem_h registered, std::byte* to) {
    const std::lock_guard guard(mutex_);
    return uct_md_mkey_pack(get(), registered, to);
}

}  // namespace rwapi
