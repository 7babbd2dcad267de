// SPDX-License-Identifier: BSD-3-Clause
// The HCA that is measured.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <string>
#include <vector>

namespace bench {

struct CloseContext {
    void operator()(ibv_context* context) const { ibv_close_device(context); }
};
struct FreePd {
    void operator()(ibv_pd* pd) const { ibv_dealloc_pd(pd); }
};
struct FreeMr {
    void operator()(ibv_mr* mr) const { ibv_dereg_mr(mr); }
};
using UniqueMr = std::unique_ptr<ibv_mr, FreeMr>;

std::vector<std::string> device_names();
/// Whether there is the device, or any device if the name is empty.
bool has_device(const std::string& name);

class Device {
  public:
    /// Opens the device of that name, or the first one.
    explicit Device(const std::string& name, uint8_t port_number = 1);

    ibv_context* context() { return context_.get(); }
    ibv_pd* pd() { return pd_.get(); }
    const ibv_port_attr& port() const { return port_; }
    uint8_t port_number() const { return port_number_; }
    std::string name() const { return ibv_get_device_name(context_->device); }
    UniqueMr register_memory(void* data, size_t size);

  private:
    std::unique_ptr<ibv_context, CloseContext> context_;
    std::unique_ptr<ibv_pd, FreePd> pd_;
    const uint8_t port_number_;
    ibv_port_attr port_ = {};
};

}  // namespace bench
