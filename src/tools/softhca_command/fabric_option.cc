// SPDX-License-Identifier: BSD-3-Clause
#include "tools/softhca_command/fabric_option.h"

#include <getopt.h>

#include <cstdlib>

#include "settings.h"
#include "tools/softhca_command/command.h"

namespace softhca {
namespace {

std::string set_fabric(FabricRequest* request, const char* given) {
    const Setting& setting = kSettings[0];
    const char* inherited = std::getenv(setting.name);
    const char* value = given != nullptr ? given : inherited;
    if (given == nullptr && (inherited == nullptr || *inherited == '\0')) value = setting.fallback;
    Settings settings;
    if (const auto reason = setting.set(settings, value)) {
        return (given != nullptr ? "--fabric=" : "SOFTHCA_FABRIC=") + std::string(value) + ": " +
               *reason;
    }
    request->fabric = settings.fabric;
    request->named = given != nullptr;
    return {};
}

}  // namespace

std::string parse_fabric_options(int argc, char** argv, bool with_json, FabricRequest* request) {
    const option options[] = {{"fabric", required_argument, nullptr, 'f'},
                              {"help", no_argument, nullptr, 'h'},
                              {with_json ? "json" : nullptr, no_argument, nullptr, 'j'},
                              {}};
    const char* fabric = nullptr;
    opterr = 0;
    int choice;
    while ((choice = ::getopt_long(argc, argv, "+:h", options, nullptr)) != -1) {
        switch (choice) {
            case 'f':
                fabric = optarg;
                break;
            case 'j':
                request->json = true;
                break;
            case 'h':
                request->help = true;
                break;
            case ':':
                return std::string("option '") + argv[optind - 1] + "' needs a value";
            default:
                return "no such option '" + refused_option(argv, "fhj") +
                       "'; choose from --fabric, " + (with_json ? "--json, " : "") + "--help";
        }
    }
    request->arguments = argv + optind;
    return set_fabric(request, fabric);
}

}  // namespace softhca
