// SPDX-License-Identifier: BSD-3-Clause
// `tern-run --explain`: runs a command, and says at its end what Tern did in its processes.
#pragma once

#include <string>
#include <vector>

#include "tern/tern-run/job_record.h"

namespace tern {

// Where the processes of a job leave their records.
class RecordFolder {
  public:
    // `name`: of a folder that other machines may share, which stays; empty: a temporary one.
    explicit RecordFolder(const std::string& name);
    ~RecordFolder();
    RecordFolder(const RecordFolder&) = delete;
    RecordFolder& operator=(const RecordFolder&) = delete;

    const std::string& path() const { return path_; }

  private:
    std::string path_;
    bool temporary_;
};

enum class Extent : uint8_t {
    kAll,
    kUnused,  // only if Tern was not used
};

// Prints the report to standard error. `plug_in`: see Transport. `status`: of the command, 0 if it
// is not known.
void report_job(const std::vector<ProcessRecord>& processes, bool plug_in, int status,
                Extent extent);

}  // namespace tern
