// One picture: a bar for every row and thread count, from 0 to 100% of what the machine can do.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "blas.h"
#include "report.h"
#include "terminal/text.h"

namespace headwise::bench {

namespace {

using terminal::fixed;
using terminal::short_number;

// Pixels.
constexpr double kMargin = 36.0;
constexpr double kColumn = 850.0;  // width of a column of bars
constexpr double kGap = 48.0;
constexpr double kLabel = 390.0;  // text left of the bars
constexpr double kValue = 92.0;   // text right of them
constexpr double kBar = kColumn - kLabel - kValue;
constexpr double kTop = 150.0;
constexpr double kGroupHead = 44.0;
constexpr double kThread = 8.0;  // height of one bar
constexpr double kRowGap = 7.0;

constexpr const char* kInk = "#1d2733";
constexpr const char* kFaint = "#7a8594";
constexpr const char* kMiss = "#c2293a";
constexpr const char* kPeer = "#e08a00";

// One tone for one thread, a lighter one for more; another hue where reading is what counts.
const char* tone(Yardstick yardstick, std::size_t thread_index) {
  static constexpr const char* kPeakTones[] = {"#1f5f9e", "#86b6e3", "#bcd7f0"};
  static constexpr const char* kReadTones[] = {"#1b7a63", "#79c4ae", "#b9e0d5"};
  const std::size_t i = std::min<std::size_t>(thread_index, 2);
  return yardstick == Yardstick::Peak ? kPeakTones[i] : kReadTones[i];
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else {
      result += c;
    }
  }
  return result;
}

struct TextStyle {
  double size = 12.0;
  const char* colour = kInk;
  const char* anchor = "start";
  bool bold = false;
};

class Canvas {
 public:
  void rectangle(double x, double y, double width, double height, const char* colour) {
    body_ += "<rect x='" + number(x) + "' y='" + number(y) + "' width='" + number(width) +
             "' height='" + number(height) + "' fill='" + colour + "'/>\n";
  }
  void line(double x1, double y1, double x2, double y2, const char* colour, double width) {
    body_ += "<line x1='" + number(x1) + "' y1='" + number(y1) + "' x2='" + number(x2) + "' y2='" +
             number(y2) + "' stroke='" + colour + "' stroke-width='" + number(width) + "'/>\n";
  }
  void ring(double x, double y, const char* colour) {
    body_ += "<circle cx='" + number(x) + "' cy='" + number(y) + "' r='3.4' fill='white' stroke='" +
             std::string(colour) + "' stroke-width='1.8'/>\n";
  }
  void text(double x, double y, const std::string& content, const TextStyle& style = {}) {
    body_ += "<text x='" + number(x) + "' y='" + number(y) + "' font-size='" + number(style.size) +
             "' fill='" + style.colour + "' text-anchor='" + style.anchor + "'" +
             (style.bold ? " font-weight='bold'" : "") + ">" + escaped(content) + "</text>\n";
  }
  [[nodiscard]] std::string document(double width, double height) const {
    return "<svg xmlns='http://www.w3.org/2000/svg' width='" + number(width) + "' height='" +
           number(height) + "' viewBox='0 0 " + number(width) + " " + number(height) +
           "' font-family='DejaVu Sans, Verdana, Helvetica, Arial, sans-serif'>\n"
           "<rect width='100%' height='100%' fill='#fbfcfd'/>\n" +
           body_ + "</svg>\n";
  }

 private:
  static std::string number(double value) { return fixed(value, 1); }
  std::string body_;
};

// A case with its thread counts, and the peer's shares beside them.
struct Bars {
  const Case* row;
  std::vector<const Summary*> threads;
  std::vector<const Summary*> peers;
};

struct Group {
  std::string title;
  std::vector<Bars> rows;
};

std::vector<Group> grouped(const std::vector<Summary>& summaries) {
  std::vector<Group> groups;
  for (const Summary& s : summaries) {
    if (s.row->peer || !s.row->in_picture || s.measurement->samples.empty()) continue;
    if (groups.empty() || groups.back().title != s.row->group) groups.push_back({s.row->group, {}});
    std::vector<Bars>& rows = groups.back().rows;
    if (rows.empty() || rows.back().row != s.row) rows.push_back({s.row, {}, {}});
    rows.back().threads.push_back(&s);
    for (const Summary& p : summaries) {
      if (p.row->peer && p.row->id == s.row->against.id && !p.measurement->samples.empty() &&
          p.measurement->threads == s.measurement->threads) {
        rows.back().peers.push_back(&p);
      }
    }
  }
  return groups;
}

double row_height(const Bars& bars) {
  return kThread * static_cast<double>(std::max<std::size_t>(bars.threads.size(), 2)) + kRowGap;
}

double group_height(const Group& group) {
  double height = kGroupHead;
  for (const Bars& bars : group.rows) height += row_height(bars);
  return height;
}

double place(double share) { return kLabel + kBar * std::clamp(share, 0.0, 1.05); }

// The least share that would be enough: the floor, or the part of another row's share.
double needed_share(const Summary& s) {
  const double least = s.row->against.least;
  if (!s.ratio || least <= 0.0 || s.floor > 0.0) return s.floor;
  return s.share / *s.ratio * least;
}

void draw_row(Canvas& canvas, const Bars& bars, double x, double y) {
  const double height = row_height(bars) - kRowGap;
  const double text_y = y + height / 2.0 + 4.2;
  canvas.text(x, text_y, bars.row->label);
  canvas.text(x + kLabel - 12.0, text_y, bars.row->shape,
              {.size = 10.5, .colour = kFaint, .anchor = "end"});
  std::string shares;
  bool missed = false;
  for (std::size_t i = 0; i < bars.threads.size(); ++i) {
    const Summary& s = *bars.threads[i];
    const double top = y + kThread * static_cast<double>(i);
    const double middle = top + (kThread - 1.0) / 2.0;
    canvas.rectangle(x + kLabel, top, kBar, kThread - 1.0, "#eef2f6");
    canvas.rectangle(x + kLabel, top, place(s.share) - kLabel, kThread - 1.0,
                     tone(s.row->yardstick, i));
    canvas.line(x + place(s.share_low), middle, x + place(s.share_high), middle, kInk, 1.2);
    const double needed = needed_share(s);
    if (needed > 0.0) {
      canvas.line(x + place(needed), top - 1.5, x + place(needed), top + kThread + 0.5, kMiss, 2.4);
    }
    shares +=
        (i == 0 ? "" : " · ") + std::string(s.disturbed ? "~" : "") + fixed(s.share * 100.0, 0);
    missed = missed || s.verdict == Verdict::Miss;
  }
  for (std::size_t i = 0; i < bars.peers.size(); ++i) {
    canvas.ring(x + place(bars.peers[i]->share), y + kThread * (static_cast<double>(i) + 0.5) - 0.5,
                kPeer);
  }
  canvas.text(x + kColumn, text_y, shares + " %",
              {.colour = missed ? kMiss : kInk, .anchor = "end", .bold = missed});
}

void draw_group(Canvas& canvas, const Group& group, double x, double y) {
  const double bottom = y + group_height(group) - kRowGap + 2.0;
  canvas.text(x, y + 20.0, group.title, {.size = 14.0, .bold = true});
  for (int tenths = 0; tenths <= 10; tenths += 2) {
    const double at = x + place(tenths / 10.0);
    canvas.line(at, y + kGroupHead - 6.0, at, bottom, tenths == 10 ? "#9aa5b1" : "#e1e6eb", 1.0);
    canvas.text(at, y + kGroupHead - 10.0, std::to_string(tenths * 10),
                {.size = 10.0, .colour = kFaint, .anchor = "middle"});
  }
  y += kGroupHead;
  for (const Bars& bars : group.rows) {
    draw_row(canvas, bars, x, y);
    y += row_height(bars);
  }
}

// How many groups the left column takes so that the taller column is as short as can be.
std::pair<std::size_t, double> balanced(const std::vector<Group>& groups) {
  std::size_t best = groups.size();
  double best_height = std::numeric_limits<double>::max();
  for (std::size_t split = 1; split <= groups.size(); ++split) {
    double heights[2] = {0.0, 0.0};
    for (std::size_t i = 0; i < groups.size(); ++i)
      heights[i < split ? 0 : 1] += group_height(groups[i]);
    const double height = std::max(heights[0], heights[1]);
    if (height < best_height) {
      best = split;
      best_height = height;
    }
  }
  return {best, groups.empty() ? 0.0 : best_height};
}

void draw_legend(Canvas& canvas, const Machine& machine, double x, double y) {
  const auto entry = [&](double width, const std::string& text) {
    canvas.text(x + 24.0, y + 4.5, text);
    x += width;
  };
  for (const Yardstick yardstick : {Yardstick::Peak, Yardstick::ReadSpeed}) {
    for (std::size_t i = 0; i < machine.yardsticks.size(); ++i) {
      const int threads = machine.yardsticks[i].threads;
      canvas.rectangle(x, y - 4.0, 18.0, 8.0, tone(yardstick, i));
      entry(
          yardstick == Yardstick::Peak ? 232.0 : 242.0,
          std::string(yardstick == Yardstick::Peak ? "of the FMA peak, " : "of the read speed, ") +
              std::to_string(threads) + (threads == 1 ? " thread" : " threads"));
    }
  }
  canvas.line(x + 9.0, y - 7.0, x + 9.0, y + 7.0, kMiss, 2.4);
  entry(190.0, "floor; figures in red miss it");
  x += 40.0;
  canvas.line(x + 1.0, y, x + 17.0, y, kInk, 1.2);
  entry(150.0, "middle half of rounds");
  x += 26.0;
  canvas.ring(x + 9.0, y, kPeer);
  entry(100.0, "OpenBLAS");
}

std::string footer(const Machine& machine) {
  std::string text = machine.cpu + ", target " + machine.target + ", " + blas_name() + ".";
  for (const ThreadYardsticks& y : machine.yardsticks) {
    text += "  " + std::to_string(y.threads) + (y.threads == 1 ? " thread: " : " threads: ") +
            short_number(y.peak / 1e9) + " GFLOP/s,";
    for (const ReadSpeed& read : y.reads) {
      text += (&read == y.reads.data() ? " " : " / ") + fixed(read.bytes_per_second / 1e9, 0);
    }
    text += " GB/s from L2 / L3 / memory.";
  }
  return text;
}

}  // namespace

std::string svg_text(const Machine& machine, const std::vector<Summary>& summaries) {
  const std::vector<Group> groups = grouped(summaries);
  const auto [split, tallest] = balanced(groups);
  const double width = 2.0 * (kMargin + kColumn) + kGap;
  const double height = kTop + tallest + 62.0;

  Canvas canvas;
  canvas.text(kMargin, 46.0, "Headwise: share of the peak, on any machine",
              {.size = 24.0, .bold = true});
  canvas.text(
      kMargin, 72.0,
      "Rate over what this machine can do, measured beside every row in the same run: "
      "independent of the machine. Longer is better; 100 % is the hardware's limit. float32, "
      "useful work only.",
      {.size = 14.0, .colour = kFaint});
  draw_legend(canvas, machine, kMargin, 104.0);
  double y = kTop - 20.0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (i == split) y = kTop - 20.0;
    draw_group(canvas, groups[i], i < split ? kMargin : kMargin + kColumn + kGap, y);
    y += group_height(groups[i]);
  }
  const bool disturbed =
      std::any_of(summaries.begin(), summaries.end(), [](const Summary& s) { return s.disturbed; });
  canvas.text(kMargin, height - 20.0,
              footer(machine) + (disturbed ? "  ~ is too low: disturbed all the time." : ""),
              {.colour = kFaint});
  return canvas.document(width, height);
}

}  // namespace headwise::bench
