// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>

namespace tern {

// Registers memory with the device.
class Registrar {
  public:
    virtual ~Registrar() = default;
    // `access`: ibv_access_flags. Null and errno on failure.
    virtual ibv_mr* add(void* address, size_t length, int access) = 0;
    virtual void remove(ibv_mr* region) = 0;
    // Whether the device can do without pinning: IBV_ACCESS_ON_DEMAND.
    virtual bool on_demand() const { return false; }
    // Whether the parent keeps the registered pages when the process forks.
    virtual bool survives_fork() const { return true; }
};

class VerbsRegistrar final : public Registrar {
  public:
    explicit VerbsRegistrar(ibv_pd* pd) : pd_(pd) {}
    ibv_mr* add(void* address, size_t length, int access) override {
        return ibv_reg_mr(pd_, address, length, access);
    }
    void remove(ibv_mr* region) override { ibv_dereg_mr(region); }
    bool on_demand() const override {
        ibv_device_attr_ex attributes{};
        if (ibv_query_device_ex(pd_->context, nullptr, &attributes) != 0) return false;
        uint32_t needed = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
        if (attributes.orig_attr.atomic_cap != IBV_ATOMIC_NONE) needed |= IBV_ODP_SUPPORT_ATOMIC;
        return (attributes.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0 &&
               (attributes.odp_caps.per_transport_caps.rc_odp_caps & needed) == needed;
    }
    bool survives_fork() const override { return ibv_is_fork_initialized() != IBV_FORK_DISABLED; }

  private:
    ibv_pd* pd_;
};

}  // namespace tern
