// SPDX-License-Identifier: BSD-3-Clause
#include "tern/base/explain_record.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "tern/base/rank_variables.h"

namespace tern::base {
namespace {

const char* folder() {
    const char* name = ::getenv("TERN_EXPLAIN");
    return name != nullptr && *name != '\0' ? name : nullptr;
}

std::string host() {
    char name[256] = "";
    (void)::gethostname(name, sizeof name - 1);
    return name;
}

std::string quoted(std::string_view text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') result += '\\';
        result += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
    return result + '"';
}

}  // namespace

bool explains() {
    return folder() != nullptr;
}

ExplainRecord::ExplainRecord(const char* event) : wanted_(explains()) {
    if (!wanted_) return;
    line_ = "{\"event\":" + quoted(event);
    add("host", host()).add("pid", static_cast<uint64_t>(::getpid()));
    for (const char* variable : kRankVariables) {
        if (::getenv(variable) == nullptr) continue;
        add_variable("rank", variable).add("rank_by", variable);
        break;
    }
}

ExplainRecord& ExplainRecord::add(const char* name, std::string_view text) {
    return wanted_ ? add_json(name, quoted(text)) : *this;
}

ExplainRecord& ExplainRecord::add(const char* name, uint64_t number) {
    return wanted_ ? add_json(name, std::to_string(number)) : *this;
}

ExplainRecord& ExplainRecord::add_json(const char* name, std::string_view json) {
    if (wanted_) line_.append(",").append(quoted(name)).append(":").append(json);
    return *this;
}

ExplainRecord& ExplainRecord::add_variable(const char* name, const char* variable) {
    const char* value = wanted_ ? ::getenv(variable) : nullptr;
    return value != nullptr ? add(name, value) : *this;
}

// A process whose folder has gone has nobody to explain anything to.
void ExplainRecord::write() {
    if (!wanted_ || !explains()) return;
    line_ += "}\n";
    const std::string path =
        std::string(folder()) + "/" + host() + "." + std::to_string(::getpid()) + ".json";
    const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return;
    [[maybe_unused]] const ssize_t written = ::write(fd, line_.data(), line_.size());
    ::close(fd);
}

}  // namespace tern::base
