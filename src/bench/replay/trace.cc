// SPDX-License-Identifier: BSD-3-Clause
#include "bench/replay/trace.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string_view>
#include <system_error>
#include <unordered_map>

#include "bench/report/text.h"

namespace bench::replay {
namespace {

// Takes the words of a line; false after one that is missing or wrong.
class Words {
  public:
    explicit Words(std::string_view line) : left_(line) {}
    bool kind(char& to) {
        const std::string_view word = next();
        if (word.size() == 1) to = word.front();
        return word.size() == 1;
    }
    template <typename... Numbers>
    bool decimal(Numbers&... to) {
        return (number(to, 10) && ...);
    }
    template <typename... Numbers>
    bool hexadecimal(Numbers&... to) {
        return (number(to, 16) && ...);
    }
    bool end() const { return left_.empty(); }

  private:
    std::string_view next() {
        const std::string_view word = left_.substr(0, left_.find(' '));
        left_.remove_prefix(std::min(word.size() + 1, left_.size()));
        return word;
    }
    bool number(uint64_t& to, int base) {
        const std::string_view word = next();
        const auto [end, error] = std::from_chars(word.begin(), word.end(), to, base);
        return error == std::errc() && end == word.end();
    }
    bool number(bool& to, int base) {
        uint64_t value = 0;
        if (!number(value, base)) return false;
        to = value == 1;
        return value <= 1;
    }

    std::string_view left_;
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
        case Kind::kChoice:
        case Kind::kCancel:
            return words.decimal(event.id);
        case Kind::kGiveBack:
            return words.hexadecimal(event.address) && words.decimal(event.bytes);
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
    if (event.kind != Event::Kind::kCompute && event.bytes > UINT64_MAX - event.address)
        return false;
    if (event.has_buffer() && event.id != trace.requests++) return false;
    if (event.kind == Event::Kind::kSend && event.peer >= trace.endpoints.size()) return false;
    if ((event.waits() || event.kind == Event::Kind::kCancel) && event.id >= trace.requests)
        return false;
    trace.events.push_back(event);
    return true;
}

}  // namespace

Trace read_trace(std::istream& from, const std::string& name) {
    Trace trace;
    uint64_t number = 1;
    std::string line;
    if (!std::getline(from, line) || from.eof() || line != kTraceHeader)
        throw report::Failure(name + " is not a trace of tern-record");
    while (++number, std::getline(from, line)) {
        const bool cut_off = from.eof();
        if (!cut_off && take(line, trace)) continue;
        throw report::Failure(name + ", line " + std::to_string(number) + ": " +
                              (cut_off ? "cut off" : "not an event") + ": '" + line + "'");
    }
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
            const auto found = ranks.find(trace.endpoints[event.peer]);
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
