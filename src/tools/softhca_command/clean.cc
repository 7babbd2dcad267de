// SPDX-License-Identifier: BSD-3-Clause
// `softhca clean`: removes the files of fabrics in which nobody is left.
#include <cstdio>
#include <string>

#include "fabric/segment.h"
#include "tools/fabric_view.h"
#include "tools/softhca_command/command.h"
#include "tools/softhca_command/fabric_option.h"

namespace softhca {

int clean_main(int argc, char** argv) {
    FabricRequest request;
    std::string error = parse_fabric_options(argc, argv, false, &request);
    if (!error.empty()) return usage_error("clean", error);
    if (request.help) return print_help("clean");
    if (request.arguments[0] != nullptr) {
        return usage_error("clean", std::string("unexpected '") + request.arguments[0] + "'");
    }
    int status = 0;
    for (const std::string& name : FabricView::names()) {
        if (request.named && name != request.fabric) continue;
        if (Segment::remove_if_unused(name, &error)) {
            std::printf("removed fabric '%s'\n", name.c_str());
        } else if (request.named) {
            status = failure("clean", error);
        } else {
            std::printf("kept: %s\n", error.c_str());
        }
    }
    return status;
}

}  // namespace softhca
