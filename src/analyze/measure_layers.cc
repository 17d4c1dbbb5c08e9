// Real layers on random numbers, timed in turns.
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/thread_count.h"
#include "headwise/context.h"
#include "headwise/cost.h"
#include "headwise/layer.h"

namespace headwise {

namespace {

Tensor random_rows(std::int64_t batch, std::int64_t rows, std::int64_t features,
                   std::uint64_t seed) {
  return Tensor::uniform({batch, rows, features}, seed, -1.0F, 1.0F);
}

// A layer with everything that its runs need, so that nothing but they is timed.
class RunningLayer {
 public:
  RunningLayer(const LayerRun& run, Context& context)
      : layer_(run.config, AttentionWeights::glorot(run.config, run.config.seed)),
        query_(random_rows(run.call.batch, run.call.queries, run.config.query_features,
                           run.config.seed + 1)),
        output_({run.call.batch, run.call.queries, run.config.outputs()}) {
    const AttentionConfig& config = run.config;
    inputs_.query = query_;
    // As a user would call it: one tensor for all where the sizes allow it.
    if (run.call.keys || config.key_inputs() != config.query_features) {
      key_ =
          random_rows(run.call.batch, run.call.key_count(), config.key_inputs(), config.seed + 2);
      inputs_.key = key_;
    }
    if (config.value_inputs() != config.key_inputs()) {
      value_ =
          random_rows(run.call.batch, run.call.key_count(), config.value_inputs(), config.seed + 3);
      inputs_.value = value_;
    }
    options_.mask = run.call.mask;
    options_.out = output_.view();
    options_.training = run.call.training;
    options_.save_for_backward = run.call.training;
    options_.context = &context;
    if (run.call.training)
      gradient_ = Tensor::uniform(output_.shape(), config.seed + 4, -1.0F, 1.0F);
  }
  void operator()() const {
    const AttentionResult result = layer_.forward(inputs_, options_);
    if (options_.training) {
      static_cast<void>(layer_.backward(inputs_, result, gradient_, options_));
    }
  }

 private:
  MultiHeadAttention layer_;
  Tensor query_, key_, value_, output_, gradient_;
  AttentionInputs inputs_;
  ForwardOptions options_;
};

LayerTiming timing_of(const std::vector<TimingSample>& samples, double calm) {
  const std::vector<TimingSample> quiet = quiet_samples(samples, calm);
  std::vector<double> seconds;
  std::vector<double> peaks;
  for (const TimingSample& sample : quiet) {
    seconds.push_back(sample.seconds);
    peaks.push_back(sample.yardstick);
  }
  return {.seconds = quantile(seconds, 0.5),
          .seconds_low = quantile(seconds, 0.25),
          .seconds_high = quantile(seconds, 0.75),
          .peak = quantile(peaks, 0.5),
          .rounds = static_cast<int>(quiet.size()),
          .disturbed = !undisturbed(quiet.front(), calm)};
}

void check_options(const MeasureOptions& options) {
  constexpr const char* kFunction = "measure_layers";
  base::checked_threads(kFunction, options.threads);
  if (options.rounds < 1) {
    base::fail(kFunction, "rounds", "1 or more", std::to_string(options.rounds));
  }
  if (!(options.layer_seconds >= 0.0)) {
    base::fail(kFunction, "layer_seconds", "a number ≥ 0", base::to_string(options.layer_seconds));
  }
}

}  // namespace

std::vector<LayerTiming> measure_layers(const std::vector<LayerRun>& layers,
                                        const MeasureOptions& options,
                                        const Yardsticks& yardsticks) {
  check_options(options);
  constexpr double kSampleSeconds = 0.003;
  constexpr int kLeastSamples = 3;
  struct Contestant {
    std::unique_ptr<Context> context;
    std::unique_ptr<TimedRun> timed;
    std::vector<TimingSample> samples;
  };
  const std::string target =
      options.target.empty() ? std::string(default_target()) : options.target;
  std::vector<Contestant> contestants;
  for (const LayerRun& run : layers) {
    auto context = std::make_unique<Context>(options.threads, target);
    auto layer = std::make_shared<RunningLayer>(run, *context);
    auto timed = std::make_unique<TimedRun>([layer] { (*layer)(); },
                                            TimingYardstick{options.threads}, kSampleSeconds);
    contestants.push_back({std::move(context), std::move(timed), {}});
  }
  for (int round = 0; round < options.rounds; ++round) {
    for (Contestant& c : contestants) {
      const bool enough = c.timed->spent() > options.layer_seconds && round >= kLeastSamples;
      if (!enough) c.samples.push_back(c.timed->sample(yardsticks));
    }
    if (options.on_round) options.on_round(round + 1);
  }
  std::vector<TimingSample> all;
  for (const Contestant& c : contestants) all.insert(all.end(), c.samples.begin(), c.samples.end());
  const double calm = calmest(all);
  std::vector<LayerTiming> timings;
  timings.reserve(contestants.size());
  for (const Contestant& c : contestants) timings.push_back(timing_of(c.samples, calm));
  return timings;
}

}  // namespace headwise
