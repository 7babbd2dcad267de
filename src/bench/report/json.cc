// SPDX-License-Identifier: BSD-3-Clause
#include <fcntl.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/report/figure.h"
#include "bench/report/machine.h"
#include "common/descriptor.h"

namespace report {

// Of this program. The build makes commit.cc.
extern const char kVersion[];
extern const char kCommit[];

namespace {

using Json = nlohmann::ordered_json;

// contrib/tables.py reads files of this form. It rises when a key changes its meaning or goes.
constexpr int kSchema = 1;

// Whole numbers are written without a fraction, others with as many digits as can mean something.
Json value_of(double number) {
    constexpr double kExact = 0x1p53;
    if (number == std::floor(number) && std::abs(number) < kExact) {
        return static_cast<int64_t>(number);
    }
    return std::strtod(formatted("%.6g", number).c_str(), nullptr);
}

// JSON has neither NaN nor infinity.
void add(Json* object, const char* key, double number) {
    if (std::isfinite(number)) (*object)[key] = value_of(number);
}

Json object_of(const Figure& figure) {
    Json object = {{"test", figure.test}};
    add(&object, "x", figure.x);
    object["x_text"] = figure.x_text;
    object["name"] = figure.name;
    object["unit"] = figure.unit;
    if (figure.refused())
        object["refused"] = true;
    else
        add(&object, "median", figure.value.median);
    if (figure.value.count > 1 && !figure.refused()) {
        add(&object, "p10", figure.value.p10);
        add(&object, "p90", figure.value.p90);
        add(&object, "min", figure.value.min);
        add(&object, "max", figure.value.max);
        object["samples"] = figure.value.count;
    }
    add(&object, "late_share", figure.late_share);
    add(&object, "cpu_share", figure.cpu_share);
    if (!figure.refused())
        for (const double round : figure.rounds) object["rounds"].push_back(value_of(round));
    object["doubts"] = figure.doubts;
    return object;
}

std::string date_text() {
    const time_t now = ::time(nullptr);
    tm utc;
    ::gmtime_r(&now, &utc);
    char text[32];
    return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc)};
}

Json object_of(const Machine& machine) {
    return {{"cpu", machine.cpu},
            {"cores", machine.cores},
            {"kernel", machine.kernel},
            {"virtual", machine.is_virtual}};
}

// The sizes of messages, each once.
Json sizes_of(const std::vector<Figure>& figures) {
    std::set<double> sizes;
    for (const Figure& figure : figures) {
        if (figure.x > 0 && figure.x_text == size_text(static_cast<uint32_t>(figure.x)))
            sizes.insert(figure.x);
    }
    return std::vector<uint32_t>(sizes.begin(), sizes.end());
}

// The file that a name stands for: a link is followed.
std::filesystem::path target_of(const std::string& name) {
    std::error_code ignored;
    std::filesystem::path target = std::filesystem::weakly_canonical(name, ignored);
    return target.empty() ? std::filesystem::path(name) : target;
}

bool is_replaceable(const std::filesystem::path& target) {
    std::error_code ignored;
    return !std::filesystem::exists(target, ignored) ||
           std::filesystem::is_regular_file(target, ignored);
}

// Writes a new file, of this process alone.
void write_new(const std::string& name, const std::string& text) {
    const tools::Descriptor file(
        ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file.get() < 0) throw call_failed(name);
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    if (written == static_cast<ssize_t>(text.size()) && ::fsync(file.get()) == 0) return;
    const Failure failure = call_failed(name);
    ::unlink(name.c_str());
    throw failure;
}

// The name of a new file beside another one.
std::string beside(const std::filesystem::path& target) {
    return target.string() + "." + std::to_string(::getpid());
}

}  // namespace

void check_writable(const std::string& name) {
    const std::filesystem::path target = target_of(name);
    if (is_replaceable(target)) {
        write_new(beside(target), "");
        ::unlink(beside(target).c_str());
    } else if (::access(name.c_str(), W_OK) != 0 || std::filesystem::is_directory(target)) {
        throw call_failed(name);
    }
}

void write_file(const std::string& name, const std::string& text) {
    const std::filesystem::path target = target_of(name);
    if (is_replaceable(target)) {
        write_new(beside(target), text);
        if (::rename(beside(target).c_str(), target.c_str()) == 0) return;
        ::unlink(beside(target).c_str());
        throw call_failed(name);
    }
    std::ofstream file(name);
    if (!file.write(text.data(), static_cast<std::streamsize>(text.size())).flush())
        throw call_failed(name);
}

std::string as_json(const Facts& facts, const std::vector<Figure>& figures,
                    const std::vector<std::string>& gaps) {
    Json result = {{"schema", kSchema},
                   {"version", std::string(kVersion)},
                   {"commit", std::string(kCommit)},
                   {"date", date_text()},
                   {"machine", object_of(this_machine())}};
    for (const auto& [key, text] : facts) result[key] = text;
    if (!gaps.empty()) result["incomplete"] = gaps;
    result["sizes"] = sizes_of(figures);
    result["figures"] = Json::array();
    for (const Figure& figure : figures) result["figures"].push_back(object_of(figure));
    // Texts come from the environment, too: bytes that are not UTF-8 are replaced.
    return result.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace report
