#include "measure.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <memory>

#include "clock.h"
#include "waiting.h"

namespace headwise::bench {

namespace {

// A row on a number of threads, ready to run. Each has a context of its own, so that scratch_bytes
// is this row's need and not that of the largest one before.
struct Contestant {
  Measurement result;
  std::function<void(Context&)> run;
  std::unique_ptr<Context> context;
  int runs = 1;        // in one sample
  double spent = 0.0;  // seconds

  [[nodiscard]] double time(int count) const {
    const double start = now();
    for (int i = 0; i < count; ++i) run(*context);
    return now() - start;
  }
};

void warm_up(Contestant& c, double sample_seconds) {
  c.context = std::make_unique<Context>(c.result.threads);
  double once = c.time(1);
  c.spent += once;
  if (once < sample_seconds) once = c.time(3) / 3.0;  // the first run made pages and threads
  c.runs = std::max(1, static_cast<int>(std::lround(sample_seconds / std::max(once, 1e-7))));
}

double yardstick_of(const Contestant& c, const Yardsticks& yardsticks, double seconds) {
  if (c.result.row->yardstick == Yardstick::Peak) {
    return yardsticks.peak(c.result.threads, seconds);
  }
  return yardsticks.read_speed(c.result.threads, static_cast<std::size_t>(c.result.row->bytes),
                               seconds);
}

void take_sample(Contestant& c, int round, const Yardsticks& yardsticks) {
  constexpr double kLeast = 0.0005;
  constexpr double kMost = 0.02;
  const double expected = c.result.samples.empty() ? 0.0 : c.result.samples.back().seconds * c.runs;
  const double part = std::clamp(0.05 * expected, kLeast, kMost);
  const double before = yardstick_of(c, yardsticks, part);
  if (c.runs > 1)
    static_cast<void>(c.time(1));  // the yardstick pushed a short row's numbers out of the cache
  const double calm_before = yardsticks.calm(c.result.threads);
  const double waited_before = waiting_seconds();
  const double elapsed = c.time(c.runs);
  const double waited = (waiting_seconds() - waited_before) / (elapsed * c.result.threads);
  const double calm_after = yardsticks.calm(c.result.threads);
  const double after = yardstick_of(c, yardsticks, part);
  c.spent += elapsed;
  c.result.samples.push_back(
      {round, elapsed / c.runs, (before + after) / 2.0, waited, std::min(calm_before, calm_after)});
}

// A row that throws is told in the report and does not stop the others.
template <typename Step>
void guarded(Contestant& c, const Step& step) {
  if (!c.result.failure.empty()) return;
  try {
    step();
  } catch (const std::exception& error) {
    c.result.failure = error.what();
    c.result.samples.clear();
  }
}

// A slow row gets fewer rounds, a very slow one a single one.
bool had_enough(const Contestant& c, const Effort& effort) {
  const auto samples = static_cast<int>(c.result.samples.size());
  const int least = c.spent > 5.0 * effort.case_seconds ? 1 : effort.least_samples;
  return c.spent > effort.case_seconds && samples >= least;
}

std::vector<Contestant> prepare(std::span<const Case> cases, const Effort& effort) {
  std::vector<Contestant> contestants;
  for (const Case& row : cases) {
    const std::size_t first = contestants.size();
    for (const int threads : effort.threads) {
      contestants.push_back(
          {.result = {.row = &row, .threads = threads}, .run = {}, .context = nullptr});
    }
    guarded(contestants[first], [&] { contestants[first].run = row.prepare(); });
    for (std::size_t i = first; i < contestants.size(); ++i) {
      contestants[i].run = contestants[first].run;
      contestants[i].result.failure = contestants[first].result.failure;
      guarded(contestants[i], [&] { warm_up(contestants[i], effort.sample_seconds); });
    }
  }
  return contestants;
}

}  // namespace

std::vector<Measurement> measure_group(std::span<const Case> cases, const Effort& effort,
                                       const Yardsticks& yardsticks, Progress& progress) {
  progress.show(cases.front().group, 0, effort.rounds);
  std::vector<Contestant> contestants = prepare(cases, effort);
  for (int round = 0; round < effort.rounds; ++round) {
    progress.show(cases.front().group, round + 1, effort.rounds);
    for (Contestant& c : contestants) {
      if (!had_enough(c, effort)) guarded(c, [&] { take_sample(c, round, yardsticks); });
    }
  }
  std::vector<Measurement> results;
  for (Contestant& c : contestants) {
    if (c.context) c.result.scratch_bytes = c.context->scratch_bytes();
    results.push_back(std::move(c.result));
  }
  return results;
}

}  // namespace headwise::bench
