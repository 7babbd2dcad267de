// SPDX-License-Identifier: BSD-3-Clause
#include "tools/tern_run/environment.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <stdexcept>

#include "tools/common/command.h"
#include "tools/common/library.h"
#include "tools/common/mpi.h"
#include "tools/tern_run/transports.h"

namespace tern {
namespace {

template <typename Function>
Function* function(void* handle, const char* name) {
    return reinterpret_cast<Function*>(::dlsym(handle, name));
}

// The installed UCX.
struct Ucx {
    unsigned major;
    unsigned minor;
    std::string module_folder;
};

// Loads the library, and with it UCX, and checks it.
Ucx check_library(const std::string& library) {
    ::setenv("TERN_MISFIT_TOLD", "1", 0);  // this program reports the misfit itself
    // The dynamic linker finds the same UCX for the library as for the command.
    void* handle = ::dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (handle == nullptr) throw std::runtime_error(::dlerror());
    const auto misfit = function<const char*()>(handle, "tern_misfit");
    const auto get_version =
        function<void(unsigned*, unsigned*, unsigned*)>(handle, "ucp_get_version");
    if (misfit == nullptr || get_version == nullptr) {
        throw std::runtime_error(library + " is not the transport tern");
    }
    if (misfit() != nullptr) throw std::runtime_error(misfit());
    ::unsetenv("TERN_MISFIT_TOLD");
    Ucx ucx;
    unsigned release;
    get_version(&ucx.major, &ucx.minor, &release);
    Dl_info ucp;
    if (::dladdr(reinterpret_cast<void*>(get_version), &ucp) != 0) {
        const std::string path = ucp.dli_fname;
        ucx.module_folder = path.substr(0, path.rfind('/')) + "/ucx";
    }
    return ucx;
}

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
    int ends[2];
    const pid_t pid = ::pipe2(ends, O_CLOEXEC) == 0 ? ::fork() : -1;
    if (pid < 0) throw std::runtime_error(std::string("cannot run softhca: ") + strerror(errno));
    if (pid == 0) {
        ::dup2(ends[1], STDOUT_FILENO);
        ::fcntl(STDOUT_FILENO, F_SETFD, 0);  // dup2() does not clear it if both are the same
        if (quiet) ::dup2(::open("/dev/null", O_WRONLY), STDERR_FILENO);
        become_softhca(profile);
    }
    ::close(ends[1]);
    char some[4096];
    for (ssize_t n; (n = ::read(ends[0], some, sizeof some)) > 0;) {
        output->append(some, static_cast<size_t>(n));
    }
    ::close(ends[0]);
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
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

void set_up_tern(Environment* environment) {
    std::string error;
    const std::string library = tools::find_transport(&error);
    if (library.empty()) throw std::runtime_error(error);
    const Ucx ucx = check_library(library);
    // UCX loads the transport as a plug-in; for older versions it is preloaded.
    if (tools::finds_plug_ins(ucx.major, ucx.minor)) {
        environment->add_path("UCX_PLUGIN_PATH", library.substr(0, library.rfind('/')));
    } else {
        environment->add_path("LD_PRELOAD", library);
    }
    environment->set_default("UCX_TLS",
                             default_transports(ucx.major, ucx.minor, ucx.module_folder));
    for (const auto& [name, value] : tools::kOpenMpiOverUcx) environment->set_default(name, value);
}

int set_up_soft_hca(Environment* environment, const std::string& profile) {
    std::string output;
    if (const int status = softhca_env(profile, false, &output); status != 0) return status;
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);) {
        const size_t end = line.find('=');
        if (end != std::string::npos) environment->set(line.substr(0, end), line.substr(end + 1));
    }
    environment->set_default(tools::kMpichOverUcx.name, tools::kMpichOverUcx.value);
    return 0;
}

bool is_profile(const std::string& name) {
    std::string output;
    return softhca_env(name, true, &output) == 0;
}

}  // namespace tern
