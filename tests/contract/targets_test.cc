// The CPU target decides nothing: all that can fuse a multiply-add give the same bits, the readable
// reference among them. sse4 cannot, and is held to a tolerance.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>

#include "contract/recipes.h"
#include "contract/runs.h"

namespace headwise::test_support {
namespace {

constexpr std::string_view kUnfused = "sse4";
constexpr std::string_view kScalar = "reference";
constexpr std::string_view kKnown[] = {"avx512", "avx2", "sse4", "neon", "reference"};
// The reference computes number by number; larger cases would take it seconds.
constexpr std::int64_t kMostForReference = 6'000'000;

std::map<std::string, int>& compared_calls() {
  static std::map<std::string, int> calls;
  return calls;
}

class PrintTargets : public ::testing::Environment {
 public:
  void TearDown() override {
    if (compared_calls().empty()) return;  // other tests were asked for
    const auto here = available_targets();
    for (const std::string_view name : kKnown) {
      const std::string text(name);
      if (std::find(here.begin(), here.end(), name) == here.end()) {
        std::printf("target %s: skipped, not on this CPU\n", text.c_str());
      } else {
        std::printf("target %s: %d calls compared\n", text.c_str(), compared_calls()[text]);
      }
    }
  }
};

const auto* const kPrintTargets = ::testing::AddGlobalTestEnvironment(new PrintTargets);

using Run = std::function<Results(Context&)>;

double largest(const Tensor& tensor) {
  double size = 0.0;
  for (const float x : tensor.values()) {
    if (std::isfinite(x)) size = std::max(size, std::abs(static_cast<double>(x)));
  }
  return size;
}

// Roundings differ, nothing else: far apart would be an error, not a rounding.
void require_close(const Results& a, const Results& b, const std::string& what) {
  double size = 1.0;  // gradients may cancel to less than what they are made of
  for (const auto& [name, tensor] : a) size = std::max(size, largest(tensor));
  for (const auto& [name, x] : a) {
    const Tensor& y = b.at(name);
    // The reference score may round to the next integer; the choice of equal weights may change.
    if (name == "row_reference" || name == "row_sum" || name == "top.indices") continue;
    RC_ASSERT(x.shape() == y.shape());
    for (std::int64_t i = 0; i < x.size(); ++i) {
      const float p = x.data()[i];
      const float q = y.data()[i];
      if (p == q || (std::isnan(p) && std::isnan(q))) continue;
      if (!(std::abs(static_cast<double>(p) - static_cast<double>(q)) <= 2e-4 * size)) {
        RC_FAIL(what + ", " + name + ": " + std::to_string(p) + " and " + std::to_string(q));
      }
    }
  }
}

// Every target, on 1, 2, 3, … threads in turn.
void compare_targets(const ContractRecipe& recipe, std::int64_t work, const Run& run) {
  const auto targets = available_targets();
  const std::string_view first = targets.front() == kUnfused ? kScalar : targets.front();
  if (first == kScalar && work > kMostForReference) return;
  const Results expected = run(shared_context(1, first));
  ++compared_calls()[std::string(first)];
  int threads = 1 + static_cast<int>(recipe.seed % 3);
  for (const std::string_view name : targets) {
    if (name == first) continue;
    if (name == kScalar && work > kMostForReference) continue;
    // What overflows with one rounding need not with two.
    if (name == kUnfused && recipe.spoilt) continue;
    const Results got = run(shared_context(threads, name));
    const std::string what = std::string(name) + " on " + std::to_string(threads) + " threads";
    if (name == kUnfused) {
      require_close(expected, got, what);
    } else {
      require_same(expected, got, what);
    }
    ++compared_calls()[std::string(name)];
    threads = threads % 3 + 1;
  }
}

RC_GTEST_PROP(TargetContract, AttentionGivesTheSameBits, (const ContractRecipe& recipe)) {
  OpCase c = make_op_case(recipe);
  compare_targets(recipe, multiply_adds(recipe), [&](Context& context) {
    c.options.context = &context;
    return run_op(c.inputs, c.output_gradient, c.options);
  });
}

RC_GTEST_PROP(TargetContract, LayersGiveTheSameBits, (const ContractRecipe& recipe)) {
  LayerCase c = make_layer_case(recipe);
  const MultiHeadAttention layer(c.config, c.weights);
  const std::int64_t work = multiply_adds(recipe) + projection_multiply_adds(recipe);
  compare_targets(recipe, work, [&](Context& context) {
    c.options.context = &context;
    return run_layer(layer, c.inputs, c.output_gradient, c.options);
  });
}

}  // namespace
}  // namespace headwise::test_support
