#include "measure.h"

#include <exception>
#include <functional>
#include <memory>

namespace headwise::bench {

namespace {

// A row on a number of threads, ready to run. Each has a context of its own, so that scratch_bytes
// is this row's need and not that of the largest one before.
struct Contestant {
  Measurement result;
  std::function<void(Context&)> run;
  std::unique_ptr<Context> context;
  std::unique_ptr<TimedRun> timed;
};

void warm_up(Contestant& c, double sample_seconds) {
  const Case& row = *c.result.row;
  c.context = std::make_unique<Context>(c.result.threads);
  const bool reads = row.yardstick == Yardstick::ReadSpeed;
  c.timed = std::make_unique<TimedRun>(
      [run = c.run, context = c.context.get()] { run(*context); },
      TimingYardstick{c.result.threads, reads ? static_cast<std::size_t>(row.bytes) : 0},
      sample_seconds);
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
  const int least = c.timed->spent() > 5.0 * effort.case_seconds ? 1 : effort.least_samples;
  return c.timed->spent() > effort.case_seconds && samples >= least;
}

std::vector<Contestant> prepare(std::span<const Case> cases, const Effort& effort) {
  std::vector<Contestant> contestants;
  for (const Case& row : cases) {
    const std::size_t first = contestants.size();
    for (const int threads : effort.threads) {
      contestants.push_back(
          {.result = {.row = &row, .threads = threads}, .run = {}, .context = {}, .timed = {}});
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
      guarded(c, [&] {
        if (had_enough(c, effort)) return;
        c.result.samples.push_back({round, c.timed->sample(yardsticks)});
      });
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
