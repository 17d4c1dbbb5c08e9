#include <cmath>

#include "blas.h"
#include "report.h"
#include "terminal/text.h"

namespace headwise::bench {

namespace {

using terminal::bytes_text;
using terminal::duration;
using terminal::fixed;
using terminal::left;
using terminal::percent;
using terminal::right;
using terminal::short_number;

// "predicted 12.3 ms, −4%"
std::string prediction_text(const Summary& s) {
  const double off = (*s.prediction_ratio - 1.0) * 100.0;
  return "predicted " + duration(*s.predicted) + ", " + (off < 0.0 ? "−" : "+") +
         fixed(std::abs(off), 0) + "%";
}

// What binds the row, and what else there is to say.
std::string note(const Summary& s) {
  const Case& row = *s.row;
  std::string text = s.bound + ", " + short_number(s.intensity) + " FLOP/B";
  if (s.bound != "overhead") {
    text += (s.bound == "compute" ? " ≥ " : " < ") + short_number(s.ridge);
  }
  if (s.ratio) text += "; " + fixed(*s.ratio, 2) + " × " + row.against.name;
  if (row.group == kScalingGroup) {
    text += "; " + short_number(s.seconds / row.pairs * 1e9) + " ns a pair, scratch " +
            bytes_text(static_cast<double>(s.measurement->scratch_bytes));
  }
  if (s.predicted) text += "; " + prediction_text(s);
  if (!row.remark.empty() && s.measurement->threads == 1) text += "; " + row.remark;
  return text;
}

// How far off predictions are, over all rows that have one.
std::string accuracy_text(const std::vector<Summary>& summaries) {
  constexpr double kNear = 0.25;
  int predicted = 0;
  int near = 0;
  for (const Summary& s : summaries) {
    if (!s.predicted) continue;
    ++predicted;
    near += std::abs(*s.prediction_ratio - 1.0) <= kNear ? 1 : 0;
  }
  if (predicted == 0) return "";
  return std::to_string(near) + " of " + std::to_string(predicted) + " predictions within " +
         percent(kNear) + ". ";
}

// A share, or a part of another row's rate.
std::string floor_text(const Summary& s) {
  if (s.floor > 0.0) return percent(s.floor);
  const double least = s.row->against.least;
  return least > 0.0 ? fixed(least, 2) + "×" : "–";
}

std::string line(const Summary& s, bool first) {
  std::string text = "  " + left(first ? s.row->label : "", 36) +
                     left(first ? s.row->shape : "", 30) +
                     right(std::to_string(s.measurement->threads), 3);
  if (s.measurement->samples.empty()) {
    return text + "  failed: " + s.measurement->failure + "\n";
  }
  const bool peak = s.row->yardstick == Yardstick::Peak;
  text += right(duration(s.seconds), 10);
  text += right(short_number(s.rate / 1e9) + (peak ? " GFLOP/s" : " GB/s   "), 14);
  text += right((s.disturbed ? "~" : "") + percent(s.share), 7);
  text += right(fixed(s.share_low * 100.0, 0) + "–" + fixed(s.share_high * 100.0, 0), 9);
  text += right(floor_text(s), 7) + "  " + left(to_string(s.verdict), 6);
  return text + note(s) + "\n";
}

}  // namespace

std::string machine_text(const Machine& machine) {
  std::string text = machine.cpu + ", " + std::to_string(machine.cpus) + " CPUs, target " +
                     machine.target + " (" + std::to_string(machine.lanes) + " floats), " +
                     blas_name() + "\n";
  for (const ThreadYardsticks& y : machine.yardsticks) {
    text += std::to_string(y.threads) + (y.threads == 1 ? " thread:  " : " threads: ") +
            "FMA peak " + short_number(y.peak / 1e9) + " GFLOP/s; reads";
    for (const ReadSpeed& read : y.reads) {
      text += (&read == y.reads.data() ? " " : ", ") + short_number(read.bytes_per_second / 1e9) +
              " GB/s from " + read.place + " (" + bytes_text(static_cast<double>(read.bytes)) + ")";
    }
    text += "\n";
  }
  return text;
}

std::string table_text(const std::vector<Summary>& summaries) {
  std::string text;
  const Summary* before = nullptr;
  for (const Summary& s : summaries) {
    if (before == nullptr || before->row->group != s.row->group) {
      text += "\n" + left(s.row->group, 68) + right("thr", 3) + right("time", 10) +
              right("rate    ", 14) + right("share", 7) + right("spread", 9) + right("floor", 7) +
              "  " + left("", 6) + "bound by\n";
    }
    text += line(s, before == nullptr || before->row != s.row);
    before = &s;
  }
  int reached = 0;
  int judged = 0;
  int disturbed = 0;
  for (const Summary& s : summaries) {
    disturbed += s.disturbed ? 1 : 0;
    judged += s.verdict == Verdict::None ? 0 : 1;
    reached += s.verdict == Verdict::Ok ? 1 : 0;
  }
  text += "\n" + accuracy_text(summaries);
  if (judged > 0) {
    text += std::to_string(reached) + " of " + std::to_string(judged) + " floors reached. ";
  }
  text +=
      "Share: of the FMA peak or, for GB/s, of the read speed, measured beside every sample; "
      "median "
      "and quartiles of the rounds.\n";
  if (disturbed > 0) {
    text += std::to_string(disturbed) +
            " rows with ~ are too low, and ? leaves their floor open: somebody disturbed "
            "every round.\n";
  }
  return text;
}

}  // namespace headwise::bench
