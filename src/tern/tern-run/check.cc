// SPDX-License-Identifier: BSD-3-Clause
#include <dlfcn.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

#include "common/library.h"
#include "common/mpi.h"
#include "common/process.h"
#include "tern/tern-run/environment.h"
#include "tern_config.h"

namespace tern {
namespace {

enum class Verdict : uint8_t { kGood, kNote, kWrong, kGain };

// Of the transport's library (src/tern/uct/explain.h).
using SayLine = void (*)(void* argument, int verdict, const char* what, const char* finding,
                         const char* remedy);

std::string resolved(const std::string& path) {
    char real[PATH_MAX];
    return ::realpath(path.c_str(), real) != nullptr ? real : path;
}

std::string value_of(const char* variable) {
    const char* value = std::getenv(variable);
    return value != nullptr ? value : "";
}

// The software HCA moves data from process to process. Yama and filters of system calls may forbid
// it.
bool may_read_processes() {
    static int word = 0;
    const pid_t pid = ::fork();
    if (pid < 0) return true;
    if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) ::pause();
    }
    int copy = 0;
    const iovec own{&copy, sizeof copy};
    const iovec other{&word, sizeof word};  // at the same address in the child
    const bool read = ::process_vm_readv(pid, &own, 1, &other, 1, 0) == sizeof copy;
    ::kill(pid, SIGKILL);
    (void)::waitpid(pid, nullptr, 0);
    return read;
}

class Checker {
  public:
    Checker(std::string program, bool only) : program_(std::move(program)), only_(only) {}

    int all() {
        // The transport's findings are printed here, with remedies.
        ::setenv("UCX_LOG_LEVEL", "fatal", 0);
        if (check_library()) {
            check_soft_hca();
            const auto check_devices = transport_.function<void(SayLine, void*)>("tern_check");
            check_devices(
                [](void* self, int verdict, const char* what, const char* finding,
                   const char* remedy) {
                    static_cast<Checker*>(self)->line(static_cast<Verdict>(verdict), what, finding,
                                                      remedy);
                },
                this);
        }
        check_settings();
        check_open_mpi();
        check_mpich();
        if (!program_.empty()) check_ucx_of("program", program_);
        print_end();
        return wrong_ == 0 ? 0 : 1;
    }

  private:
    static void add(std::string& list, const std::string& text) {
        if (list.find(text) == std::string::npos) list += (list.empty() ? "" : "; ") + text;
    }

    void print_end() const {
        const std::string gains = wrong_ != 0 || gains_.empty() ? "nothing" : gains_;
        std::printf(
            "\n%s\nGain between machines: %s.\nTo change: %s.\n",
            wrong_ == 0 ? "Tern can be used here." : "Tern cannot be used here: see WRONG above.",
            gains.c_str(), changes_.empty() ? "nothing" : changes_.c_str());
    }

    void line(Verdict verdict, const std::string& what, const std::string& finding,
              const std::string& remedy = {}) {
        if (verdict == Verdict::kGain) return add(gains_, finding);
        if (!remedy.empty() && !remedy.starts_with("nothing is needed")) add(changes_, remedy);
        constexpr const char* kNames[] = {"good", "note", "WRONG"};
        std::printf("%-5s  %-12s  %s\n", kNames[static_cast<size_t>(verdict)], what.c_str(),
                    finding.c_str());
        if (!remedy.empty()) std::printf("%-5s  %-12s  -> %s\n", "", "", remedy.c_str());
        if (verdict == Verdict::kWrong) ++wrong_;
    }

    // False: nothing more can be said of devices.
    bool check_library() {
        try {
            transport_ = Transport::load();
        } catch (const std::exception& error) {
            line(Verdict::kWrong, "library", error.what(),
                 "install ucx-tern, or the UCX that it was built for (LD_LIBRARY_PATH)");
            return false;
        }
        char releases[kReleasesTextBytes];
        tern_releases_text(&transport_.releases, releases, sizeof releases);
        line(Verdict::kGood, "library",
             transport_.path + ", ucx-tern " PACKAGE_VERSION ", for UCX " + releases);
        if (!transport_.misfit.empty()) {
            const std::string where = transport_.ucx_path.empty() ? "" : transport_.ucx_path + ": ";
            line(Verdict::kWrong, "UCX", where + transport_.misfit,
                 value_of("LD_LIBRARY_PATH").empty()
                     ? "or install the ucx-tern of this UCX"
                     : "LD_LIBRARY_PATH=" + value_of("LD_LIBRARY_PATH") + " may choose this UCX");
            return false;
        }
        line(Verdict::kGood, "UCX",
             transport_.ucx_version + ", " + transport_.ucx_path + ", loads Tern by " +
                 (transport_.plug_in ? "UCX_PLUGIN_PATH" : "LD_PRELOAD"));
        return true;
    }

    void check_soft_hca() {
        if (value_of("LD_PRELOAD").find("libsofthca") == std::string::npos) return;
        if (!may_read_processes())
            return line(Verdict::kWrong, "software HCA",
                        "processes may not read each other's memory",
                        "permit process_vm_readv and process_vm_writev in the container's filter "
                        "of system calls; kernel.yama.ptrace_scope must be 0 or 1");
        const std::string profile = value_of("SOFTHCA_PROFILE");
        line(Verdict::kGood, "software HCA",
             "active" + (profile.empty() ? std::string() : ", with the timing of " + profile));
    }

    void check_settings() {
        const std::string set = value_of("UCX_TLS");
        const std::string& own = only_ ? transport_.only : transport_.transports;
        const std::string setting = "UCX_TLS=" + set;
        const TransportList list(set.empty() ? own : set);
        if (!list.names_tern)
            line(Verdict::kWrong, "UCX_TLS", setting + " leaves tern out",
                 "unset it, so that tern-run sets it");
        else if (list.networks)
            line(Verdict::kNote, "UCX_TLS", setting + " lets UCX prefer other networks",
                 "unset it, so that tern-run sets it");
        else
            line(Verdict::kGood, "UCX_TLS",
                 (set.empty() ? own + " (tern-run)" : set) +
                     (list.shared_memory ? ": Tern between machines, shared memory within one"
                                         : ": Tern between machines and within one"));
    }

    void check_open_mpi() {
        std::string output;
        if (tools::capture({"ompi_info", "--parsable", "--path", "pkglibdir"}, &output) != 0)
            return;
        const std::string folder =
            output.substr(output.rfind(':') + 1, output.find('\n') - output.rfind(':') - 1);
        for (const auto& [name, wanted] : tools::kOpenMpiOverUcx) {
            const std::string value = value_of(name);
            if (std::string(name) == "OMPI_MCA_pml" && !value.empty() && value != wanted)
                line(Verdict::kWrong, "Open MPI", "OMPI_MCA_pml=" + value + " leaves UCX out",
                     "unset it, or set OMPI_MCA_pml=ucx");
        }
        // Open MPI 4 loads the component; 5 may have it in its library.
        const std::string component = folder + "/mca_pml_ucx.so";
        if (::access(component.c_str(), R_OK) == 0) return check_ucx_of("Open MPI", component);
        output.clear();
        (void)tools::capture({"ompi_info", "--parsable"}, &output);
        if (output.find("mca:pml:ucx:") != std::string::npos)
            line(Verdict::kGood, "Open MPI", "has UCX (pml ucx)");
        else
            line(Verdict::kNote, "Open MPI", "was built without UCX: it cannot use Tern",
                 "build it --with-ucx");
    }

    void check_mpich() {
        const std::string device = mpich_device();
        if (device.empty()) return;
        if (!has_module(device, "ucx"))
            return line(Verdict::kNote, "MPICH", "its device is " + device + ": it cannot use Tern",
                        "build it --with-device=ch4:ucx");
        const std::string module = value_of(tools::kMpichModule.name);
        if (!module.empty() && module != tools::kMpichModule.value)
            return line(Verdict::kWrong, "MPICH",
                        std::string(tools::kMpichModule.name) + "=" + module + " leaves UCX out",
                        "unset it, so that tern-run sets it");
        const bool local = !only_ && value_of(tools::kMpichOverUcx.name) != "1";
        line(Verdict::kGood, "MPICH",
             device + (local ? "; within a machine it uses its own shared memory (--only: UCX)"
                             : ", and UCX within a machine too"));
    }

    // Which UCX the dynamic linker gives to a program or component.
    void check_ucx_of(const std::string& what, const std::string& path) {
        std::string output;
        if (tools::capture({"ldd", path}, &output) != 0)
            return line(Verdict::kNote, what, path + ": ldd cannot read it",
                        "a static program cannot load Tern");
        std::istringstream lines(output);
        for (std::string text; std::getline(lines, text);) {
            const size_t arrow = text.find("=> ");
            if (text.find("libucp.so") == std::string::npos || arrow == std::string::npos) continue;
            const std::string libucp =
                resolved(text.substr(arrow + 3, text.rfind(" (") - arrow - 3));
            if (libucp == resolved(transport_.ucx_path))
                line(Verdict::kGood, what, path + " uses this UCX");
            else
                line(Verdict::kNote, what, path + " uses another UCX, " + libucp,
                     "build Tern for it (configure --with-ucx=PREFIX), or name the folder of " +
                         transport_.ucx_path + " in LD_LIBRARY_PATH");
            return;
        }
        line(Verdict::kGood, what, path + " is not linked with UCX; its MPI library loads UCX");
    }

    std::string program_;
    bool only_;
    Transport transport_;
    unsigned wrong_ = 0;
    std::string gains_;    // what the transport says
    std::string changes_;  // the remedies of what is not good
};

}  // namespace

int check(const std::string& program, bool only) {
    return Checker(program, only).all();
}

}  // namespace tern
