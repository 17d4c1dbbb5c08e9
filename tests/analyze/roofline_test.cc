// Predictions, on machines that were made up.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "analyze/kernel_shares.h"
#include "headwise/cost.h"
#include "support/expect_error.h"

namespace headwise {
namespace {

constexpr double kEndless = 1e30;

// On each of the thread counts as many times the peak and the bandwidth of one.
Machine machine_of(double peak, const std::vector<ReadSpeed>& reads,
                   std::vector<int> threads = {1}) {
  Machine machine{.cpu = "made up", .cpus = 2, .target = "avx2", .lanes = 8, .yardsticks = {}};
  for (const int n : threads) {
    ThreadYardsticks yardsticks{n, peak * n, reads};
    for (ReadSpeed& read : yardsticks.reads) read.bytes_per_second *= n;
    machine.yardsticks.push_back(yardsticks);
  }
  return machine;
}
std::vector<ReadSpeed> memory_alone(double speed) {
  return {{"memory", 1, std::numeric_limits<std::size_t>::max(), speed}};
}

const StageTime& time_of(const Prediction& prediction, Stage stage, Pass pass = Pass::Forward) {
  return *std::find_if(
      prediction.stages.begin(), prediction.stages.end(),
      [&](const StageTime& time) { return time.stage == stage && time.pass == pass; });
}

const AttentionConfig kLayer{
    .num_heads = 8, .key_dim = 64, .query_features = 512, .use_bias = false};

TEST(Roofline, ArithmeticAtTheKernelsShareOfThePeak) {
  const LayerCost cost = layer_cost(kLayer, {.batch = 32, .queries = 128});
  const Prediction p = predict(cost, machine_of(1e11, memory_alone(kEndless)), 1);
  // 2 · 4096 · 512 · 512 FLOPs at 94% of 100 GFLOP/s.
  EXPECT_NEAR(time_of(p, Stage::QueryProjection).seconds, 2147483648.0 / 0.94e11, 1e-9);
  // 2 · 4,194,304 pairs · 64 at 90%, and 10 operations for each of K's 2,097,152 numbers.
  EXPECT_NEAR(time_of(p, Stage::Scores).seconds,
              (2.0 * 4194304.0 * 64.0 / 0.90 + 10.0 * 2097152.0) / 1e11, 1e-9);
  EXPECT_NEAR(time_of(p, Stage::Softmax).seconds, 18.0 * 4194304.0 / 0.53 / 1e11, 1e-9);
  for (const StageTime& time : p.stages) EXPECT_EQ(time.bound, Bound::Compute);
}

TEST(Roofline, BytesAtTheSpeedOfThePlaceThatHoldsThem) {
  const std::vector<ReadSpeed> reads = {
      {"L2", 1, 1000000, 100e9},
      {"memory", 1, std::numeric_limits<std::size_t>::max(), 10e9},
  };
  const Machine machine = machine_of(kEndless, reads);
  // 4 kernels of 512 × 512 are 4 MB: memory.
  const LayerCost large = layer_cost(kLayer, {.queries = 1});
  const double bytes = 4.0 * (512 + 512 * 512 + 512);
  EXPECT_NEAR(time_of(predict(large, machine, 1), Stage::QueryProjection).seconds, bytes / 10e9,
              1e-12);
  EXPECT_EQ(time_of(predict(large, machine, 1), Stage::QueryProjection).bound, Bound::Memory);
  AttentionConfig small = kLayer;
  small.query_features = 64;
  small.num_heads = 1;
  const LayerCost little = layer_cost(small, {.queries = 1});
  EXPECT_NEAR(time_of(predict(little, machine, 1), Stage::QueryProjection).seconds,
              4.0 * (64 + 64 * 64 + 64) / 100e9, 1e-15);
}

TEST(Roofline, TheLongerOfBothDecides) {
  const LayerCost cost = layer_cost(kLayer, {.queries = 1});
  const Prediction compute = predict(cost, machine_of(1e11, memory_alone(kEndless)), 1);
  const Prediction memory = predict(cost, machine_of(kEndless, memory_alone(1e10)), 1);
  const Prediction both = predict(cost, machine_of(1e11, memory_alone(1e10)), 1);
  for (std::size_t i = 0; i < both.stages.size(); ++i) {
    EXPECT_DOUBLE_EQ(both.stages[i].seconds,
                     std::max(compute.stages[i].seconds, memory.stages[i].seconds));
  }
}

TEST(Roofline, CallsTasksAndMeetings) {
  const LayerCost cost = layer_cost(kLayer, {.batch = 2, .queries = 64});
  Machine machine = machine_of(kEndless, memory_alone(kEndless), {1, 2});
  machine.call_seconds = 1e-6;
  // A call and half of one for each of 16 heads; two threads share the heads and meet four times.
  EXPECT_NEAR(predict(cost, machine, 1).overhead, 9e-6, 1e-12);
  EXPECT_NEAR(predict(cost, machine, 2).overhead, 1e-6 + 4e-6 + 4e-6, 1e-12);
  EXPECT_NEAR(predict(cost, machine, 2).seconds, predict(cost, machine, 2).overhead, 1e-12);
}

// Two thousand queries under a causal mask: every row's edge costs some keys of hidden work.
TEST(Roofline, EdgesOfMasksCostPartOfATile) {
  const LayerCall causal_call{.queries = 2048, .mask = causal()};
  const LayerCost cost = layer_cost(kLayer, causal_call);
  const Prediction p = predict(cost, machine_of(1e11, memory_alone(kEndless)), 1);
  const double pairs = 8.0 * (2048.0 * 2049.0 / 2.0 + 2047.0 * 36.0);
  EXPECT_NEAR(time_of(p, Stage::Scores).seconds,
              (2.0 * pairs * 64.0 / 0.90 + 10.0 * 2048.0 * 512.0) / 1e11, 1e-9);
}

TEST(Roofline, PanelsAreFilledUp) {
  AttentionConfig config = kLayer;
  config.value_dim = 33;
  const LayerCost cost = layer_cost(config, {.queries = 64});
  const Prediction p = predict(cost, machine_of(1e11, memory_alone(kEndless)), 1);
  EXPECT_NEAR(time_of(p, Stage::Values).seconds,
              (2.0 * 8.0 * 64.0 * 64.0 * 48.0 / 0.90 + 10.0 * 8.0 * 64.0 * 33.0) / 1e11, 1e-12);
}

TEST(Roofline, SmallCallsStayOnOneThread) {
  const AttentionConfig tiny{.num_heads = 1, .key_dim = 16, .query_features = 16};
  Machine machine = machine_of(1e11, memory_alone(1e10), {1, 2});
  machine.call_seconds = 1e-6;
  const LayerCost cost = layer_cost(tiny, {.queries = 8});
  ASSERT_LT(cost.flops(), 2000000);
  EXPECT_DOUBLE_EQ(predict(cost, machine, 2).seconds, predict(cost, machine, 1).seconds);
}

// One head of few rows is one task, whatever the number of threads.
TEST(Roofline, OneTaskIsNotShared) {
  AttentionConfig config = kLayer;
  config.num_heads = 1;
  const Machine machine = machine_of(1e11, memory_alone(kEndless), {1, 2, 3});
  const auto scores = [&](std::int64_t batch, int threads) {
    const LayerCost cost = layer_cost(config, {.batch = batch, .queries = 128});
    return time_of(predict(cost, machine, threads), Stage::Scores).seconds;
  };
  EXPECT_DOUBLE_EQ(scores(1, 2), scores(1, 1));
  EXPECT_DOUBLE_EQ(scores(2, 2), scores(1, 1));
  EXPECT_DOUBLE_EQ(scores(4, 3), scores(2, 1));  // two of four tasks for one of the threads
}

TEST(Roofline, OtherTargetsHaveOtherShares) {
  const LayerCost cost = layer_cost(kLayer, {.batch = 8, .queries = 512});
  Machine machine = machine_of(1e11, memory_alone(kEndless));
  const double avx2 = predict(cost, machine, 1).seconds;
  machine.target = "sse4";
  EXPECT_GT(predict(cost, machine, 1).seconds, 1.2 * avx2);
  machine.target = "avx512";
  EXPECT_LT(predict(cost, machine, 1).seconds, avx2);
  machine.target = "something else";
  EXPECT_DOUBLE_EQ(predict(cost, machine, 1).seconds, avx2);
}

TEST(Roofline, ThreadsThatWereNotMeasured) {
  const LayerCost cost = layer_cost(kLayer, {.queries = 8});
  const Machine machine = machine_of(1e11, memory_alone(1e10));
  EXPECT_TRUE(test_support::refuses([&] { static_cast<void>(predict(cost, machine, 3)); },
                                    "Machine::at", "threads"));
}

TEST(Roofline, MachinesThatNoTimeFollowsFrom) {
  const LayerCost cost = layer_cost(kLayer, {.queries = 8});
  const auto refuses_machine = [&](const Machine& machine, const std::string& mentions) {
    return test_support::refuses([&] { static_cast<void>(predict(cost, machine, 1)); }, "predict",
                                 "machine", mentions);
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double speed : {0.0, -1.0, nan, std::numeric_limits<double>::infinity()}) {
    EXPECT_TRUE(refuses_machine(machine_of(speed, memory_alone(1e10)), "a peak > 0"));
    EXPECT_TRUE(refuses_machine(machine_of(1e11, memory_alone(speed)), "read speeds > 0"));
  }
  EXPECT_TRUE(refuses_machine(machine_of(1e11, {}), "read speeds of one place"));
  Machine machine = machine_of(1e11, memory_alone(1e10), {0, 1});
  EXPECT_TRUE(test_support::refuses([&] { static_cast<void>(predict(cost, machine, 0)); },
                                    "predict", "threads", "1 … 1024"));
  machine.call_seconds = nan;
  EXPECT_TRUE(refuses_machine(machine, "call_seconds"));
}

struct Sizes {
  AttentionConfig config;
  LayerCall call;
};

Sizes draw_sizes() {
  const auto size = [](std::int64_t most) { return *rc::gen::inRange<std::int64_t>(1, most + 1); };
  const std::int64_t kv_heads = size(4);
  Sizes sizes{{.num_heads = kv_heads * size(4),
               .num_kv_heads = kv_heads,
               .key_dim = size(130),
               .value_dim = size(130),
               .query_features = size(600),
               .key_features = size(600),
               .value_features = size(600),
               .output_features = size(600),
               .use_bias = *rc::gen::arbitrary<bool>(),
               .use_gate = *rc::gen::arbitrary<bool>()},
              {.batch = size(20),
               .queries = size(700),
               .keys = size(700),
               .training = *rc::gen::arbitrary<bool>()}};
  if (*rc::gen::arbitrary<bool>()) sizes.call.mask = causal(Alignment::TopLeft);
  return sizes;
}

Machine plausible_machine() {
  Machine machine =
      machine_of(1e11, {{"L2", 1, 1 << 20, 100e9},
                        {"L3", 1, 32 << 20, 60e9},
                        {"memory", 1, std::numeric_limits<std::size_t>::max(), 25e9}});
  machine.call_seconds = 1.5e-6;
  return machine;
}

RC_GTEST_PROP(Roofline, StagesAndOverheadAreAll, ()) {
  const Sizes sizes = draw_sizes();
  const LayerCost cost = layer_cost(sizes.config, sizes.call);
  const Prediction p = predict(cost, plausible_machine(), 1);
  RC_ASSERT(p.stages.size() == cost.stages.size());
  double sum = p.overhead;
  for (std::size_t i = 0; i < p.stages.size(); ++i) {
    RC_ASSERT(p.stages[i].stage == cost.stages[i].stage);
    RC_ASSERT(p.stages[i].pass == cost.stages[i].pass);
    RC_ASSERT(p.stages[i].seconds > 0.0);
    sum += p.stages[i].seconds;
  }
  RC_ASSERT(std::abs(sum - p.seconds) < 1e-12 * sum);
  RC_ASSERT(p.seconds > static_cast<double>(cost.flops()) / 1e11);  // never above the peak
}

RC_GTEST_PROP(Roofline, MoreWorkTakesNoLess, ()) {
  const Sizes sizes = draw_sizes();
  const Machine machine = plausible_machine();
  const auto seconds = [&](const Sizes& s) {
    return predict(layer_cost(s.config, s.call), machine, 1).seconds;
  };
  const double before = seconds(sizes);
  const auto grows = [&](auto change) {
    Sizes larger = sizes;
    change(larger);
    return seconds(larger) >= before;
  };
  RC_ASSERT(grows([](Sizes& s) { s.call.batch += 1; }));
  RC_ASSERT(grows([](Sizes& s) { s.call.queries += 1; }));
  RC_ASSERT(grows([](Sizes& s) { *s.call.keys += 1; }));
  RC_ASSERT(grows([](Sizes& s) { s.config.num_heads *= 2; }));
  RC_ASSERT(grows([](Sizes& s) { s.config.key_dim += 1; }));
  RC_ASSERT(grows([](Sizes& s) { *s.config.value_dim += 1; }));
  RC_ASSERT(grows([](Sizes& s) { s.config.query_features += 1; }));
  RC_ASSERT(grows([](Sizes& s) { *s.config.output_features += 1; }));
  RC_ASSERT(grows([](Sizes& s) { s.call.training = true; }));
}

RC_GTEST_PROP(Roofline, AFasterMachineTakesNoLonger, ()) {
  const Sizes sizes = draw_sizes();
  const LayerCost cost = layer_cost(sizes.config, sizes.call);
  const Machine machine = plausible_machine();
  const double before = predict(cost, machine, 1).seconds;
  Machine faster = machine;
  faster.yardsticks.front().peak *= 2.0;
  RC_ASSERT(predict(cost, faster, 1).seconds <= before);
  for (ReadSpeed& read : faster.yardsticks.front().reads) read.bytes_per_second *= 2.0;
  faster.call_seconds *= 0.5;
  RC_ASSERT(std::abs(predict(cost, faster, 1).seconds - 0.5 * before) < 1e-9 * before);
}

}  // namespace
}  // namespace headwise
