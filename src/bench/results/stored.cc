// SPDX-License-Identifier: BSD-3-Clause
#include "bench/results/stored.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "common/descriptor.h"

namespace bench {
namespace {

using nlohmann::json;
using report::Failure;
using report::kNone;

constexpr int kSchema = 1;
constexpr size_t kMostBytes = 64 << 20;  // of a file
constexpr size_t kMostText = 400;        // bytes of a text
constexpr double kLateShare = 0.05;

// Without control characters, which a terminal would obey.
std::string harmless(std::string text) {
    if (text.size() > kMostText) {
        size_t end = kMostText;
        while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
        text.resize(end);
        text += "...";
    }
    for (size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        const bool high =
            byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
        if (byte < ' ' || byte == 0x7f) text[i] = ' ';
        if (high) text[i] = text[i + 1] = ' ';
    }
    return text;
}

std::string text_of(const json& object, const char* key) {
    const auto found = object.find(key);
    return found == object.end() ? std::string() : harmless(found->get<std::string>());
}

double number_of(const json& object, const char* key) {
    const auto found = object.find(key);
    if (found == object.end()) return kNone;
    if (!found->is_number()) throw Failure(std::string(key) + " is not a number");
    return found->get<double>();
}

std::vector<std::string> texts_of(const json& object, const char* key) {
    std::vector<std::string> texts;
    const auto found = object.find(key);
    if (found == object.end()) return texts;
    for (const json& text : *found) texts.push_back(harmless(text.get<std::string>()));
    return texts;
}

StoredFigure figure_of(const json& object) {
    StoredFigure figure;
    figure.test = harmless(object.at("test").get<std::string>());
    figure.name = harmless(object.at("name").get<std::string>());
    figure.unit = harmless(object.at("unit").get<std::string>());
    figure.x_text = harmless(object.at("x_text").get<std::string>());
    const double x = number_of(object, "x");
    figure.x = report::is_set(x) ? x : 0;
    figure.median = number_of(object, "median");
    figure.p10 = number_of(object, "p10");
    figure.p90 = number_of(object, "p90");
    figure.at_most = number_of(object, "at_most");
    figure.at_least = number_of(object, "at_least");
    figure.paper = number_of(object, "paper");
    figure.late_share = number_of(object, "late_share");
    if (const auto rounds = object.find("rounds"); rounds != object.end()) {
        for (const json& round : *rounds) {
            if (!round.is_number()) throw Failure("a round is not a number");
            figure.rounds.push_back(round.get<double>());
        }
    }
    figure.doubts = texts_of(object, "doubts");
    const auto refused = object.find("refused");
    if (refused != object.end() && refused->get<bool>()) {
        if (!(figure.late_share > kLateShare) && figure.doubts.empty())
            figure.doubts.emplace_back("late");
        figure.median = figure.p10 = figure.p90 = kNone;
        figure.rounds.clear();
    } else if (figure.is_late()) {
        throw Failure("it has no median");
    }
    if (report::is_set(figure.p10) != report::is_set(figure.p90))
        throw Failure("it has one percentile only");
    return figure;
}

// The value of a variable of the environment that a file lists.
std::string variable_of(const std::string& environment, const std::string& name) {
    const size_t at = (" " + environment).find(" " + name + "=");
    if (at == std::string::npos) return {};
    const size_t begin = at + name.size() + 1;
    return environment.substr(begin, environment.find(' ', begin) - begin);
}

StoredResult result_of(const json& root) {
    const json& schema = root.at("schema");
    // The text of what is nested deeply would take more stack than there is.
    if (schema.is_structured()) throw Failure("its schema is not a number");
    if (!schema.is_number_integer() || schema.get<int64_t>() != kSchema) {
        throw Failure("it has schema " + harmless(schema.dump(-1, ' ', true)) +
                      "; this program reads " + std::to_string(kSchema));
    }
    StoredResult result;
    result.command = text_of(root, "command");
    if (result.command.empty()) result.command = "softhca-bench";
    result.commit = text_of(root, "commit");
    result.date = text_of(root, "date").substr(0, 10);
    const json& machine = root.at("machine");
    result.machine = harmless(machine.at("cpu").get<std::string>()) + ", " +
                     std::to_string(machine.at("cores").get<int64_t>()) + " cores" +
                     (machine.at("virtual").get<bool>() ? ", virtual" : "");
    result.device = text_of(root, "device");
    result.ucx = text_of(root, "ucx");
    result.rounds = text_of(root, "rounds");
    const std::string environment = text_of(root, "environment");
    result.profile = text_of(root, "profile");
    if (result.profile.empty()) result.profile = variable_of(environment, "SOFTHCA_PROFILE");
    result.slow = text_of(root, "slow");
    if (result.slow.empty()) result.slow = variable_of(environment, "SOFTHCA_SLOW");
    if (result.slow == "1") result.slow.clear();
    result.incomplete = texts_of(root, "incomplete");
    std::set<std::tuple<std::string, std::string, std::string, std::string>> seen;
    size_t number = 0;
    for (const json& object : root.at("figures")) {
        ++number;
        try {
            StoredFigure figure = figure_of(object);
            if (!seen.emplace(figure.test, figure.x_text, figure.name, figure.unit).second)
                throw Failure("there is another one with the same test, size, name and unit");
            result.figures.push_back(std::move(figure));
        } catch (const json::exception& error) {
            throw Failure("figure " + std::to_string(number) + ": " + harmless(error.what()));
        } catch (const Failure& error) {
            throw Failure("figure " + std::to_string(number) + ": " + error.what());
        }
    }
    if (result.figures.empty()) throw Failure("it has no figures");
    return result;
}

Better better_of(const std::string& unit, const std::string& test) {
    if (unit.ends_with("/s") || unit == "%") return Better::kMore;
    if (unit.empty() && test.starts_with("availability")) return Better::kMore;
    for (const char* one : {"ns", "us", "ms", "s", "B", "KiB", "MiB", "GiB"})
        if (unit == one) return Better::kLess;
    return unit.empty() && test.starts_with("queue pairs") ? Better::kLess : Better::kUnknown;
}

}  // namespace

double StoredFigure::least() const {
    return !rounds.empty() ? *std::ranges::min_element(rounds) : report::is_set(p10) ? p10 : median;
}

double StoredFigure::most() const {
    return !rounds.empty() ? *std::ranges::max_element(rounds) : report::is_set(p90) ? p90 : median;
}

StoredResult parse_result(const std::string& file, const std::string& text) {
    try {
        StoredResult result = result_of(json::parse(text));
        result.file = harmless(file);
        return result;
    } catch (const json::exception& error) {
        throw Failure(harmless(file) +
                      " is not the result of a benchmark: " + harmless(error.what()));
    } catch (const Failure& error) {
        throw Failure(harmless(file) + " is not the result of a benchmark: " + error.what());
    }
}

StoredResult read_result(const std::string& path) {
    // Opening a pipe would wait for a writer.
    const tools::Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    struct stat status = {};
    if (file.get() < 0 || ::fstat(file.get(), &status) != 0)
        throw report::call_failed(harmless(path));
    if (!S_ISREG(status.st_mode)) throw Failure(harmless(path) + " is not a file");
    std::string text;
    char piece[1 << 16];
    for (ssize_t got = 0; (got = ::read(file.get(), piece, sizeof piece)) != 0;) {
        if (got < 0) throw report::call_failed(harmless(path));
        text.append(piece, static_cast<size_t>(got));
        if (text.size() > kMostBytes) throw Failure(harmless(path) + " is longer than 64 MiB");
    }
    StoredResult result = parse_result(path, text);
    result.file = harmless(path.substr(path.rfind('/') + 1));
    return result;
}

Better better(const StoredResult& result, const StoredFigure& figure) {
    if (report::is_set(figure.at_most)) return Better::kLess;
    if (report::is_set(figure.at_least)) return Better::kMore;
    if (!figure.is_ratio()) return better_of(figure.unit, figure.test);
    // A ratio of what the test measures.
    for (const StoredFigure& other : result.figures) {
        if (other.test == figure.test && other.x_text == figure.x_text && !other.is_ratio())
            return better_of(other.unit, other.test);
    }
    return Better::kUnknown;
}

std::string short_text(double value, bool exact) {
    constexpr double kExact = 0x1p53;
    if (!report::is_set(value)) return "-";
    if (exact && value == std::floor(value) && std::abs(value) < kExact)
        return report::formatted("%.0f", value);
    const double size = std::abs(value);
    if (size == 0) return "0";
    if (size >= 1e12 || size < 1e-6) return report::formatted("%.2e", value);
    // Of the rounded value: 0.9999 is 1.00.
    const double rounded = std::strtod(report::formatted("%.2e", size).c_str(), nullptr);
    const int digits = 2 - static_cast<int>(std::floor(std::log10(rounded)));
    return report::formatted("%.*f", std::max(0, digits), value);
}

}  // namespace bench
