// SPDX-License-Identifier: BSD-3-Clause
// The `softhca-bench` command: measures an HCA, above all the software HCA, beside the machine it
// runs on and beside its timing model.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "bench/measure/cpus.h"
#include "bench/measure/device.h"
#include "bench/measure/failure.h"
#include "bench/softhca-bench/job.h"
#include "bench/softhca-bench/output.h"
#include "bench/softhca-bench/worker.h"
#include "core/nic_model.h"

namespace softhca::bench {
namespace {

constexpr int kExitUsage = 2;

bool preloaded() {
    const char* list = std::getenv("LD_PRELOAD");
    return list != nullptr && std::strstr(list, "libsofthca") != nullptr;
}

/// The section on the device that there is, or else on a software HCA.
Job device_job(const std::string& section, const Options& options) {
    Job job;
    job.title = section == "small" ? "small messages" : "bandwidth";
    job.section = section;
    job.own_device = !has_device(options.device);
    if (job.own_device && (preloaded() || !options.device.empty())) throw Failure("no such device");
    return job;
}

Job model_job(const std::string& profile, const std::string& model) {
    return {"profile " + profile, "model", true, profile, model};
}

std::string model_of(const Job& job) {
    NicParameters nic = *find_profile(job.profile);
    apply_model_overrides(job.model, nic);
    return describe(nic);
}

std::string placement() {
    const auto cpus = choose_cpus();
    if (!cpus) return "both processes on one CPU";
    return "the processes on CPUs " + std::to_string(cpus->first) + " and " +
           std::to_string(cpus->second);
}

/// What else the machine is doing decides what the figures are worth.
std::string load() {
    double average = 0;
    if (::getloadavg(&average, 1) != 1) return "unknown";
    char text[32];
    std::snprintf(text, sizeof text, "%.1f", average);
    return text;
}

class Conductor {
  public:
    explicit Conductor(const Options& options) : options_(options) {}

    void run() {
        if (!options_.json) {
            std::printf("%s, %d rounds, load average %s\n", placement().c_str(), options_.rounds,
                        load().c_str());
        }
        for (const std::string& section : options_.sections) {
            if (section == "model") {
                run_models();
            } else {
                const Job job = device_job(section, options_);
                require_tool(job);
                show(job, run_job(job, options_));
            }
        }
        if (options_.json) {
            std::fputs(as_json({{"placement", placement()},
                                {"load_average", load()},
                                {"rounds", std::to_string(options_.rounds)},
                                {"model", options_.model}},
                               all_)
                           .c_str(),
                       stdout);
        }
    }

  private:
    static void require_tool(const Job& job) {
        if (job.own_device && find_tool().empty()) {
            throw Failure("the softhca command is not next to this program");
        }
    }

    /// What the machine alone takes comes first, to stand beside the models.
    void run_models() {
        const Job machine = model_job("ideal", "");
        require_tool(machine);
        std::map<std::string, double> alone;
        for (const Row& row : run_job(machine, options_)) alone[row.label] = row.value.median;
        for (const std::string& profile : options_.profiles) {
            const Job job = model_job(profile, options_.model);
            std::vector<Row> rows = run_job(job, options_);
            for (Row& row : rows) row.machine = alone.at(row.label);
            show(job, rows);
        }
    }

    void show(const Job& job, const std::vector<Row>& rows) {
        all_.insert(all_.end(), rows.begin(), rows.end());
        if (options_.json || rows.empty()) return;
        std::printf("\n%s, %s", job.title.c_str(), rows.front().device);
        if (job.section == "model") std::printf(" (%s)", model_of(job).c_str());
        std::printf("\n%s", as_table(rows).c_str());
        std::fflush(stdout);
    }

    const Options& options_;
    std::vector<Row> all_;
};

int main_of(int argc, char** argv) {
    Options options;
    const std::string error = parse_options(argc, argv, &options);
    if (!error.empty()) {
        std::fprintf(stderr, "softhca-bench: %s\nTry 'softhca-bench --help'.\n", error.c_str());
        return kExitUsage;
    }
    if (options.help) {
        print_usage();
        return 0;
    }
    try {
        if (options.row_fd >= 0) {
            run_section(options);
        } else {
            Conductor(options).run();
        }
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "softhca-bench: %s\n", failure.what());
        return 1;
    }
    return 0;
}

}  // namespace
}  // namespace softhca::bench

int main(int argc, char** argv) {
    return softhca::bench::main_of(argc, argv);
}
