// SPDX-License-Identifier: BSD-3-Clause
#include "tools/tern_run/environment.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tools/common/library.h"

namespace tern {

void Environment::set_default(const char* name, const char* value) {
    ::setenv(name, value, 0);
    mention(name);
}

void Environment::add_path(const char* name, const std::string& path) {
    const char* list = std::getenv(name);
    ::setenv(name, tools::prepend_path(path, list != nullptr ? list : "").c_str(), 1);
    mention(name);
}

void Environment::mention(const char* name) {
    if (std::ranges::find(names_, std::string_view(name)) == names_.end()) names_.push_back(name);
}

void Environment::print() const {
    for (const char* name : names_) {
        const char* value = std::getenv(name);
        if (value != nullptr) std::fprintf(stderr, "%s=%s\n", name, value);
    }
}

void set_up_tern(Environment* environment, const std::string& library, bool plug_in) {
    if (plug_in) {
        environment->add_path("UCX_PLUGIN_PATH", library.substr(0, library.rfind('/')));
    } else {
        environment->add_path("LD_PRELOAD", library);
    }
    environment->set_default("UCX_TLS", "tern,self");
    // Distributions switch UCX off in Open MPI, and Open MPI by itself takes only the transports
    // and devices it knows.
    environment->set_default("OMPI_MCA_pml", "ucx");
    environment->set_default("OMPI_MCA_osc", "ucx");
    environment->set_default("OMPI_MCA_opal_common_ucx_tls", "any");
    environment->set_default("OMPI_MCA_opal_common_ucx_devices", "any");
}

void set_up_one_machine(Environment* environment) {
    environment->mention("SOFTHCA_PROFILE");
    environment->mention("LD_PRELOAD");
    // MPICH would connect the ranks by shared memory of its own, and none of them by UCX.
    environment->set_default("MPIR_CVAR_NOLOCAL", "1");
}

}  // namespace tern
