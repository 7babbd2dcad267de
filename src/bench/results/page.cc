// SPDX-License-Identifier: BSD-3-Clause
#include "bench/results/page.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "bench/results/chart.h"
#include "bench/results/parts.h"

namespace bench {
namespace {

using report::formatted;
using report::is_set;

constexpr char kStyle[] =
#include "bench/results/page.inc"
    ;

struct About {
    const char* id;
    const char* title;
    const char* text;
};
constexpr About kAbout[kParts] = {
    {"programs", "Programs", "Whole programs, run in turns over each transport."},
    {"latency", "Latency",
     "The time of one message, put or get at a time. Below 1, a ratio is a gain."},
    {"bandwidth", "Bandwidth", "Long messages, and many at once. Above 1, a ratio is a gain."},
    {"overlap", "Overlap",
     "What a processor can compute while its message travels: availability is the share of the "
     "message's time, at best 1. An overhead is time of the processor that is not work."},
    {"memory", "Memory",
     "What a process registers, what its queues take, and its queue pairs, by number of peers."},
    {"scale", "Scale",
     "Patterns of many ranks, in virtual time. In a storm only Tern connects within the time, so "
     "it is "
     "not compared."},
    {"paper", "Paper", "Tables of published papers, done again. The ratio is to the paper's."},
    {"other", "Other", "What belongs to none of the above."}};

// The sizes, or what else is on the x axis, from the least on.
std::vector<std::string> places_of(const std::vector<StoredFigure>& figures) {
    std::vector<std::pair<double, std::string>> places;
    for (const StoredFigure& figure : figures) {
        if (std::ranges::find(places, figure.x_text, [](const auto& one) { return one.second; }) ==
            places.end())
            places.emplace_back(figure.x, figure.x_text);
    }
    std::ranges::stable_sort(places, {}, [](const auto& one) { return one.first; });
    std::vector<std::string> texts;
    texts.reserve(places.size());
    for (auto& [x, text] : places) texts.push_back(std::move(text));
    return texts;
}

std::vector<std::string> names_of(const std::vector<StoredFigure>& figures) {
    std::vector<std::string> names;
    for (const StoredFigure& figure : figures) {
        if (std::ranges::find(names, figure.name) == names.end()) names.push_back(figure.name);
    }
    return names;
}

// The same transports have the same colors in most charts. Where each has several lines, those of
// stock UCX are dashed and have the colors of Tern's.
std::vector<size_t> colors_of(const std::vector<std::string>& names) {
    std::vector<size_t> colors;
    std::vector<std::string> kinds;
    std::set<size_t> taken;
    size_t next = 3;
    for (const std::string& name : names) {
        size_t color = kColors;
        if (const size_t colon = name.find(": "); colon != std::string::npos) {
            const bool first = name.starts_with("tern") || name.starts_with("rc_");
            const std::string kind = first ? name.substr(colon) : name.substr(0, colon);
            const std::string who = first ? name : name.substr(colon + 2);
            const size_t place = std::ranges::find(kinds, kind) - kinds.begin();
            if (place == kinds.size()) kinds.push_back(kind);
            colors.push_back(place % kColors + (who.starts_with("rc_") ? kColors : 0));
            continue;
        }
        if (name == "tern" || name == "matcher" || name == "tern / rc_v" ||
            name == "tern / rc_verbs" || name == "matcher / tern")
            color = 0;
        else if (name.starts_with("tern, private"))
            color = 1;
        else if (name.starts_with("rc_"))
            color = 2;
        next = std::max(next, kinds.size());
        if (color == kColors || taken.contains(color)) color = next++;
        taken.insert(color);
        colors.push_back(color);
    }
    return colors;
}

Chart chart_of(const Test& test, const std::vector<StoredFigure>& figures) {
    Chart chart;
    chart.ratios = figures.front().is_ratio();
    chart.places = places_of(figures);
    const char* good = test.which == Better::kLess   ? "less is better"
                       : test.which == Better::kMore ? "more is better"
                                                     : "";
    chart.axis = chart.ratios ? "ratio" : test.unit.empty() ? "" : test.unit;
    chart.axis += (chart.axis.empty() || *good == 0 ? "" : ", ") + std::string(good);
    std::vector<std::string> names = names_of(figures);
    // What is calculated is in the table only, if there is no room.
    if (names.size() > kColors)
        std::erase_if(names, [](const auto& name) { return name.starts_with("model "); });
    const std::vector<size_t> colors = colors_of(names);
    for (size_t i = 0; i < names.size(); ++i) {
        Curve curve{names[i], colors[i], {}};
        for (size_t place = 0; place < chart.places.size(); ++place) {
            for (const StoredFigure& figure : figures) {
                if (figure.name != names[i] || figure.x_text != chart.places[place]) continue;
                curve.points.push_back(
                    {place, figure.median, figure.p10, figure.p90, !doubts_of(figure).empty()});
            }
        }
        chart.curves.push_back(std::move(curve));
    }
    return chart;
}

std::string cell(const StoredFigure& figure) {
    const std::string doubts = doubts_of(figure);
    std::string html = "<td";
    if (doubts == "calculated") return html + "><i>" + short_text(figure.median, true) + "</i>";
    if (!doubts.empty()) html += " title=\"" + escaped(doubts) + "\"";
    html += ">";
    if (figure.is_late()) return html + "<em>late</em>";
    html += short_text(figure.median, figure.rounds.empty() && !is_set(figure.p10));
    if (is_set(figure.paper) && !figure.is_ratio())
        html += " <small>" + short_text(figure.paper) + "</small>";
    if (!doubts.empty()) html += "<em>?</em>";
    if (figure.is_ratio() && is_set(figure.p10))
        html += " <small>" + short_text(figure.p10) + "–" + short_text(figure.p90) + "</small>";
    return html;
}

std::string table_of(const Test& test, const std::vector<StoredFigure>& figures) {
    const std::vector<std::string> names = names_of(figures);
    std::string corner = figures.front().is_ratio() ? "ratio" : test.unit;
    if (std::ranges::any_of(figures, [](const auto& one) { return is_set(one.paper); }))
        corner += figures.front().is_ratio() ? "" : ", and the paper's";
    std::string html = "<div class=x><table><tr><th>" + escaped(corner);
    for (const std::string& name : names) html += "<th>" + escaped(name);
    for (const std::string& place : places_of(figures)) {
        html += "\n<tr><td>" + escaped(place);
        for (const std::string& name : names) {
            const auto found = std::ranges::find_if(figures, [&](const StoredFigure& figure) {
                return figure.name == name && figure.x_text == place;
            });
            html += found == figures.end() ? "<td>" : cell(*found);
        }
    }
    return html + "</table></div>\n";
}

// For a test with one size only: a bar for each name.
std::string bars_of(const std::vector<StoredFigure>& figures, const std::string& unit) {
    double most = 0;
    for (const StoredFigure& figure : figures)
        if (is_set(figure.median)) most = std::max(most, std::abs(figure.median));
    const std::vector<size_t> colors = colors_of(names_of(figures));
    std::string html = "<table class=v>";
    for (size_t i = 0; i < figures.size(); ++i) {
        const StoredFigure& figure = figures[i];
        const double share = is_set(figure.median) && most > 0 ? std::abs(figure.median) / most : 0;
        html += "\n<tr><td>" + escaped(figure.name) + "<td class=c" +
                std::to_string(colors[i] % kColors) +
                "><i style=\"width:" + formatted("%.1f", 100 * share) + "%\"></i>" + cell(figure) +
                " " + escaped(unit);
    }
    return html + "</table>\n";
}

std::string figure_of(const Test& test, const std::vector<StoredFigure>& figures) {
    const Chart chart = chart_of(test, figures);
    if (chart.places.size() == 1) {
        return "<div><p class=k>" +
               escaped(chart.places.front() + (chart.axis.empty() ? "" : ": ") + chart.axis) +
               "</p>" + bars_of(figures, figures.front().is_ratio() ? "" : test.unit) + "</div>";
    }
    return "<div>" + as_svg(chart) + legend(chart) + "</div>";
}

std::string card_of(const Test& test) {
    std::string charts;
    std::string tables;
    for (const auto* figures : {&test.ratios, &test.values}) {
        if (figures->empty()) continue;
        charts += figure_of(test, *figures);
        if (places_of(*figures).size() > 1) tables += table_of(test, *figures);
    }
    if (!tables.empty()) tables = "<details><summary>Figures</summary>" + tables + "</details>";
    return "<div class=card><h4>" + escaped(test.title) + "</h4>\n<div class=two>" + charts +
           "</div>\n" + tables + "</div>\n";
}

// Whether a ratio is one of Tern to stock UCX, in the same kind of memory if there is one such.
bool is_headline(const Test& test, const std::string& name) {
    const size_t at = name.find(" / ");
    if (at == std::string::npos) return false;
    const std::string yardstick = name.substr(at + 3);
    if (!yardstick.starts_with("rc_") && yardstick != "paper" && !name.starts_with("matcher"))
        return false;
    if (name.starts_with("rc_")) return false;
    std::string alike = name;
    if (const size_t tern = name.find("tern / "); tern != std::string::npos)
        alike.insert(tern + 4, ", private");
    return alike == name ||
           std::ranges::find(test.ratios, alike, &StoredFigure::name) == test.ratios.end();
}

const char* noun_of(const Test& test) {
    if (test.unit.ends_with("/s")) return "of the rate";
    if (test.unit == "KiB") return "of the memory";
    for (const char* time : {"ns", "us", "ms", "s"})
        if (test.unit == time) return "of the time";
    return "";
}

// A line for each ratio of a test to stock UCX.
std::string strips_of(const Test& test) {
    std::string html;
    if (test.which == Better::kUnknown) return html;
    for (const std::string& name : names_of(test.ratios)) {
        if (!is_headline(test, name)) continue;
        std::vector<Dot> dots;
        double least = INFINITY;
        double most = 0;
        size_t late = 0;
        for (const StoredFigure& ratio : test.ratios) {
            if (ratio.name != name) continue;
            if (!(ratio.median > 0)) {
                ++late;
                continue;
            }
            least = std::min(least, ratio.median);
            most = std::max(most, ratio.median);
            const bool less = test.which == Better::kLess;
            const double low = less ? 1 / ratio.p90 : ratio.p10;
            const double high = less ? 1 / ratio.p10 : ratio.p90;
            dots.push_back(
                {less ? 1 / ratio.median : ratio.median, low, high, !doubts_of(ratio).empty()});
        }
        if (dots.empty()) continue;
        html += "\n<tr><td>" + escaped(test.title) + " <small>" + escaped(name) + "</small><td>" +
                as_strip(dots) + "<td>" + short_text(least);
        if (short_text(least) != short_text(most)) html += " to " + short_text(most);
        html += std::string(" ") + noun_of(test);
        if (late != 0) html += " <em>" + std::to_string(late) + " late</em>";
    }
    return html;
}

std::string section_of(const std::vector<Together>& all, Part part) {
    std::string strips;
    std::string cards;
    for (const Together& one : all) {
        std::string mine;
        std::string own;
        for (const Test& test : tests_of(one.result, part)) {
            mine += strips_of(test);
            own += card_of(test);
        }
        const std::string title = escaped(title_of(one.result));
        if (!mine.empty())
            strips += "\n<tr class=h><th colspan=3>" + title + " · " + escaped(one.files) + mine;
        if (own.empty()) continue;
        cards += "<h3>" + title + "</h3>\n";
        for (const std::string& source : one.sources)
            cards += "<p class=src>" + escaped(source) + "\n";
        cards += own;
    }
    if (cards.empty()) return {};
    const About& about = kAbout[part];
    std::string html = std::string("<h2 id=") + about.id + ">" + about.title + "</h2>\n<p>" +
                       about.text + "</p>\n";
    if (!strips.empty()) {
        html += "<div class=x><table class=t><tr><th>" +
                std::string(part == kPaper ? "Measured to published" : "Tern to stock UCX") +
                "<th>" + strip_scale() + "<th>" + strips + "</table></div>\n";
    }
    return html + cards;
}

std::string results_table(const std::vector<StoredResult>& results) {
    std::string html =
        "<div class=x><table class=q><tr><th>File<th>What<th>Commit<th>Date<th>Machine<th>UCX"
        "<th>Rounds<th>Figures<th>Doubtful<th>Late";
    for (const StoredResult& result : results) {
        const bool few = says_few_rounds(result);
        size_t doubtful = 0;
        size_t late = 0;
        for (StoredFigure figure : result.figures) {
            if (few) std::erase(figure.doubts, kFewRounds);
            late += figure.is_late() ? 1 : 0;
            doubtful += !figure.is_late() && !doubts_of(figure).empty() ? 1 : 0;
        }
        html += "\n<tr>";
        for (const std::string& text :
             {result.file, title_of(result), result.commit, result.date, result.machine, result.ucx,
              result.rounds + (few ? " (few)" : "")})
            html += "<td>" + escaped(text);
        for (const size_t count : {result.figures.size(), doubtful, late})
            html += "<td>" + std::to_string(count);
        for (const std::string& gap : result.incomplete)
            html += "\n<tr><td><td colspan=9><em>incomplete: " + escaped(gap) + "</em>";
    }
    return html + "</table></div>\n";
}

}  // namespace

std::string as_page(std::vector<StoredResult> results, const std::vector<std::string>& left_out) {
    sort_results(&results);
    const std::vector<Together> all = together(results);
    std::string sections;
    std::string links;
    for (int part = 0; part < kParts; ++part) {
        const std::string section = section_of(all, static_cast<Part>(part));
        sections += section;
        if (!section.empty())
            links +=
                std::string("<a href=\"#") + kAbout[part].id + "\">" + kAbout[part].title + "</a>";
    }
    std::string html =
        "<!doctype html>\n<html lang=en><meta charset=utf-8>"
        "<meta name=viewport content=\"width=device-width,initial-scale=1\">"
        "<title>Tern: results</title>\n<style>\n" +
        std::string(kStyle);
    for (size_t i = 0; i < kColors; ++i) html += formatted(".c%zu{--c:var(--c%zu)}", i, i);
    html +=
        "\n</style>\n<h1>Tern and stock UCX, compared</h1>\n"
        "<p>Results of <code>tern-bench</code>, ratios first. Stock UCX is <code>rc_verbs</code> "
        "(UCT) or <code>rc_v</code> (UCP).</p>\n";
    const bool software = std::ranges::any_of(results, [](const StoredResult& result) {
        return result.device.starts_with("softhca") || result.device.empty();
    });
    if (software) {
        html +=
            "<p class=w><b>No figure of the software HCA or of a simulation is a measurement of a "
            "network.</b> They compare transports on a device in software; a profile is the "
            "timing model of an adapter.</p>\n";
    }
    for (const std::string& text : left_out)
        html += "<p class=w><em>Left out:</em> " + escaped(text) + "</p>\n";
    html += "<nav>" + links + "<a href=\"#runs\">Runs</a></nav>\n" +
            "<p>In the strips, a dot is the ratio at one size, and a bar goes from the 10th to the "
            "90th percentile of the rounds: <b style=\"color:var(--up)\">right of the middle Tern "
            "gains</b>, <b style=\"color:var(--down)\">left of it Tern loses</b>. Ratios compare "
            "the same kind of memory where a result has both (<i>private</i>). In charts, points "
            "are medians. A hollow point, and <em>?</em> in a table, is doubtful or calculated; "
            "the cell says why when the pointer is over it. <em>late</em>: the software HCA could "
            "not keep up with its timing model, so there is no value.</p>\n" +
            sections +
            "<h2 id=runs>Runs</h2>\n<p>Where each figure is from. <i>few</i>: all "
            "figures of the run are doubtful, because it has fewer than 5 rounds.</p>\n" +
            results_table(results);
    return html;
}

}  // namespace bench
