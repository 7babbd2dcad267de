// SPDX-License-Identifier: BSD-3-Clause
// The records of a process for `tern-run --explain`. Control path.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tern::base {

// Whether the environment asks for records: TERN_EXPLAIN names the folder that gets them.
bool explains();

// A line of JSON about this process, in a file of its own in that folder. docs/tern/running.md
// names the records. Nothing is written, nor allocated, unless records are asked for.
class ExplainRecord {
  public:
    explicit ExplainRecord(const char* event);
    ExplainRecord& add(const char* name, std::string_view text);
    ExplainRecord& add(const char* name, uint64_t number);
    // A value that is JSON.
    ExplainRecord& add_json(const char* name, std::string_view json);
    // The value of an environment variable, if it is set.
    ExplainRecord& add_variable(const char* name, const char* variable);
    void write();

  private:
    bool wanted_;
    std::string line_;
};

}  // namespace tern::base
