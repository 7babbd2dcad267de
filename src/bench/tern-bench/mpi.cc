// SPDX-License-Identifier: BSD-3-Clause
// MPI programs over Tern and over stock UCX: messages, all-to-alls, puts and gets of two ranks.
#include <deque>
#include <map>
#include <tuple>

#include "bench/series/rounds.h"
#include "bench/tern-bench/arms.h"
#include "bench/tern-bench/mpi_output.h"
#include "bench/tern-bench/mpi_program.h"

namespace bench {
namespace {

// Targets for Tern's ratio to rc_v.
constexpr double kLatency = 1.05;
constexpr double kBandwidth = 0.98;

constexpr const char* kNotes =
    "Two ranks. ping-pong: half round trips. at once: 16 messages, puts or gets, at least 4 and up "
    "to 4 MiB of them.\n"
    "put, get: one with a flush. fresh: each operation in memory that was never sent from or "
    "received into. `?`: see\n"
    "behind the line; `<`, `>`: misses the target.\n";

struct Test {
    const char* key;  // in mpi_program.c
    const char* title;
    bool bandwidth = false;
};
constexpr Test kTests[] = {
    {"ping-pong", "ping-pong, reused buffers"},
    {"ping-pong-fresh", "ping-pong, fresh buffers"},
    {"stream", "messages at once", true},
    {"all-to-all", "all-to-all, reused buffers"},
    {"all-to-all-fresh", "all-to-all, fresh buffers"},
    {"put", "put, reused buffers"},
    {"put-fresh", "put, fresh buffers"},
    {"put-stream", "puts at once", true},
    {"get", "get, reused buffers"},
    {"get-fresh", "get, fresh buffers"},
    {"get-stream", "gets at once", true},
};

class MpiSeries {
  public:
    MpiSeries(const Options& options, const Setup& setup)
        : options_(options),
          setup_(setup),
          sizes_(long_sizes(options)),
          differs_(shared_memory_differs(setup)) {
        const std::string tls = options.transport == "rc_verbs" ? "rc_v" : options.transport;
        const Arm tern = ucp_arm(tls, tls + ",self");
        const Arm verbs = ucp_arm("rc_v", "rc_v,self");
        // Like with like first: the memory of rc_v is private.
        if (differs_) arms_ = {in_private_memory(tern), verbs, tern};
        if (!differs_) arms_ = {tern, verbs};
        for (const Toolchain& mpi : find_mpis()) {
            if (mpi.installed()) {
                programs_.emplace_back(mpi);
            } else {
                notes_ += left_out_text(mpi);
            }
        }
        if (programs_.empty()) {
            throw Failure(
                "there is no MPI: neither mpicc.openmpi and mpirun.openmpi, nor mpicc.mpich and "
                "mpirun.mpich, nor mpicc and mpirun are in PATH. Debian: apt install "
                "libopenmpi-dev openmpi-bin libmpich-dev mpich");
        }
    }

    Result run() {
        const int rounds = options_.quick ? 1 : options_.rounds;
        for (int round = 0; round < rounds; ++round) {
            for (const MpiProgram& program : programs_) {
                for (size_t i = 0; i < arms_.size(); ++i)
                    measure(program, arms_[round % 2 == 0 ? i : arms_.size() - 1 - i]);
            }
        }
        Result result;
        for (const Test& test : kTests) {
            for (const uint32_t size : sizes_) add_figures(test, size, &result.figures);
        }
        result.table = as_groups(result.figures);
        result.notes = kNotes + std::string(differs_ ? kSharedMemoryNote : "") + notes_;
        return result;
    }

  private:
    static constexpr size_t kVerbs = 1;  // of arms_
    struct Rounds {
        Samples medians = {};
        Samples cpu = {};
    };
    // MPI, arm, key of the test, size
    using Key = std::tuple<std::string, std::string, std::string, uint32_t>;

    void measure(const MpiProgram& program, const Arm& arm) {
        const Cpus& cpus = setup_.cpus;
        Words arguments = {std::to_string(cpus ? cpus->first : -1),
                           std::to_string(cpus ? cpus->second : -1), options_.quick ? "10" : "1"};
        for (const uint32_t size : sizes_) arguments.push_back(std::to_string(size));
        try {
            const MpiOutput output =
                parse_mpi_output(program.run(arguments, environment_of(arm, setup_)));
            for (const Test& test : kTests) {
                for (const uint32_t size : sizes_) {
                    const MpiResult& one = output.find(test.key, size);
                    Rounds& rounds = rounds_[{program.name(), arm.name, test.key, size}];
                    rounds.medians.push_back(one.value);
                    rounds.cpu.push_back(one.cpu_share);
                }
            }
            if (notes_.find(output.library) == std::string::npos) notes_ += output.library + ".\n";
        } catch (const Failure& failure) {
            throw Failure(program.name() + " over " + arm.name + ": " + failure.what());
        }
    }

    void add_figures(const Test& test, uint32_t size, std::vector<Figure>* figures) const {
        Figure outline;
        outline.test = test.title;
        outline.x = size;
        outline.x_text = size_text(size);
        outline.unit = test.bandwidth ? "GB/s" : "us";
        for (const MpiProgram& program : programs_) {
            const auto rounds = [&](const Arm& arm) -> const Rounds& {
                return rounds_.at({program.name(), arm.name, test.key, size});
            };
            const std::string before = program.name() + ": ";
            for (const Arm& arm : arms_) {
                Figure& figure = figures->emplace_back(outline);
                figure.name = before + arm.name;
                figure.value = summarize(rounds(arm).medians);
                figure.cpu_share = median(rounds(arm).cpu);
                doubt_value(&figure, rounds(arm).medians, setup_.cpus.has_value(),
                            figure.cpu_share);
            }
            const Arm& verbs = arms_[kVerbs];
            for (const Arm& arm : arms_) {
                if (arm == verbs) continue;
                Figure figure = outline;
                figure.name = before + arm.name + " / " + verbs.name;
                figure.target = test.bandwidth ? kBandwidth : kLatency;
                figure.at_most = !test.bandwidth;
                figures->push_back(
                    ratio_figure(std::move(figure), rounds(arm).medians, rounds(verbs).medians));
            }
        }
    }

    const Options& options_;
    const Setup& setup_;
    const std::vector<uint32_t> sizes_;
    const bool differs_;
    std::vector<Arm> arms_;
    std::deque<MpiProgram> programs_;
    std::map<Key, Rounds> rounds_;
    std::string notes_;
};

}  // namespace

Result run_mpi(const Options& options, const Setup& setup) {
    return MpiSeries(options, setup).run();
}

}  // namespace bench
