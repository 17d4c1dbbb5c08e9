#include "summary.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace headwise::bench {

namespace {

double work_of(const Case& row) { return row.yardstick == Yardstick::Peak ? row.flops : row.bytes; }

// Which samples nobody disturbed.
class Quiet {
 public:
  explicit Quiet(const std::vector<Measurement>& all) {
    std::map<int, std::vector<TimingSample>> timings;
    for (const Measurement& m : all) {
      for (const Sample& s : m.samples) timings[m.threads].push_back(s.timing);
    }
    for (const auto& [threads, samples] : timings) calmest_[threads] = calmest(samples);
  }
  // All of them, if there is none.
  [[nodiscard]] std::vector<Sample> samples(const Measurement& m) const {
    std::vector<Sample> quiet;
    std::copy_if(m.samples.begin(), m.samples.end(), std::back_inserter(quiet),
                 [&](const Sample& s) { return calm(m.threads, s); });
    return quiet.empty() ? m.samples : quiet;
  }
  [[nodiscard]] bool calm(int threads, const Sample& s) const {
    return undisturbed(s.timing, calmest_.at(threads));
  }

 private:
  std::map<int, double> calmest_;  // by threads
};

double median(const std::vector<double>& values) { return quantile(values, 0.5); }

double median_seconds(const std::vector<Sample>& samples) {
  std::vector<double> seconds;
  seconds.reserve(samples.size());
  for (const Sample& s : samples) seconds.push_back(s.timing.seconds);
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
      if (x.round == y.round) ratios.push_back(work * y.timing.seconds / x.timing.seconds);
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

// Held against the sample of the same moment, so that what slowed both does not count.
void compare_with_prediction(Summary& s, const std::vector<Sample>& samples,
                             const Machine& machine) {
  if (!s.row->cost) return;
  const int threads = s.measurement->threads;
  std::vector<double> predictions;
  std::vector<double> ratios;
  for (const Sample& sample : samples) {
    Machine now = machine;
    for (ThreadYardsticks& y : now.yardsticks) {
      if (s.row->yardstick == Yardstick::Peak && y.threads == threads) {
        y.peak = sample.timing.yardstick;
      }
    }
    predictions.push_back(predict(*s.row->cost, now, threads).seconds);
    ratios.push_back(predictions.back() / sample.timing.seconds);
  }
  s.predicted = median(predictions);
  s.prediction_ratio = median(ratios);
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
        shares.push_back(work_of(*m.row) / sample.timing.seconds / sample.timing.yardstick);
      }
      s.disturbed = !quiet.calm(m.threads, samples.front());
      s.seconds = median_seconds(samples);
      s.rate = work_of(*m.row) / s.seconds;
      s.share = median(shares);
      s.share_low = quantile(shares, 0.25);
      s.share_high = quantile(shares, 0.75);
      const Measurement* other = find(measurements, m.row->against.id, m.threads);
      if (other != nullptr) s.ratio = ratio_to(quiet, m, *other);
      compare_with_prediction(s, samples, machine);
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
