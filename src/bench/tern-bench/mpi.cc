// SPDX-License-Identifier: BSD-3-Clause
// MPI over Tern and over stock UCX: messages, all-to-alls, puts and gets of two ranks.
#include <algorithm>

#include "bench/tern-bench/command.h"

namespace bench {
namespace {

constexpr const char* kMpiNotes =
    "Two ranks. ping-pong: half round trips. at once: 16 messages, puts or gets, at least 4 and up "
    "to 4 MiB of them.\n"
    "put, get: one with a flush. fresh: each operation in memory that was never sent from or "
    "received into. `?`: see\n"
    "behind the line; `<`, `>`: misses the target.\n";
constexpr const char* kOpenibNotes =
    "openib: Open MPI without UCX, over its own btl openib: up to 12 KiB by RDMA writes into fixed "
    "slots, or by sends\n"
    "(no eager RDMA); longer messages with registrations that are kept (leave_pinned), or made "
    "piece "
    "by piece (pipelined).\n";
constexpr uint32_t kOpenibEager = 12 << 10;  // its eager limit

constexpr uint32_t kMpiBytes = 8 << 20;  // of an order
constexpr uint32_t kMpiAtOnce = 16;

using Kind = Order::Kind;
using Request = Order::Request;

struct Test {
    std::string_view title;
    Kind kind;
    Buffers buffers = Buffers::kReused;
    bool at_once = false;  // the result is a bandwidth
    Request request = Request::kSend;

    uint32_t parts(uint32_t size) const {
        return at_once ? std::clamp(kBytesAtOnce / size, 4U, kMpiAtOnce) : 1;
    }
    Order order(uint32_t size, bool quick) const {
        const uint32_t operations =
            std::clamp(kMpiBytes / size / parts(size), 10U, size <= kShort ? 50U : 100U);
        const uint32_t samples = quick ? std::max(operations / 10, 3U) : operations;
        const uint32_t batch = size <= kShort ? 10 : 1;
        // A burst of messages is one sample.
        const uint64_t per_sample = kind == Kind::kStream ? parts(size) : batch;
        return {.kind = kind,
                .size = size,
                .count = samples * per_sample,
                .per_sample = per_sample,
                .buffers = buffers,
                .request = request,
                .window = parts(size),
                .warm_up = buffers == Buffers::kFresh ? 3U : 20U};
    }
};

constexpr Test kTests[] = {
    {"ping-pong, reused buffers", Kind::kMessages},
    {"ping-pong, fresh buffers", Kind::kMessages, Buffers::kFresh},
    {"messages at once", Kind::kStream, Buffers::kReused, true},
    {"all-to-all, reused buffers", Kind::kAllToAll},
    {"all-to-all, fresh buffers", Kind::kAllToAll, Buffers::kFresh},
    {"put, reused buffers", Kind::kOneSided, Buffers::kReused, false, Request::kWrite},
    {"put, fresh buffers", Kind::kOneSided, Buffers::kFresh, false, Request::kWrite},
    {"puts at once", Kind::kOneSided, Buffers::kReused, true, Request::kWrite},
    {"get, reused buffers", Kind::kOneSided, Buffers::kReused, false, Request::kRead},
    {"get, fresh buffers", Kind::kOneSided, Buffers::kFresh, false, Request::kRead},
    {"gets at once", Kind::kOneSided, Buffers::kReused, true, Request::kRead},
};

// The comparisons of --brief: what differs most from rc_v, the latency and what is sent from
// buffers that were not used before. `library` is the number of the MPI, if there are two.
struct Brief {
    size_t library;
    const char* test;
    uint32_t size;
};
constexpr Brief kBrief[] = {
    {0, "ping-pong, reused buffers", 8},
    {1, "ping-pong, reused buffers", 8},
    {0, "ping-pong, fresh buffers", 1 << 20},
    {1, "all-to-all, fresh buffers", 256 << 10},
};

// Adds what one MPI does in a test. `like`: also in private memory, like with like, since the
// memory of rc_v is private; --brief measures Tern only there then.
void add_library(Group& group, const Options& options, const ShimLibrary& library, const Test& test,
                 bool like) {
    const std::string tls = ucp_name(options);
    const std::string before = library.toolchain.name + ": ";
    const std::string yardstick = before + "rc_v";
    const Order order = test.order(group.size, options.quick);
    const Arm tern = shim_arm(library, tls, "private");
    const auto compare = [&](const std::string& name, const Arm& arm) {
        group.add(before + name, arm, order);
        group.ratios.push_back({before + name, yardstick,
                                test.at_once ? kBandwidthToVerbs : kTimeToVerbs,
                                before + name + " / rc_v"});
    };
    if (like) compare(tls + ", private", in_private_memory(tern));
    group.add(yardstick, shim_arm(library, "rc_v", "private"), order);
    if (!like || !options.brief) compare(tls, tern);
}

// Adds what Open MPI does by itself; `tern` is the name of what is compared with it.
void add_openib(Group& group, const Options& options, const ShimLibrary& library, const Test& test,
                const std::string& tern) {
    const std::string before = library.toolchain.name + ": ";
    const Order order = test.order(group.size, options.quick);
    group.add(before + "openib", openib_arm(library, true, true), order);
    group.ratios.push_back({before + tern, before + "openib", kNone, before + tern + " / openib"});
    if (group.size > kOpenibEager) {
        group.add(before + "openib, pipelined", openib_arm(library, true, false), order);
    } else if (test.kind != Kind::kOneSided) {
        group.add(before + "openib, no eager RDMA", openib_arm(library, false, true), order);
    }
}

// A line for the ratio, and for the two values of which it is the ratio.
Cells brief_line(const Figure& ratio, const std::vector<Figure>& figures) {
    const std::string mpi = ratio.name.substr(0, ratio.name.find(": ") + 2);
    const auto value = [&](const std::string& name) {
        const auto found = std::ranges::find_if(figures, [&](const Figure& one) {
            return one.test == ratio.test && one.x == ratio.x && one.name == name;
        });
        return number_text(found->value.median) + " " + found->unit;
    };
    const size_t comma = ratio.test.find(',');
    return {
        "  " + mpi + ratio.test.substr(0, comma) + " of " + ratio.x_text + ratio.test.substr(comma),
        formatted("%.2f", ratio.value.median),
        formatted("%.2f to %.2f", ratio.value.min, ratio.value.max),
        value(ratio.name.substr(0, ratio.name.find(" / "))),
        value(mpi + "rc_v"),
        doubts_text(ratio)};
}

std::string brief_table(const std::string& tls, const std::vector<Figure>& figures) {
    std::vector<Cells> lines = {{"", tls + " / rc_v", "range", tls, "rc_v", ""}};
    for (const Figure& ratio : figures) {
        if (ratio.is_ratio()) lines.push_back(brief_line(ratio, figures));
    }
    return in_columns(lines, "lrlrrl");
}

}  // namespace

Result run_mpi(const Options& options, const Setup& setup) {
    const std::string tls = ucp_name(options);
    const bool differs = shared_memory_differs(setup);
    // Unless the model of a profile decides about times.
    const bool like = differs && (!options.brief || device_profile() == "ideal");
    std::string left_out;
    const std::deque<ShimLibrary> libraries = compile_mpi_shims(&left_out);
    if (libraries.empty()) {
        throw Failure(
            "there is no MPI: neither mpicc.openmpi and mpirun.openmpi, nor mpicc.mpich and "
            "mpirun.mpich, nor mpicc and mpirun are in PATH. Debian: apt install "
            "libopenmpi-dev openmpi-bin libmpich-dev mpich");
    }
    Series series = make_series(options, setup, 1, 2);
    const auto add = [&](const Test& test, uint32_t size) -> Group& {
        return series.add(
            {.test = std::string(test.title), .size = size, .unit = test.at_once ? "GB/s" : "us"});
    };
    if (options.brief) {
        for (const auto& [library, title, size] : kBrief) {
            const Test& test = *std::ranges::find(kTests, std::string_view(title), &Test::title);
            add_library(add(test, size), options,
                        libraries[std::min(library, libraries.size() - 1)], test, like);
        }
        const std::vector<Figure> figures = series.run();
        return {
            figures, brief_table(tls, figures),
            "Half of a round trip, and all of an all-to-all, of two ranks, in turns: below 1, " +
                tls + " takes less time.\n" +
                "8 B: the latency, where Tern writes into memory that the receiver polls.\n"
                "Fresh buffers: Tern hides their registration behind the time on the wire" +
                (like ? "; here the wire takes no time, so a ratio\n"
                        "above 1 is to be expected. --profile cx5-edr gives the device the times "
                        "of an adapter.\n"
                        "All memory is private to the software HCA, as that of rc_v is "
                        "(SOFTHCA_SHARED=off): like with like.\n"
                      : ".\n") +
                left_out};
    }
    for (const Test& test : kTests) {
        for (const uint32_t size : long_sizes(options)) {
            Group& group = add(test, size);
            for (const ShimLibrary& library : libraries) {
                add_library(group, options, library, test, like);
                if (!options.openib || library.toolchain.name == "MPICH") continue;
                add_openib(group, options, library, test,
                           ucp_name(options) + (like ? ", private" : ""));
            }
        }
    }
    const std::vector<Figure> figures = series.run();
    std::string notes = kMpiNotes + std::string(options.openib ? kOpenibNotes : "") +
                        (differs ? kSharedMemoryNote : "") + left_out;
    for (const std::string& library : series.libraries()) notes += library + ".\n";
    return {figures, as_groups(figures), notes};
}

}  // namespace bench
