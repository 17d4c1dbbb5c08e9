#include "summary.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "statistics.h"

namespace headwise::bench {

namespace {

double work_of(const Case& row) { return row.yardstick == Yardstick::Peak ? row.flops : row.bytes; }

constexpr double kWaited = 0.05;  // wake-ups of threads in tiny rows come to 2 or 3%

constexpr double kCalm = 0.93;  // of the calmest; somebody on the same core leaves 0.6 or 0.7

// Which samples nobody disturbed.
class Quiet {
 public:
  explicit Quiet(const std::vector<Measurement>& all) {
    std::map<int, std::vector<double>> calm;
    for (const Measurement& m : all) {
      for (const Sample& s : m.samples) calm[m.threads].push_back(s.calm);
    }
    // Not the highest: for a moment the clock may be faster than ever.
    for (const auto& [threads, values] : calm) calmest_[threads] = quantile(values, 0.9);
  }
  // All of them, if there is none.
  [[nodiscard]] std::vector<Sample> samples(const Measurement& m) const {
    std::vector<Sample> quiet;
    std::copy_if(m.samples.begin(), m.samples.end(), std::back_inserter(quiet),
                 [&](const Sample& s) { return undisturbed(m.threads, s); });
    return quiet.empty() ? m.samples : quiet;
  }
  [[nodiscard]] bool undisturbed(int threads, const Sample& s) const {
    return s.waited <= kWaited && s.calm >= kCalm * calmest_.at(threads);
  }

 private:
  std::map<int, double> calmest_;  // by threads
};

double median_seconds(const std::vector<Sample>& samples) {
  std::vector<double> seconds;
  seconds.reserve(samples.size());
  for (const Sample& s : samples) seconds.push_back(s.seconds);
  return median(seconds);
}

// Over rounds that both have, so that what disturbed one disturbed the other.
std::optional<double> ratio_to(const Quiet& quiet, const Measurement& mine,
                               const Measurement& other) {
  if (mine.samples.empty() || other.samples.empty()) return {};
  const double work = work_of(*mine.row) / work_of(*other.row);
  const std::vector<Sample> a = quiet.samples(mine);
  const std::vector<Sample> b = quiet.samples(other);
  std::vector<double> ratios;
  for (const Sample& x : a) {
    for (const Sample& y : b) {
      if (x.round == y.round) ratios.push_back(work * y.seconds / x.seconds);
    }
  }
  return ratios.empty() ? work * median_seconds(b) / median_seconds(a) : median(ratios);
}

const Measurement* find(const std::vector<Measurement>& all, const std::string& id, int threads) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const Measurement& m) {
    return m.row->id == id && m.threads == threads;
  });
  return found == all.end() ? nullptr : &*found;
}

// The roofline: the later of computing and reading binds, unless both are so short that starting
// the work weighs more.
void find_bound(Summary& s, const ThreadYardsticks& yardsticks) {
  constexpr double kShort = 50e-6;
  double read_speed = yardsticks.read_speed(s.row->bytes);
  if (s.row->yardstick == Yardstick::ReadSpeed && s.share > 0.0) {
    read_speed = s.rate / s.share;  // of its very size
  }
  s.intensity = s.row->flops / s.row->bytes;
  s.ridge = yardsticks.peak / read_speed;
  const double compute = s.row->flops / yardsticks.peak;
  const double read = s.row->bytes / read_speed;
  s.bound = s.intensity >= s.ridge ? "compute" : "memory";
  if (std::max(compute, read) < kShort) s.bound = "overhead";
}

void judge(Summary& s) {
  const Against& against = s.row->against;
  const bool compared = s.ratio && against.least > 0.0;
  if (s.floor <= 0.0 && !compared) return;
  const bool reached = s.share >= s.floor && (!compared || *s.ratio >= against.least);
  s.verdict = reached ? Verdict::Ok : s.disturbed ? Verdict::Unclear : Verdict::Miss;
}

}  // namespace

std::vector<Summary> summarise(const std::vector<Measurement>& measurements,
                               const Machine& machine) {
  std::vector<Summary> summaries;
  const Quiet quiet(measurements);
  for (const Measurement& m : measurements) {
    Summary s{.measurement = &m, .row = m.row};
    s.floor = m.row->floor.at(m.threads);
    if (!m.samples.empty()) {
      const std::vector<Sample> samples = quiet.samples(m);
      std::vector<double> shares;
      shares.reserve(samples.size());
      for (const Sample& sample : samples) {
        shares.push_back(work_of(*m.row) / sample.seconds / sample.yardstick);
      }
      s.disturbed = !quiet.undisturbed(m.threads, samples.front());
      s.seconds = median_seconds(samples);
      s.rate = work_of(*m.row) / s.seconds;
      s.share = median(shares);
      s.share_low = quantile(shares, 0.25);
      s.share_high = quantile(shares, 0.75);
      const Measurement* other = find(measurements, m.row->against.id, m.threads);
      if (other != nullptr) s.ratio = ratio_to(quiet, m, *other);
      judge(s);
    }
    find_bound(s, machine.at(m.threads));
    summaries.push_back(std::move(s));
  }
  return summaries;
}

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::None:
      return "";
    case Verdict::Ok:
      return "ok";
    case Verdict::Miss:
      return "MISS";
    case Verdict::Unclear:
      return "?";
  }
  return "";
}

}  // namespace headwise::bench
