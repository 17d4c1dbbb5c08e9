#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "analyze/clock.h"
#include "analyze/waiting.h"
#include "headwise/machine.h"

namespace headwise {

TimedRun::TimedRun(std::function<void()> run, TimingYardstick yardstick, double sample_seconds)
    : run_(std::move(run)), held_against_(yardstick) {
  double once = time(1);
  spent_ += once;
  if (once < sample_seconds) once = time(3) / 3.0;  // the first run made pages and threads
  runs_ = std::max(1, static_cast<int>(std::lround(sample_seconds / std::max(once, 1e-7))));
}

double TimedRun::time(int count) const {
  const double start = analyze::now();
  for (int i = 0; i < count; ++i) run_();
  return analyze::now() - start;
}

double TimedRun::yardstick(const Yardsticks& yardsticks, double seconds) const {
  if (held_against_.read_bytes == 0) return yardsticks.peak(held_against_.threads, seconds);
  return yardsticks.read_speed(held_against_.threads, held_against_.read_bytes, seconds);
}

TimingSample TimedRun::sample(const Yardsticks& yardsticks) {
  constexpr double kLeast = 0.0005;
  constexpr double kMost = 0.02;
  const int threads = held_against_.threads;
  const double part = std::clamp(0.05 * expected_, kLeast, kMost);
  const double before = yardstick(yardsticks, part);
  // The yardstick pushed a short run's numbers out of the cache.
  if (runs_ > 1) static_cast<void>(time(1));
  const double calm_before = yardsticks.calm(threads);
  const double waited_before = analyze::waiting_seconds();
  const double elapsed = time(runs_);
  const double waited = (analyze::waiting_seconds() - waited_before) / (elapsed * threads);
  const double calm_after = yardsticks.calm(threads);
  const double after = yardstick(yardsticks, part);
  spent_ += elapsed;
  expected_ = elapsed;
  return {elapsed / runs_, (before + after) / 2.0, waited, std::min(calm_before, calm_after)};
}

double calmest(const std::vector<TimingSample>& samples) {
  std::vector<double> calm;
  calm.reserve(samples.size());
  for (const TimingSample& s : samples) calm.push_back(s.calm);
  // Not the highest: for a moment the clock may be faster than ever.
  return calm.empty() ? 0.0 : quantile(calm, 0.9);
}

bool undisturbed(const TimingSample& sample, double calmest) {
  constexpr double kWaited = 0.05;  // wake-ups of threads in tiny runs come to 2 or 3%
  constexpr double kCalm = 0.93;    // somebody on the same core leaves 0.6 or 0.7
  return sample.waited <= kWaited && sample.calm >= kCalm * calmest;
}

std::vector<TimingSample> quiet_samples(const std::vector<TimingSample>& samples, double calmest) {
  std::vector<TimingSample> quiet;
  std::copy_if(samples.begin(), samples.end(), std::back_inserter(quiet),
               [&](const TimingSample& s) { return undisturbed(s, calmest); });
  return quiet.empty() ? samples : quiet;
}

double quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  const double place = part * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(place));
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], place - std::floor(place));
}

}  // namespace headwise
