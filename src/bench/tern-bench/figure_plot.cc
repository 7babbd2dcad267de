// SPDX-License-Identifier: BSD-3-Clause
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "bench/measure/failure.h"
#include "bench/tern-bench/figure.h"

namespace bench {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

struct Panel {
    std::string test;
    std::string unit;
    std::vector<std::string> names;
};

std::vector<Panel> panels_of(const std::vector<Figure>& figures) {
    std::vector<Panel> panels;
    for (const Figure& figure : figures) {
        if (figure.is_ratio() || figure.x <= 0) continue;
        auto panel = std::ranges::find_if(panels, [&](const Panel& one) {
            return one.test == figure.test && one.unit == figure.unit;
        });
        if (panel == panels.end()) {
            panels.push_back({figure.test, figure.unit, {}});
            panel = panels.end() - 1;
        }
        if (std::ranges::find(panel->names, figure.name) == panel->names.end()) {
            panel->names.push_back(figure.name);
        }
    }
    return panels;
}

// In double quotes, as gnuplot reads it.
std::string quoted(const std::string& text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') result += '\\';
        result += c;
    }
    return result + "\"";
}

std::string data_of(const Panel& panel, const std::string& name,
                    const std::vector<Figure>& figures) {
    std::string text;
    for (const Figure& figure : figures) {
        if (figure.test != panel.test || figure.unit != panel.unit || figure.name != name) continue;
        char line[128];
        std::snprintf(line, sizeof line, "%g %g %g %g\n", figure.x, figure.value.median,
                      figure.value.p10, figure.value.p90);
        text += line;
    }
    return text + "e\n";
}

// What is counted or computed, and not sampled, beside what is.
bool is_curve(const Panel& panel, const std::string& name, const std::vector<Figure>& figures) {
    const auto in = [&](const Figure& figure) {
        return figure.test == panel.test && figure.unit == panel.unit;
    };
    const bool sampled = std::ranges::any_of(
        figures, [&](const Figure& figure) { return in(figure) && figure.value.count > 1; });
    return sampled && std::ranges::all_of(figures, [&](const Figure& figure) {
               return !in(figure) || figure.name != name || figure.value.count == 1;
           });
}

std::string script(const std::string& file, const PlotStyle& style,
                   const std::vector<Figure>& figures) {
    const std::vector<Panel> panels = panels_of(figures);
    const int height = 420 * static_cast<int>(panels.size());
    std::string text = file.ends_with(".png")
                           ? "set terminal png noenhanced size 960,"
                           : "set terminal svg noenhanced background \"white\" size 960,";
    text += std::to_string(height) + "\nset output " + quoted(file) + "\nset multiplot layout " +
            std::to_string(panels.size()) + ",1\nset logscale " + (style.linear ? "x" : "xy") +
            "\nset grid\nset key " + (style.linear ? "outside right top" : "left top") +
            "\nset xlabel " + quoted(style.x_label) + "\n";
    double low = kInfinite;
    double high = 0;
    for (const Figure& figure : figures) {
        if (figure.x <= 0) continue;
        low = std::min(low, figure.x);
        high = std::max(high, figure.x);
    }
    char range[64];
    std::snprintf(range, sizeof range, "set xrange [%g:%g]\n", low / 1.5, high * 1.5);
    text += range;
    for (const Panel& panel : panels) {
        text +=
            "set title " + quoted(panel.test) + "\nset ylabel " + quoted(panel.unit) + "\nplot ";
        for (const std::string& name : panel.names) {
            if (name != panel.names.front()) text += ", ";
            text += is_curve(panel, name, figures) ? "'-' using 1:2 with lines dashtype 2 title "
                                                   : "'-' using 1:2:3:4 with yerrorlines title ";
            text += quoted(name);
        }
        text += "\n";
        for (const std::string& name : panel.names) text += data_of(panel, name, figures);
    }
    return text + "unset multiplot\n";
}

bool installed(const char* program) {
    const char* path = std::getenv("PATH");
    for (std::string list = path != nullptr ? path : ""; !list.empty();) {
        const size_t end = std::min(list.find(':'), list.size());
        if (::access((list.substr(0, end) + "/" + program).c_str(), X_OK) == 0) return true;
        list.erase(0, end + 1);
    }
    return false;
}

}  // namespace

std::string plot_obstacle(const std::string& file) {
    if (!file.ends_with(".svg") && !file.ends_with(".png")) {
        return "'" + file + "' ends neither in .svg nor in .png";
    }
    if (!installed("gnuplot")) return "gnuplot is not installed";
    return {};
}

void plot(const std::string& file, const PlotStyle& style, const std::vector<Figure>& figures) {
    if (const std::string obstacle = plot_obstacle(file); !obstacle.empty())
        throw Failure(obstacle);
    FILE* const gnuplot = ::popen("gnuplot", "we");
    if (gnuplot == nullptr) throw call_failed("starting gnuplot");
    const std::string text = script(file, style, figures);
    std::fwrite(text.data(), 1, text.size(), gnuplot);
    const int status = ::pclose(gnuplot);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) throw Failure("gnuplot failed");
}

}  // namespace bench
