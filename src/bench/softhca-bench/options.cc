// SPDX-License-Identifier: BSD-3-Clause
#include "bench/softhca-bench/options.h"

#include <getopt.h>

#include <algorithm>
#include <cstdio>

#include "core/nic_model.h"
#include "core/text.h"

namespace softhca::bench {
namespace {

constexpr option kOptions[] = {{"section", required_argument, nullptr, 's'},
                               {"profile", required_argument, nullptr, 'p'},
                               {"model", required_argument, nullptr, 'm'},
                               {"rounds", required_argument, nullptr, 'r'},
                               {"iterations", required_argument, nullptr, 'i'},
                               {"device", required_argument, nullptr, 'd'},
                               {"gid-index", required_argument, nullptr, 'g'},
                               {"json", no_argument, nullptr, 'j'},
                               {"help", no_argument, nullptr, 'h'},
                               {"row-fd", required_argument, nullptr, 'f'},
                               {"title", required_argument, nullptr, 't'},
                               {"only", required_argument, nullptr, 'o'},
                               {}};

std::vector<std::string> split(const char* list) {
    std::vector<std::string> parts;
    for_each_entry(list, [&](const ListEntry& entry) {
        parts.emplace_back(entry.key);
        return std::nullopt;
    });
    return parts;
}

std::string check_sections(const std::vector<std::string>& sections) {
    for (const std::string& section : sections) {
        if (section != "small" && section != "bandwidth" && section != "model") {
            return "no such section '" + section + "'; choose from small, bandwidth, model";
        }
    }
    return {};
}

std::string check_profiles(const std::vector<std::string>& profiles) {
    for (const std::string& profile : profiles) {
        if (find_profile(profile) == nullptr) {
            return "no such profile '" + profile + "'; choose from " + profile_names();
        }
    }
    return {};
}

std::string check_model(const std::string& model) {
    NicParameters nic = {};
    return apply_model_overrides(model, nic).value_or("");
}

/// A number in [low, high], or an error text.
template <typename Number>
std::string set_number(const char* text, uint64_t low, uint64_t high, Number* number) {
    const auto value = parse_number(text);
    if (!value || *value < low || *value > high) {
        return "'" + std::string(text) + "' is not a number from " + std::to_string(low) + " to " +
               std::to_string(high);
    }
    *number = static_cast<Number>(*value);
    return {};
}

std::string set(int option, Options* options) {
    switch (option) {
        case 's':
            return check_sections(options->sections = split(optarg));
        case 'p':
            return check_profiles(options->profiles = split(optarg));
        case 'm':
            return check_model(options->model = optarg);
        case 'r':
            return set_number(optarg, 1, 10000, &options->rounds);
        case 'i':
            return set_number(optarg, 10, 1000000, &options->iterations);
        case 'g':
            return set_number(optarg, 0, 255, &options->gid_index);
        case 'f':
            return set_number(optarg, 0, 1 << 20, &options->row_fd);
        case 'd':
            options->device = optarg;
            return {};
        case 'o':
            options->only = optarg;
            return {};
        case 't':
            options->title = optarg;
            return {};
        case 'j':
            options->json = true;
            return {};
        case 'h':
            options->help = true;
            return {};
        default:
            return "wrong option";
    }
}

}  // namespace

std::string parse_options(int argc, char** argv, Options* options) {
    opterr = 0;
    int option;
    while ((option = ::getopt_long(argc, argv, ":", kOptions, nullptr)) != -1) {
        const std::string given = argv[optind - 1];
        if (option == '?') return "no such option '" + given + "'";
        if (option == ':') return "option '" + given + "' needs a value";
        if (std::string error = set(option, options); !error.empty()) return error;
    }
    if (optind < argc) return std::string("unexpected '") + argv[optind] + "'";
    return {};
}

void print_usage() {
    std::printf(
        "Usage: softhca-bench [OPTION...]\n"
        "Measures an HCA with two processes of this machine; the software HCA if there is no "
        "other.\n\n"
        "  --section LIST    of small, bandwidth, model [all of them]\n"
        "  --profile LIST    for the section model [graphene,infini,hdr200]\n"
        "  --model LIST      parameters to change in these profiles, as SOFTHCA_MODEL\n"
        "  --only TEXT       only the lines that have this in their title\n"
        "  --rounds N        how often everything is measured in turn [11]\n"
        "  --iterations N    small messages in a round [2000]\n"
        "  --device NAME     [the first one]\n"
        "  --gid-index N     where addresses are GIDs [0]\n"
        "  --json            for programs\n");
}

}  // namespace softhca::bench
