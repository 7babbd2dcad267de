// SPDX-License-Identifier: BSD-3-Clause
// A fabric seen from outside: its memory, without taking part in it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "softhca/fabric/layout.h"

namespace softhca {

class FabricView {
  public:
    // The fabric `name` of this user. Null, with *error, if nobody is in it or it is of another
    // version.
    static std::unique_ptr<FabricView> open(const std::string& name, std::string* error);

    ~FabricView();
    FabricView(const FabricView&) = delete;
    FabricView& operator=(const FabricView&) = delete;

    FabricHeader& header() { return *header_; }
    // Whether the process that a slot speaks of is there. Looks only, unlike a member of the
    // fabric.
    bool alive(const ProcessSlot& process) const;

    // The fabrics of this user of which there is a file, alive or not.
    static std::vector<std::string> names();

  private:
    FabricView() = default;
    bool find_memory(const std::string& name, std::string* error);
    bool attach(const std::string& name, std::string* error);

    int fd_ = -1;
    FabricHeader* header_ = nullptr;
    std::vector<pid_t> members_;
};

}  // namespace softhca
