// Yardsticks and timing. How fast the machine is, no test knows; how samples are judged, it does.
#include "headwise/machine.h"

#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "headwise/context.h"
#include "headwise/cost.h"
#include "support/expect_error.h"

namespace headwise {
namespace {

using test_support::refuses;

TEST(Machine, ReadSpeedOfThePlaceThatHoldsTheSize) {
  const ThreadYardsticks y{1,
                           1e9,
                           {{"L2", 50, 100, 3.0},
                            {"L3", 500, 1000, 2.0},
                            {"memory", 5000, std::numeric_limits<std::size_t>::max(), 1.0}}};
  EXPECT_EQ(y.read_speed(0.0), 3.0);
  EXPECT_EQ(y.read_speed(100.0), 3.0);
  EXPECT_EQ(y.read_speed(101.0), 2.0);
  EXPECT_EQ(y.read_speed(1e6), 1.0);
  EXPECT_EQ(y.read_speed(1e300), 1.0);
  EXPECT_TRUE(refuses([] { static_cast<void>(ThreadYardsticks().read_speed(1.0)); },
                      "ThreadYardsticks::read_speed", "reads"));
}

TEST(Machine, ThreadCountsThatWereNotMeasuredAreRefused) {
  Machine machine;
  machine.yardsticks = {{.threads = 1, .peak = 5.0}, {.threads = 4, .peak = 9.0}};
  EXPECT_EQ(machine.at(4).peak, 9.0);
  EXPECT_TRUE(
      refuses([&] { static_cast<void>(machine.at(2)); }, "Machine::at", "threads", "measured"));
}

TEST(Machine, QuantilesLieBetweenNeighbours) {
  EXPECT_EQ(quantile({4.0, 1.0, 3.0, 2.0}, 0.5), 2.5);
  EXPECT_EQ(quantile({4.0, 1.0, 3.0, 2.0}, 0.0), 1.0);
  EXPECT_EQ(quantile({4.0, 1.0, 3.0, 2.0}, 1.0), 4.0);
  EXPECT_EQ(quantile({7.0}, 0.3), 7.0);
  EXPECT_DOUBLE_EQ(quantile({0.0, 10.0}, 0.25), 2.5);
}

TEST(Machine, DisturbedSamplesAreLeftOut) {
  const TimingSample quiet{.seconds = 1.0, .yardstick = 1.0, .waited = 0.01, .calm = 100.0};
  TimingSample preempted = quiet;
  preempted.waited = 0.2;
  TimingSample crowded = quiet;  // somebody on the same core
  crowded.calm = 70.0;
  EXPECT_TRUE(undisturbed(quiet, 100.0));
  EXPECT_FALSE(undisturbed(preempted, 100.0));
  EXPECT_FALSE(undisturbed(crowded, 100.0));
  EXPECT_EQ(quiet_samples({preempted, quiet, crowded, quiet}, 100.0).size(), 2U);
  EXPECT_EQ(quiet_samples({preempted, crowded}, 100.0).size(), 2U) << "all, if none was quiet";
}

// A single fast moment does not make all others disturbed.
TEST(Machine, CalmestIsNearlyTheHighest) {
  std::vector<TimingSample> samples(20, TimingSample{.calm = 100.0});
  samples.push_back({.calm = 150.0});
  EXPECT_EQ(calmest(samples), 100.0);
  EXPECT_EQ(calmest({}), 0.0);
}

TEST(Machine, EveryTargetHasAYardstick) {
  for (const std::string_view target : available_targets()) {
    if (target == "reference") continue;  // made to be read
    const Yardsticks yardsticks(std::string(target), 1 << 16);
    EXPECT_GT(yardsticks.peak(1, 1e-4), 0.0) << target;
    EXPECT_GT(yardsticks.read_speed(1, 1 << 16, 1e-4), 0.0) << target;
    EXPECT_GT(yardsticks.calm(2), 0.0) << target;
    EXPECT_TRUE(yardsticks.lanes() >= 4 && yardsticks.lanes() <= 16) << target;
  }
}

TEST(Machine, UnknownTargetsAreRefused) {
  EXPECT_TRUE(refuses([] { const Yardsticks y("abacus", 0); }, "Yardsticks", "target", "abacus"));
}

TEST(Machine, MeasurementsThatCannotBeAreRefused) {
  const std::string target(default_target());
  const Yardsticks yardsticks(target, 1 << 12);
  const auto peak = [&](int threads, double seconds) {
    return [&, threads, seconds] { static_cast<void>(yardsticks.peak(threads, seconds)); };
  };
  const auto read = [&](int threads, std::size_t bytes, double seconds) {
    return [&, threads, bytes, seconds] {
      static_cast<void>(yardsticks.read_speed(threads, bytes, seconds));
    };
  };
  for (const int threads : {0, -1, 1025, 100000}) {
    const auto describe = [&] {
      static_cast<void>(describe_machine(target, {1, threads}, yardsticks));
    };
    EXPECT_TRUE(refuses(peak(threads, 0.0), "Yardsticks::peak", "threads", "1 … 1024"));
    EXPECT_TRUE(refuses(read(threads, 64, 0.0), "Yardsticks::read_speed", "threads", "1 … 1024"));
    EXPECT_TRUE(refuses([&] { static_cast<void>(yardsticks.calm(threads)); }, "Yardsticks::calm",
                        "threads", "1 … 1024"));
    EXPECT_TRUE(refuses(describe, "describe_machine", "threads", "1 … 1024"));
  }
  for (const double seconds :
       {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_TRUE(refuses(peak(1, seconds), "Yardsticks::peak", "seconds"));
    EXPECT_TRUE(refuses(read(1, 64, seconds), "Yardsticks::read_speed", "seconds"));
  }
  EXPECT_TRUE(refuses(read(1, 3, 0.0), "Yardsticks::read_speed", "bytes", "got 3"));
  EXPECT_TRUE(refuses(read(2, 7, 0.0), "Yardsticks::read_speed", "bytes", "got 7"));
  EXPECT_GT(yardsticks.read_speed(2, 8, 0.0), 0.0);
  const Yardsticks empty(target, 0);
  EXPECT_TRUE(refuses([&] { static_cast<void>(empty.read_speed(1, 64, 0.0)); },
                      "Yardsticks::read_speed", "bytes", "got 0"));
}

TEST(Machine, LayersAreNotMeasuredInNoRounds) {
  const AttentionConfig config{.num_heads = 2, .key_dim = 8, .query_features = 16};
  const Yardsticks yardsticks(std::string(default_target()), 1 << 16);
  const auto measure = [&](const MeasureOptions& options) {
    return [&, options] {
      static_cast<void>(measure_layers({{config, {.queries = 3}}}, options, yardsticks));
    };
  };
  for (const int rounds : {0, -1}) {
    EXPECT_TRUE(refuses(measure({.rounds = rounds}), "measure_layers", "rounds", "1 or more"));
  }
  for (const int threads : {0, -1, 1025}) {
    EXPECT_TRUE(refuses(measure({.threads = threads}), "measure_layers", "threads", "1 … 1024"));
  }
  EXPECT_TRUE(refuses(measure({.layer_seconds = std::numeric_limits<double>::quiet_NaN()}),
                      "measure_layers", "layer_seconds"));
}

TEST(Machine, ShortRunsAreRepeatedWithinASample) {
  const Yardsticks yardsticks(std::string(default_target()), 1 << 16);
  int runs = 0;
  TimedRun timed([&] { ++runs; }, TimingYardstick{1}, 1e-4);
  const int before = runs;
  EXPECT_GT(before, 0) << "first runs are not timed";
  const TimingSample sample = timed.sample(yardsticks);
  EXPECT_GT(runs - before, 10);
  EXPECT_GT(sample.seconds, 0.0);
  EXPECT_LT(sample.seconds, 1e-4);
  EXPECT_GT(sample.yardstick, 0.0);
  EXPECT_GT(sample.calm, 0.0);
}

TEST(Machine, LongRunsAreTimedOneByOne) {
  const Yardsticks yardsticks(std::string(default_target()), 1 << 16);
  int runs = 0;
  const auto sleep = [&] {
    ++runs;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  };
  TimedRun timed(sleep, TimingYardstick{.threads = 1, .read_bytes = 1 << 12}, 1e-4);
  EXPECT_EQ(runs, 1);
  const TimingSample sample = timed.sample(yardsticks);
  EXPECT_EQ(runs, 2);
  EXPECT_GE(sample.seconds, 0.002);
  EXPECT_GE(timed.spent(), 0.004);
}

TEST(Machine, DescriptionHasEveryThreadCountAndPlace) {
  const std::string target(default_target());
  const Yardsticks yardsticks(target, largest_read_bytes());
  const Machine machine = describe_machine(target, {1, 2}, yardsticks);
  EXPECT_EQ(machine.target, target);
  EXPECT_FALSE(machine.cpu.empty());
  EXPECT_GT(machine.cpus, 0);
  EXPECT_EQ(machine.lanes, yardsticks.lanes());
  EXPECT_GT(machine.call_seconds, 0.0);
  ASSERT_EQ(machine.yardsticks.size(), 2U);
  for (const int threads : {1, 2}) {
    const ThreadYardsticks& y = machine.at(threads);
    EXPECT_GT(y.peak, 0.0);
    ASSERT_EQ(y.reads.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_GT(y.reads[i].bytes_per_second, 0.0);
      EXPECT_GT(y.reads[i].holds, i == 0 ? 0 : y.reads[i - 1].holds);
    }
  }
}

// Every kind of call runs, in turns; what comes out is a time of each.
TEST(Machine, LayersAreMeasuredInTurns) {
  const AttentionConfig config{.num_heads = 2, .key_dim = 8, .query_features = 16};
  AttentionConfig cross = config;
  cross.key_features = 24;
  cross.value_features = 12;
  const std::vector<LayerRun> layers = {
      {config, {.batch = 2, .queries = 5, .mask = causal()}},
      {config, {.batch = 1, .queries = 9, .training = true}},
      {cross, {.batch = 2, .queries = 3, .keys = 7, .mask = valid_lengths({2, 7})}}};
  const Yardsticks yardsticks(std::string(default_target()), 1 << 16);
  std::vector<int> rounds;
  const std::vector<LayerTiming> timings = measure_layers(
      layers, {.threads = 2, .rounds = 3, .on_round = [&](int round) { rounds.push_back(round); }},
      yardsticks);
  EXPECT_EQ(rounds, (std::vector<int>{1, 2, 3}));
  ASSERT_EQ(timings.size(), 3U);
  for (const LayerTiming& timing : timings) {
    EXPECT_GT(timing.seconds, 0.0);
    EXPECT_LE(timing.seconds_low, timing.seconds);
    EXPECT_GE(timing.seconds_high, timing.seconds);
    EXPECT_GT(timing.peak, 0.0);
    EXPECT_TRUE(timing.rounds >= 1 && timing.rounds <= 3);
  }
}

}  // namespace
}  // namespace headwise
