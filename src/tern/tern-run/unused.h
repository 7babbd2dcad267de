// SPDX-License-Identifier: BSD-3-Clause
// Why Tern was asked for and not used. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tern/tern-run/job_record.h"

namespace tern {

struct NotUsed {
    std::string who;  // "ranks 0-3", for example; empty: all
    std::string why;
    std::string remedy;
};

// `plug_in`: see Transport. `status`: of the command. Empty if Tern was used by all processes that
// could.
std::vector<NotUsed> find_unused(const std::vector<ProcessRecord>& processes, bool plug_in,
                                 int status);

// "ranks 0-3, 7", for example.
std::string names_of(const std::vector<const ProcessRecord*>& processes);

}  // namespace tern
