// SPDX-License-Identifier: BSD-3-Clause

#include <ucp/api/ucp.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "bench/measure/link.h"
#include "bench/series/interrupt.h"
#include "bench/tern-bench/command.h"
#include "common/library.h"
#include "tern/verbs/port.h"

namespace bench {
namespace {

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
}

bool is_tern(std::string_view path) {
    return path.substr(path.rfind('/') + 1).starts_with("libuct_tern.so");
}

// The path of libuct_tern.so.0: from LD_PRELOAD, from the build tree that holds this program, or
// the installed one.
std::string find_tern_library() {
    std::string found;
    for (const std::string& path : tools::paths_of(variable("LD_PRELOAD"))) {
        if (is_tern(path)) found = path;
    }
    std::string error;
    if (found.empty()) found = tools::find_transport(&error);
    if (found.empty()) throw Failure(error);
    return found;
}

bool by_plugin_path() {
    unsigned major = 0;
    unsigned minor = 0;
    unsigned release = 0;
    ucp_get_version(&major, &minor, &release);
    return tools::finds_plug_ins(major, minor);
}

std::string environment_text() {
    std::string text;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view variable = *entry;
        if (!variable.starts_with("UCX_") && !variable.starts_with("SOFTHCA_") &&
            !variable.starts_with("TERN_TUNABLES="))
            continue;
        text.append(text.empty() ? "" : " ").append(variable);
    }
    return text;
}

}  // namespace

Setup make_setup(const Options& options) {
    DeviceName name(options.device);
    if (name.device.empty()) name.device = tern::verbs::device_names().front();
    Setup setup{name.text(), options.gid_index, choose_cpus()};
    std::string others;
    for (const std::string& path : tools::paths_of(variable("LD_PRELOAD"))) {
        if (!is_tern(path)) others.append(others.empty() ? "" : ":").append(path);
    }
    setup.without_tern = {{"UCX_NET_DEVICES", setup.device},
                          {"UCX_WARN_UNUSED_ENV_VARS", "n"},
                          {"UCX_TLS", ""},
                          {"LD_PRELOAD", others}};
    if (by_plugin_path()) setup.without_tern.emplace_back("UCX_PLUGIN_PATH", "");
    setup.with_tern = setup.without_tern;
    if (options.transport != "tern") return setup;
    const std::string library = find_tern_library();
    // The last variable of with_tern is the one by which this UCX finds Tern.
    setup.with_tern.back().second = by_plugin_path() ? library.substr(0, library.rfind('/'))
                                    : others.empty() ? library
                                                     : library + ":" + others;
    return setup;
}

int run_on_own_device(const std::string& device, const std::string& profile, char** argv) {
    may_make_device(device);
    const OwnFabric fabric("tern-bench");
    Words words = fabric.launcher(profile.empty() ? Words() : Words{"--profile", profile});
    words.push_back(tools::program_path());
    for (char** word = argv + 1; *word != nullptr; ++word) words.emplace_back(*word);
    Process process(std::move(words));
    forward_interrupts(process.pid());
    return process.wait();
}

void check_profile(const std::string& profile) {
    if (profile.empty() || profile == variable("SOFTHCA_PROFILE")) return;
    throw Failure(
        "--profile is for a software HCA of this program's own; there is a "
        "device already: 'softhca run --profile " +
        profile + "' makes one");
}

Facts facts_of(const Options& options, const Setup& setup) {
    return {{"command", options.command},
            {"device", setup.device},
            {"ucx", ucp_get_version_string()},
            {"placement", placement_text(setup.cpus)},
            {"load_average", load_text()},
            {"rounds", options.quick ? "quick" : std::to_string(options.rounds)},
            {"environment", environment_text()}};
}

Series make_series(const Options& options, const Setup& setup, int quick_rounds, int starts) {
    return {setup, options.quick ? quick_rounds : options.rounds, options.quick ? 1 : starts};
}

std::vector<std::string> kinds_of_memory(const Setup& setup) {
    if (!shared_memory_differs(setup)) return {"private"};
    return {"private", "shared"};
}

std::string memory_text(const Setup& setup, const std::string& memory) {
    return shared_memory_differs(setup) ? ", " + memory + " memory" : "";
}

std::string ucp_name(const Options& options) {
    return options.transport == "rc_verbs" ? "rc_v" : options.transport;
}

bool shared_memory_differs(const Setup& setup) {
    return setup.device.starts_with("softhca") && variable("SOFTHCA_SHARED") != "off";
}

std::string device_profile() {
    const std::string name = variable("SOFTHCA_PROFILE");
    return name.empty() ? "ideal" : name;
}

Arm raw_arm(const std::string& memory) {
    return {memory, "raw", "", memory == "shared"};
}

Arm uct_arm(const std::string& transport) {
    Arm arm{transport, "uct", transport};
    arm.preloads_tern = transport == "tern";
    arm.warm_up = Order::Kind::kMessages;
    return arm;
}

Arm ucp_arm(const std::string& transport) {
    const std::string tls = transport + ",self";
    Arm arm{transport, "ucp", tls, false, {{"UCX_TLS", tls}}};
    arm.preloads_tern = transport == "tern";
    arm.warm_up = Order::Kind::kMessages;
    return arm;
}

Arm rwapi_arm(const std::string& transport, const std::string& memory) {
    Arm arm = uct_arm(transport);
    arm.name = "rwapi, " + transport;
    arm.port = "rwapi";
    arm.shared = memory == "shared";
    arm.environment = {{"RWAPI_TLS", transport}};
    return arm;
}

Arm in_private_memory(Arm arm) {
    arm.name += ", private";
    arm.environment.emplace_back("SOFTHCA_SHARED", "off");
    return arm;
}

}  // namespace bench
