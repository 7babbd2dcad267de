// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tern-bench/options.h"

#include <getopt.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "bench/tern-bench/walk.h"
#include "core/nic_model.h"
#include "core/text.h"

namespace bench {
namespace {

constexpr option kOptions[] = {{"device", required_argument, nullptr, 'd'},
                               {"transport", required_argument, nullptr, 't'},
                               {"rounds", required_argument, nullptr, 'r'},
                               {"quick", no_argument, nullptr, 'q'},
                               {"gid-index", required_argument, nullptr, 'g'},
                               {"profile", required_argument, nullptr, 'f'},
                               {"step", required_argument, nullptr, 'e'},
                               {"sizes", required_argument, nullptr, 'z'},
                               {"json", required_argument, nullptr, 'j'},
                               {"plot", required_argument, nullptr, 'p'},
                               {"peers", required_argument, nullptr, 'n'},
                               {"hot", required_argument, nullptr, 'o'},
                               {"seed", required_argument, nullptr, 's'},
                               {"help", no_argument, nullptr, 'h'},
                               {}};

// A number in [low, high], or an error text.
template <typename Number>
std::string set_number(std::string_view text, uint64_t low, uint64_t high, Number* number) {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
        return "'" + std::string(text) + "' is not a number from " + std::to_string(low) + " to " +
               std::to_string(high);
    }
    *number = static_cast<Number>(value);
    return {};
}

std::string set_peers(std::string_view list, std::vector<uint32_t>* peers) {
    peers->clear();
    while (!list.empty()) {
        const size_t end = std::min(list.find(','), list.size());
        uint32_t number = 0;
        std::string error = set_number(list.substr(0, end), 1, 200, &number);
        if (!error.empty()) return error;
        peers->push_back(number);
        list.remove_prefix(std::min(end + 1, list.size()));
    }
    return {};
}

std::string set_profile(const std::string& name, std::string* profile) {
    if (softhca::find_profile(name) == nullptr)
        return "no such profile '" + name + "'; choose from " + softhca::profile_names();
    *profile = name;
    return {};
}

std::string set_step(const char* text, double* step) {
    const auto value = softhca::parse_decimal(text);
    if (!value || *value < 1.05 || *value > 1024)
        return "'" + std::string(text) + "' is not a step from 1.05 to 1024";
    *step = *value;
    return {};
}

// A number of bytes, with K or M if they are KiB or MiB.
std::string set_size(std::string_view text, uint32_t* size) {
    uint32_t unit = 1;
    if (text.ends_with('K')) unit = 1 << 10;
    if (text.ends_with('M')) unit = 1 << 20;
    if (unit != 1) text.remove_suffix(1);
    std::string error = set_number(text, (64 + unit - 1) / unit, kLongest / unit, size);
    *size *= unit;
    return error;
}

std::string set_sizes(std::string_view range, Options* options) {
    const size_t colon = std::min(range.find(':'), range.size());
    std::string error = set_size(range.substr(0, colon), &options->low);
    options->high = options->low;
    if (error.empty() && colon < range.size())
        error = set_size(range.substr(colon + 1), &options->high);
    if (error.empty() && options->high < options->low) error = "the second size is the smaller one";
    return error;
}

std::string set(int option, Options* options) {
    switch (option) {
        case 'd':
            options->device = optarg;
            return {};
        case 't':
            options->transport = optarg;
            return {};
        case 'r':
            return set_number(optarg, 1, 10000, &options->rounds);
        case 'q':
            options->quick = true;
            return {};
        case 'g':
            return set_number(optarg, 0, 255, &options->gid_index);
        case 'f':
            return set_profile(optarg, &options->profile);
        case 'e':
            return set_step(optarg, &options->step);
        case 'z':
            return set_sizes(optarg, options);
        case 'j':
            options->json = optarg;
            return {};
        case 'p':
            options->plot = optarg;
            return {};
        case 'n':
            return set_peers(optarg, &options->peers);
        case 'o':
            return set_number(optarg, 0, 200, &options->hot);
        case 's':
            return set_number(optarg, 0, UINT64_MAX, &options->seed);
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
    if (optind < argc) options->command = argv[optind++];
    if (optind < argc) return std::string("unexpected '") + argv[optind] + "'";
    return {};
}

void print_usage() {
    std::fputs(
        "Usage: tern-bench COMMAND [OPTION...]\n"
        "Compares Tern with UCX's own rc_verbs and with the bare device, in turns and on one "
        "device: that of\n"
        "this machine, or the software HCA if there is no other.\n\n"
        "  latency           half round trips: UCT active messages, UCP tagged messages, RDMA "
        "writes\n"
        "  rate              streams: 8-byte active messages a second, bandwidth by size\n"
        "  bandwidth         long tagged messages in fresh and in reused buffers, the limit, the "
        "naive\n"
        "                    protocols, and what the cost model says\n"
        "  pinning           what it brings to pin memory while it is being sent\n"
        "  overlap           how much of a message a processor can leave to the network\n"
        "  tune              what copies, registrations and the network cost here, and which "
        "scheme the model takes\n"
        "  memory            registered bytes and queue pairs by number of peers\n"
        "  fastpath          share of messages that find room on the fast path, of three "
        "designs\n\n"
        "  --device NAME     as UCX names it: mlx5_0:1 [the first one]\n"
        "  --rounds N        how often everything is measured in turn [15]\n"
        "  --quick           few and short rounds: whether it works, not how fast\n"
        "  --profile NAME    of the software HCA, where there is no other: ideal, graphene, "
        "infini, "
        "hdr200\n"
        "  --sizes LOW:HIGH  bandwidth, pinning, tune: of messages, in bytes, or with K or M "
        "[1K:16M]\n"
        "  --step X          bandwidth, pinning, tune: from size to size, about [1.2]\n"
        "  --json FILE       the result for programs\n"
        "  --plot FILE       the result as a picture by gnuplot, .svg or .png\n"
        "  --transport NAME  what to compare with rc_verbs [tern]\n"
        "  --gid-index N     of the bare device, where addresses are GIDs [0]\n"
        "  --peers LIST      memory: numbers of peers to measure [1,4,16,63]\n"
        "  --hot N           memory: how many of the peers keep talking [all]\n"
        "  --seed N          fastpath: of the load [1]\n",
        stdout);
}

}  // namespace bench
