// SPDX-License-Identifier: BSD-3-Clause
// `softhca status`: shows a fabric.
#include <cstdio>
#include <string>

#include "tools/softhca_command/command.h"
#include "tools/softhca_command/fabric_option.h"
#include "tools/softhca_command/report.h"

namespace softhca {

int status_main(int argc, char** argv) {
    FabricRequest request;
    std::string error = parse_fabric_options(argc, argv, true, &request);
    if (!error.empty()) return usage_error("status", error);
    if (request.help) return print_help("status");
    if (request.arguments[0] != nullptr) {
        return usage_error("status", std::string("unexpected '") + request.arguments[0] + "'");
    }
    const auto fabric = FabricView::open(request.fabric, &error);
    if (fabric == nullptr) return failure("status", error);
    const Report report = make_report(request.fabric, fabric.get());
    std::fputs((request.json ? as_json(report) : as_text(report)).c_str(), stdout);
    return 0;
}

}  // namespace softhca
