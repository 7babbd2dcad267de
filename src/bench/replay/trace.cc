// SPDX-License-Identifier: BSD-3-Clause
#include "bench/replay/trace.h"

#include <fstream>
#include <sstream>
#include <unordered_map>

#include "report/text.h"

namespace bench::replay {
namespace {

// Takes the words of a line; false after one that is missing or wrong.
class Words {
  public:
    explicit Words(const std::string& line) : words_(line) {}
    bool kind(char& to) {
        words_ >> to;
        return static_cast<bool>(words_);
    }
    template <typename... Numbers>
    bool decimal(Numbers&... to) {
        words_ >> std::dec;
        (words_ >> ... >> to);
        return static_cast<bool>(words_);
    }
    template <typename... Numbers>
    bool hexadecimal(Numbers&... to) {
        words_ >> std::hex;
        (words_ >> ... >> to);
        return static_cast<bool>(words_);
    }
    bool end() {
        std::string more;
        return !(words_ >> more);
    }

  private:
    std::istringstream words_;
};

// The rest of an event's line.
bool take(Words& words, Event& event) {
    using Kind = Event::Kind;
    switch (event.kind) {
        case Kind::kCompute:
            return words.decimal(event.bytes);
        case Kind::kSend:
            return words.decimal(event.id, event.peer) && words.hexadecimal(event.tag) &&
                   words.decimal(event.bytes) && words.hexadecimal(event.address) &&
                   words.decimal(event.flag);
        case Kind::kReceive:
            return words.decimal(event.id) && words.hexadecimal(event.tag, event.mask) &&
                   words.decimal(event.bytes) && words.hexadecimal(event.address);
        case Kind::kProbe:
            return words.hexadecimal(event.tag, event.mask) && words.decimal(event.flag);
        case Kind::kReceiveMessage:
            return words.decimal(event.id, event.bytes) && words.hexadecimal(event.address);
        case Kind::kWait:
        case Kind::kCancel:
            return words.decimal(event.id);
    }
    return false;
}

bool take(const std::string& line, Trace& trace) {
    Words words(line);
    char kind = 0;
    if (!words.kind(kind)) return false;
    uint64_t worker = 0, endpoint = 0;
    if (kind == 'a' || kind == 'e') {
        if (kind == 'e' && (!words.decimal(endpoint) || endpoint != trace.endpoints.size()))
            return false;
        if (!words.hexadecimal(worker)) return false;
        (kind == 'a' ? trace.workers : trace.endpoints).push_back(worker);
        return words.end();
    }
    Event event{static_cast<Event::Kind>(kind)};
    if (!take(words, event) || !words.end()) return false;
    const bool makes = event.has_buffer();
    if (makes && event.id != trace.requests++) return false;
    if ((event.kind == Event::Kind::kWait || event.kind == Event::Kind::kCancel) &&
        event.id >= trace.requests)
        return false;
    trace.events.push_back(event);
    return true;
}

}  // namespace

Trace read_trace(std::istream& from, const std::string& name) {
    Trace trace;
    uint64_t number = 1;
    std::string line;
    if (!std::getline(from, line) || line != kTraceHeader)
        throw report::Failure(name + " is not a trace of tern-record");
    while (++number, std::getline(from, line))
        if (!take(line, trace))
            throw report::Failure(name + ", line " + std::to_string(number) + ": not an event: '" +
                                  line + "'");
    return trace;
}

void find_peers(std::vector<Trace>& traces) {
    std::unordered_map<uint64_t, uint64_t> ranks;
    for (size_t rank = 0; rank < traces.size(); ++rank)
        for (const uint64_t worker : traces[rank].workers) ranks[worker] = rank;
    for (size_t rank = 0; rank < traces.size(); ++rank) {
        Trace& trace = traces[rank];
        for (Event& event : trace.events) {
            if (event.kind != Event::Kind::kSend) continue;
            const auto found = event.peer < trace.endpoints.size()
                                   ? ranks.find(trace.endpoints[event.peer])
                                   : ranks.end();
            if (found == ranks.end())
                throw report::Failure("rank " + std::to_string(rank) +
                                      " sends to one whose trace is not there");
            event.peer = found->second;
        }
    }
}

std::vector<Trace> load(const std::vector<std::string>& files) {
    std::vector<Trace> traces;
    for (const std::string& name : files) {
        std::ifstream file(name);
        traces.push_back(read_trace(file, name));
    }
    find_peers(traces);
    return traces;
}

}  // namespace bench::replay
