// SPDX-License-Identifier: BSD-3-Clause
// Traces of MPI jobs that tern-bench replay reads.
#include "bench/replay/trace.h"

#include <sstream>

#include "bench/report/text.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace bench::replay;
    using tern::fuzz::require;
    std::istringstream text(std::string(kTraceHeader) + "\n" +
                            std::string(reinterpret_cast<const char*>(data), size));
    try {
        std::vector<Trace> traces{read_trace(text, "file")};
        traces.push_back(traces.front());
        find_peers(traces);
        for (const Trace& trace : traces)
            for (const Event& event : trace.events) {
                require(event.kind != Event::Kind::kSend || event.peer < traces.size(),
                        "a send to nobody");
                require(!event.waits() || event.id < trace.requests, "a wait for nothing");
            }
    } catch (const report::Failure& failure) {
        require(failure.what()[0] != '\0', "an error has no text");
    }
    return 0;
}
