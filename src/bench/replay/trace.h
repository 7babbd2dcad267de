// SPDX-License-Identifier: BSD-3-Clause
// What a rank of an MPI job did, as the recorder writes it. One text file for each rank; the first
// line is kTraceHeader, each other line an event. Numbers are decimal, those with * hexadecimal:
//
//   a WORKER*                                the identity of this rank's worker
//   e ENDPOINT WORKER*                       an endpoint that leads to a worker; counted from 0
//   c NS                                     processor time of the program and its MPI library
//   s ID ENDPOINT TAG* BYTES ADDRESS* SYNC   a send; SYNC 1: it ends when it has been matched
//   r ID TAG* MASK* BYTES ADDRESS*           a receive
//   p TAG* MASK* REMOVE                      a probe that found a message; REMOVE 1: for `m`
//   m ID BYTES ADDRESS*                      a receive of the message that was removed last
//   w ID                                     the program learned that it has ended
//   t ID                                     the same, from a call that returns whatever has ended
//   x ID                                     it was cancelled
//   u ADDRESS* BYTES                         the program gave pages of messages back to the system
//
// Identifiers count sends and receives from 0. Pure, and without UCX.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

namespace bench::replay {

constexpr const char* kTraceHeader = "tern-trace 1";

struct Event {
    enum class Kind : char {
        kCompute = 'c',
        kSend = 's',
        kReceive = 'r',
        kProbe = 'p',
        kReceiveMessage = 'm',
        kWait = 'w',
        kChoice = 't',  // such a wait, too
        kCancel = 'x',
        kGiveBack = 'u',
    };
    Kind kind;
    uint64_t id = 0;
    uint64_t peer = 0;  // of a send: an endpoint in the file, a rank in what load() returns
    uint64_t tag = 0;
    uint64_t mask = 0;
    uint64_t bytes = 0;  // of a computation: ns
    uint64_t address = 0;
    bool flag = false;  // SYNC, REMOVE

    bool waits() const { return kind == Kind::kWait || kind == Kind::kChoice; }
    bool has_buffer() const {
        return kind == Kind::kSend || kind == Kind::kReceive || kind == Kind::kReceiveMessage;
    }
};

struct Trace {
    std::vector<uint64_t> workers;
    std::vector<uint64_t> endpoints;
    std::vector<Event> events;
    uint64_t requests = 0;  // identifiers are below
};

// Throws report::Failure with `name` and the line if this is not a trace.
Trace read_trace(std::istream& from, const std::string& name);
// Replaces endpoints by ranks, the places of the traces in the list. Throws report::Failure if a
// rank that another sends to is not there.
void find_peers(std::vector<Trace>& traces);
std::vector<Trace> load(const std::vector<std::string>& files);

}  // namespace bench::replay
