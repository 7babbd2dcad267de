// SPDX-License-Identifier: BSD-3-Clause
#include "bench/results/chart.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "bench/results/stored.h"

namespace bench {
namespace {

using report::formatted;

// Of a chart, in units of its own, which are about half a pixel: whole numbers are exact enough,
// and short.
constexpr double kWide = 880;
constexpr double kHigh = 450;
constexpr double kLeft = 92;
constexpr double kRight = 16;
constexpr double kAbove = 58;
constexpr double kBelow = 52;
constexpr double kLineHigh = 34;  // of text
constexpr double kLetter = 14;    // width, about
constexpr double kDecade = 15;    // greatest to least value, from which on the scale is logarithmic

// Of a strip.
constexpr double kStripWide = 880;
constexpr double kStripHigh = 34;
constexpr double kStripEnd = 4;  // the greatest ratio
constexpr double kEven = 0.01;   // a ratio that is neither a gain nor a loss

std::string place_text(double value) {
    return std::to_string(std::lround(value));
}

bool is_drawn(double value) {
    return std::isfinite(value);
}

class Scale {
  public:
    explicit Scale(const Chart& chart) {
        bool positive = true;
        bool any = false;
        for (const Curve& curve : chart.curves) {
            for (const Point& point : curve.points) {
                for (const double value : {point.value, point.low, point.high}) {
                    if (!is_drawn(value)) continue;
                    low_ = any ? std::min(low_, value) : value;
                    high_ = any ? std::max(high_, value) : value;
                    positive = positive && value > 0;
                    any = true;
                }
            }
        }
        if (chart.ratios && positive) {
            low_ = std::min(low_, 1.0);
            high_ = std::max(high_, 1.0);
        }
        logarithmic_ = positive && any && (chart.ratios || high_ > kDecade * low_);
        if (logarithmic_) {
            low_ = std::log10(std::min(low_ / 1.05, 0.97 * high_));
            high_ = std::log10(1.05 * high_);
        } else {
            low_ = std::min(low_, 0.0);
            high_ = high_ > low_ ? high_ + 0.04 * (high_ - low_) : low_ + 1;
        }
    }

    double at(double value) const {
        const double place = ((logarithmic_ ? std::log10(value) : value) - low_) / (high_ - low_);
        return kAbove + (1 - std::clamp(place, 0.0, 1.0)) * (kHigh - kAbove - kBelow);
    }
    std::vector<double> ticks() const {
        return logarithmic_ ? logarithmic_ticks() : linear_ticks();
    }

  private:
    std::vector<double> linear_ticks() const {
        const double rough = (high_ - low_) / 5;
        const double power = std::pow(10, std::floor(std::log10(rough)));
        double step = power;
        for (const double factor : {2, 5, 10})
            if (step < rough) step = factor * power;
        std::vector<double> ticks;
        for (double i = std::ceil(low_ / step); i * step <= high_ && ticks.size() < 12; ++i)
            ticks.push_back(i * step);
        return ticks;
    }
    // As many as have room, the roundest first.
    std::vector<double> logarithmic_ticks() const {
        std::vector<double> ticks;
        for (const auto& digits : {std::vector<double>{1},
                                   {2, 5},
                                   {1.5, 3, 7},
                                   {1.2, 4, 6, 8, 9},
                                   {1.05, 1.1, 1.3, 8.5, 9.5}}) {
            std::vector<double> more = ticks;
            for (double power = std::floor(low_); power <= std::ceil(high_) && more.size() < 40;
                 ++power) {
                for (const double digit : digits) {
                    const double value = digit * std::pow(10, power);
                    if (std::log10(value) >= low_ - 1e-9 && std::log10(value) <= high_)
                        more.push_back(value);
                }
            }
            std::ranges::sort(more);
            // Those of one kind stay together, but for the last ones.
            std::vector<double> kept;
            for (const double value : more) {
                const bool old = std::ranges::find(ticks, value) != ticks.end();
                const auto near = [&](double other) {
                    return std::abs(at(value) - at(other)) < kLineHigh;
                };
                if (old || (std::ranges::none_of(ticks, near) && std::ranges::none_of(kept, near)))
                    kept.push_back(value);
            }
            if (ticks.size() >= 4) break;
            ticks = kept;
        }
        if (ticks.size() > 9) {
            // Powers of ten alone are still too many.
            std::vector<double> fewer;
            for (size_t i = 0; i < ticks.size(); i += ticks.size() / 6) fewer.push_back(ticks[i]);
            ticks = fewer;
        }
        return ticks;
    }

    double low_ = 0;
    double high_ = 1;
    bool logarithmic_ = false;
};

std::string tick_text(double value) {
    if (std::abs(value) >= 1e6 && std::abs(value) < 1e9) return formatted("%gM", value / 1e6);
    if (std::abs(value) >= 1e4 && std::abs(value) < 1e6) return formatted("%gk", value / 1e3);
    if (std::abs(value) >= 1e6 || (value != 0 && std::abs(value) < 1e-4))
        return formatted("%.0e", value);
    return formatted("%g", value);
}

double column(const Chart& chart, size_t place) {
    const auto count = static_cast<double>(std::max<size_t>(chart.places.size(), 1));
    return kLeft + (static_cast<double>(place) + 0.5) * (kWide - kLeft - kRight) / count;
}

std::string grid(const Chart& chart, const Scale& scale) {
    std::string lines;
    std::string left;
    for (const double value : scale.ticks()) {
        const std::string y = place_text(scale.at(value));
        lines += "M" + place_text(kLeft) + " " + y + "H" + place_text(kWide - kRight);
        left += "<text y=" + y + ">" + tick_text(value) + "</text>";
    }
    std::string below;
    double free = kLeft;  // right of the label before
    for (size_t i = 0; i < chart.places.size(); ++i) {
        const std::string& place = chart.places[i];
        const std::string label = place.substr(0, place.find(" peer"));
        const double half = kLetter / 2 * static_cast<double>(label.size());
        if (column(chart, i) - half < free) continue;
        free = column(chart, i) + half + kLetter;
        below += "<text x=" + place_text(column(chart, i)) + ">" + escaped(label) + "</text>";
    }
    std::string one;
    if (chart.ratios)
        one = "<path class=o d=\"M" + place_text(kLeft) + " " + place_text(scale.at(1)) + "H" +
              place_text(kWide - kRight) + "\"/>";
    return "<path class=g d=\"" + lines + "\"/>" + one + "<g class=e transform=\"translate(" +
           place_text(kLeft - 10) + " 7)\">" + left + "</g><g class=m transform=\"translate(0 " +
           place_text(kHigh - 16) + ")\">" + below + "</g><text x=4 y=22>" + escaped(chart.axis) +
           "</text>";
}

// Points one above the other are moved apart.
std::string draw(const Chart& chart, const Scale& scale, size_t number) {
    const Curve& curve = chart.curves[number];
    const double room =
        (kWide - kLeft - kRight) / static_cast<double>(std::max<size_t>(chart.places.size(), 1));
    const double shift =
        (static_cast<double>(number) - (static_cast<double>(chart.curves.size()) - 1) / 2) *
        std::min(6.0, room / 2 / static_cast<double>(chart.curves.size()));
    std::string line;
    std::string bars;
    std::string dots;
    std::string rings;  // doubtful points: hollow
    for (const Point& point : curve.points) {
        if (!is_drawn(point.value)) continue;
        const std::string x = place_text(column(chart, point.place) + shift);
        const std::string y = place_text(scale.at(point.value));
        line += (line.empty() ? "M" : "L") + x + " " + y;
        dots += "M" + x + " " + y + "h0";
        if (point.doubtful) rings += "M" + x + " " + y + "h0";
        const double low = scale.at(point.low);
        const double high = scale.at(point.high);
        if (is_drawn(point.low) && is_drawn(point.high) && low - high > 4)
            bars += "M" + x + " " + place_text(low) + "V" + place_text(high);
    }
    const auto path = [](const char* kind, const std::string& d) {
        return d.empty() ? std::string()
                         : std::string("<path class=") + kind + " d=\"" + d + "\"/>";
    };
    return "<g class=\"c" + std::to_string(curve.color % kColors) +
           (curve.color >= kColors ? " n" : "") + "\">" + path("b", bars) + path("l", line) +
           path("d", dots) + path("r", rings) + "</g>";
}

double strip_place(double gain) {
    const double place = std::log(std::clamp(gain, 1 / kStripEnd, kStripEnd)) / std::log(kStripEnd);
    return kStripWide / 2 + place * (kStripWide / 2 - 40);
}

}  // namespace

std::string escaped(const std::string& text) {
    std::string html;
    for (const char c : text) {
        switch (c) {
            case '&':
                html += "&amp;";
                break;
            case '<':
                html += "&lt;";
                break;
            case '>':
                html += "&gt;";
                break;
            case '"':
                html += "&quot;";
                break;
            case '\'':
                html += "&#39;";
                break;
            default:
                html += c;
        }
    }
    return html;
}

std::string as_svg(const Chart& chart) {
    const Scale scale(chart);
    std::string svg = "<svg viewBox=\"0 0 " + place_text(kWide) + " " + place_text(kHigh) +
                      "\" role=img aria-label=\"" + escaped(chart.axis) + "\">" +
                      grid(chart, scale);
    for (size_t i = 0; i < chart.curves.size(); ++i) svg += draw(chart, scale, i);
    return svg + "</svg>";
}

std::string legend(const Chart& chart) {
    std::string html = "<p class=k>";
    for (const Curve& curve : chart.curves) {
        html += "<span><i class=\"c" + std::to_string(curve.color % kColors) +
                (curve.color >= kColors ? " n" : "") + "\"></i>" + escaped(curve.name) + "</span> ";
    }
    return html + "</p>";
}

std::string as_strip(const std::vector<Dot>& dots) {
    std::string svg = "<svg class=s viewBox=\"0 0 " + place_text(kStripWide) + " " +
                      place_text(kStripHigh) + "\" aria-hidden=true><path class=o d=\"M" +
                      place_text(kStripWide / 2) + " 0V" + place_text(kStripHigh) + "\"/>";
    const std::string y = place_text(kStripHigh / 2);
    const auto kind_of = [](double gain) {
        return std::abs(gain - 1) <= kEven ? "even" : gain > 1 ? "up" : "down";
    };
    for (const char* kind : {"even", "down", "up"}) {
        std::string bars;
        std::string points;
        std::string rings;
        for (const Dot& dot : dots) {
            if (!(dot.gain > 0) || kind_of(dot.gain) != std::string_view(kind)) continue;
            const std::string at = "M" + place_text(strip_place(dot.gain)) + " " + y + "h0";
            points += at;
            if (dot.doubtful) rings += at;
            if (dot.low > 0 && dot.high > 0 && strip_place(dot.high) - strip_place(dot.low) > 8)
                bars += "M" + place_text(strip_place(dot.low)) + " " + y + "H" +
                        place_text(strip_place(dot.high));
        }
        if (points.empty()) continue;
        svg += std::string("<g class=") + kind + ">";
        if (!bars.empty()) svg += "<path class=b d=\"" + bars + "\"/>";
        svg += "<path class=d d=\"" + points + "\"/>";
        if (!rings.empty()) svg += "<path class=r d=\"" + rings + "\"/>";
        svg += "</g>";
    }
    return svg + "</svg>";
}

std::string strip_scale() {
    std::string svg = "<svg class=s viewBox=\"0 0 " + place_text(kStripWide) + " " +
                      place_text(kStripHigh) + "\" aria-hidden=true>";
    const std::pair<double, const char*> marks[] = {
        {0.25, "¼"}, {0.5, "½"}, {2. / 3, "⅔"}, {1, "equal"}, {1.5, "1.5×"}, {2, "2×"}, {4, "4×"}};
    for (const auto& [gain, text] : marks)
        svg += "<text class=m x=" + place_text(strip_place(gain)) + " y=26>" + text + "</text>";
    return svg + "</svg>";
}

}  // namespace bench
