// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>

namespace tern {

// What registers memory with the device.
class Registrar {
  public:
    virtual ~Registrar() = default;
    // `access`: ibv_access_flags. Null and errno on failure.
    virtual ibv_mr* add(void* address, size_t length, int access) = 0;
    virtual void remove(ibv_mr* region) = 0;
};

class VerbsRegistrar final : public Registrar {
  public:
    explicit VerbsRegistrar(ibv_pd* pd) : pd_(pd) {}
    ibv_mr* add(void* address, size_t length, int access) override {
        return ibv_reg_mr(pd_, address, length, access);
    }
    void remove(ibv_mr* region) override { ibv_dereg_mr(region); }

  private:
    ibv_pd* pd_;
};

}  // namespace tern
