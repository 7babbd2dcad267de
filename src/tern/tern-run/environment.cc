// SPDX-License-Identifier: BSD-3-Clause
#include "tern/tern-run/environment.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

#include "common/command.h"
#include "common/library.h"
#include "common/mpi.h"
#include "common/process.h"
#include "tern/base/rank_variables.h"

namespace tern {
namespace {

// Replaces this process by `softhca env`, from the same installation or build if possible.
[[noreturn]] void become_softhca(std::string profile) {
    std::string softhca = tools::program_folder() + "/softhca";
    if (::access(softhca.c_str(), X_OK) != 0) softhca = "softhca";
    char env[] = "env";
    char option[] = "--profile";
    char* command[] = {softhca.data(), env, profile.empty() ? nullptr : option, profile.data(),
                       nullptr};
    std::string error;
    const int status = tools::become(command, &error);
    std::fprintf(stderr, "tern-run: --soft-hca: %s\n", error.c_str());
    ::_exit(status);
}

// Runs `softhca env`. Returns its exit status; *output gets its standard output.
int softhca_env(const std::string& profile, bool quiet, std::string* output) {
    const int status = tools::capture([&] { become_softhca(profile); }, quiet, output);
    return status < 0 ? 1 : status;
}

// The release of the UCX that the dynamic linker finds for programs; empty: it finds none.
std::string release_found() {
    std::string output;
    const auto print_release = [] {
        void* const libucp = ::dlopen("libucp.so.0", RTLD_LAZY | RTLD_LOCAL);
        if (libucp == nullptr) ::_exit(1);
        const auto get_version = reinterpret_cast<void (*)(unsigned*, unsigned*, unsigned*)>(
            ::dlsym(libucp, "ucp_get_version"));
        if (get_version == nullptr) ::_exit(1);
        unsigned major, minor, patch;
        get_version(&major, &minor, &patch);
        ::dprintf(STDOUT_FILENO, "%u.%u.%u", major, minor, patch);
        ::_exit(0);
    };
    return tools::capture(print_release, true, &output) == 0 ? output : "";
}

// Whether UCX loads plug-ins, which each release after the first that does so does too.
bool finds_plug_ins(const char* release) {
    unsigned major = 0;
    unsigned minor = 0;
    return std::sscanf(release, "%u.%u", &major, &minor) == 2 &&
           tools::finds_plug_ins(major, minor);
}

// Whether the module is there, and the GPU's own libraries with it. Nothing of the GPU is
// initialised.
bool has_gpu(const std::string& folder, const std::string& kind) {
    const std::string path = folder + "/libuct_" + kind + ".so.0";
    return ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL) != nullptr;
}

// The values of UCX_TLS: the transports of UCX that programs use beside Tern, which are shared
// memory (not with `only`), the process to itself, and those that know the memory of GPUs. Without
// one of these, UCP takes a GPU's memory for the host's. The modules of UCX `major`.`minor` are in
// `module_folder` or in UCX_MODULE_DIR. From 1.18 on, it is a list of what is not used, which
// leaves every such transport: UCX then does not warn of names that it does not have. For older
// releases it names the kinds of GPU whose module can be loaded here.
void choose_transports(Transport& transport, unsigned major, unsigned minor,
                       const std::string* module_folder) {
    if (major > 1 || minor >= 18) {
        transport.transports = TERN_OTHER_TLS;
        transport.only = TERN_OTHER_TLS ",sm";
        return;
    }
    const char* const also = std::getenv("UCX_MODULE_DIR");
    std::string kinds;
    for (const char* kind : {"cuda", "rocm", "ze"})
        if (module_folder == nullptr || has_gpu(*module_folder, kind) ||
            (also != nullptr && has_gpu(also, kind)))
            kinds.append(",").append(kind);
    transport.transports = "tern,self,sm" + kinds;
    transport.only = "tern,self" + kinds;
}

// Empty: there is a transport for this UCX.
std::string misfit_of(const tern_releases& releases, const std::string& loaded) {
    char text[2 * kReleasesTextBytes] = "";
    (void)tern_releases_misfit(&releases, loaded.c_str(), text, sizeof text);
    return text;
}

}  // namespace

void Environment::set_default(const std::string& name, const std::string& value) {
    ::setenv(name.c_str(), value.c_str(), 0);
    remember(name);
}

void Environment::set(const std::string& name, const std::string& value) {
    ::setenv(name.c_str(), value.c_str(), 1);
    remember(name);
}

void Environment::add_path(const std::string& name, const std::string& path) {
    const char* list = std::getenv(name.c_str());
    set(name, tools::prepend_path(path, list != nullptr ? list : ""));
}

void Environment::remember(const std::string& name) {
    if (std::ranges::find(names_, name) == names_.end()) names_.push_back(name);
}

void Environment::print() const {
    for (const std::string& name : names_) {
        std::fprintf(stderr, "%s=%s\n", name.c_str(), std::getenv(name.c_str()));
    }
}

bool is_rank(bool* first) {
    for (const char* variable : base::kRankVariables) {
        const char* rank = std::getenv(variable);
        if (rank == nullptr) continue;
        *first = std::string(rank) == "0";
        return true;
    }
    return false;
}

bool is_first_rank() {
    bool first = true;
    (void)is_rank(&first);
    return first;
}

std::string mpich_device() {
    std::string output;
    if (tools::capture({"mpichversion"}, &output) != 0) return "";
    const size_t at = output.find("ch4:");
    return at == std::string::npos ? "not ch4" : output.substr(at, output.find('\n', at) - at);
}

bool has_module(const std::string& device, const std::string& module) {
    if (!device.starts_with("ch4:")) return false;
    return ("," + device.substr(4) + ",").find("," + module + ",") != std::string::npos;
}

bool Transport::is_tern() const {
    for (const char* name : {"tern_misfit", "ucp_get_version_string", "ucp_get_version"})
        if (::dlsym(handle_, name) == nullptr) return false;
    return true;
}

Transport Transport::load() {
    Transport transport;
    std::string error;
    transport.path = tools::find_transport(&error);
    if (transport.path.empty()) throw std::runtime_error(error);
    const std::string folder = transport.path.substr(0, transport.path.rfind('/'));
    tern_releases_in(&transport.releases, folder.c_str());
    const auto& releases = transport.releases;
    if (releases.count == 0)
        throw std::runtime_error("there is no transport beside " + transport.path +
                                 ", in a folder that is called like a release of UCX");
    // Of several, that of the UCX that is found; otherwise the latest, which may know where its UCX
    // is.
    const std::string found = releases.count > 1 ? release_found() : "";
    const std::string unknown = found.empty() ? "" : misfit_of(releases, found);
    const std::string chosen =
        found.empty() || !unknown.empty() ? releases.names[releases.count - 1] : found;
    char library[PATH_MAX + kReleaseBytes];
    tern_transport_path(library, sizeof library, folder.c_str(), chosen.c_str());
    (void)tern_misfit_is_new();  // this program says it
    // The dynamic linker finds the same UCX for the library as for the command.
    transport.handle_ = ::dlopen(library, RTLD_LAZY | RTLD_LOCAL);
    ::unsetenv("TERN_MISFIT_TOLD");
    transport.plug_in = finds_plug_ins(releases.names[0]);
    if (transport.handle_ == nullptr || (!unknown.empty() && !transport.is_tern())) {
        transport.misfit = unknown.empty() ? ::dlerror() : unknown;
        unsigned major = 0, minor = 0;
        std::sscanf(found.empty() ? releases.names[0] : found.c_str(), "%u.%u", &major, &minor);
        choose_transports(transport, major, minor, nullptr);
        return transport;
    }
    if (!transport.is_tern())
        throw std::runtime_error(std::string(library) + " is not the transport tern");
    const auto misfit = transport.function<const char*()>("tern_misfit");
    const auto version = transport.function<const char*()>("ucp_get_version_string");
    const auto get_version =
        transport.function<void(unsigned*, unsigned*, unsigned*)>("ucp_get_version");
    transport.ucx_version = version();
    if (misfit() != nullptr) transport.misfit = unknown.empty() ? misfit() : unknown;
    Dl_info info{};
    if (::dladdr(reinterpret_cast<void*>(get_version), &info) != 0)
        transport.ucx_path = info.dli_fname;
    unsigned major, minor, release;
    get_version(&major, &minor, &release);
    const std::string modules =
        transport.ucx_path.substr(0, transport.ucx_path.rfind('/')) + "/ucx";
    choose_transports(transport, major, minor, &modules);
    return transport;
}

bool set_up_tern(Environment* environment, bool only) {
    const Transport transport = Transport::load();
    // The loader decides in each process, by the UCX that it has.
    if (!transport.misfit.empty() && is_first_rank())
        std::fprintf(stderr,
                     "tern-run: %s; going on, as the program may have another UCX. If not, run it "
                     "without tern-run, whose UCX_TLS leaves it no network\n",
                     transport.misfit.c_str());
    if (transport.plug_in) {
        environment->add_path("UCX_PLUGIN_PATH",
                              transport.path.substr(0, transport.path.rfind('/')));
    } else {
        environment->add_path("LD_PRELOAD", transport.path);
        const char* options = std::getenv(tools::kSanitizerOptions);
        environment->set(tools::kSanitizerOptions,
                         tools::allow_preloads(options != nullptr ? options : ""));
    }
    environment->set_default("UCX_TLS", only ? transport.only : transport.transports);
    if (only) environment->set_default(tools::kMpichOverUcx.name, tools::kMpichOverUcx.value);
    // One that has no UCX would refuse to start. Nobody is asked who need not be: each rank may do
    // this.
    if (std::getenv(tools::kMpichModule.name) == nullptr) {
        const std::string device = mpich_device();
        if (has_module(device, "ucx") && device != "ch4:ucx")
            environment->set(tools::kMpichModule.name, tools::kMpichModule.value);
    }
    for (const auto& [name, value] : tools::kOpenMpiOverUcx) environment->set_default(name, value);
    return transport.plug_in;
}

int set_up_soft_hca(Environment* environment, const std::string& profile) {
    std::string output;
    if (const int status = softhca_env(profile, false, &output); status != 0) return status;
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);) {
        const size_t end = line.find('=');
        if (end != std::string::npos) environment->set(line.substr(0, end), line.substr(end + 1));
    }
    return 0;
}

bool is_profile(const std::string& name) {
    std::string output;
    return softhca_env(name, true, &output) == 0;
}

}  // namespace tern
