// The choice of a CPU target: by name, by environment, by default.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headwise/context.h"
#include "headwise/error.h"
#include "support/expect_error.h"

namespace headwise {
namespace {

using test_support::refuses;

constexpr const char* kVariable = "HEADWISE_TARGET";

// Sets or, given nothing, unsets the variable; puts back what was there.
class ForcedTarget {
 public:
  explicit ForcedTarget(std::optional<std::string> value) {
    if (const char* before = std::getenv(kVariable)) before_ = before;
    set(value);
  }
  ~ForcedTarget() { set(before_); }
  ForcedTarget(const ForcedTarget&) = delete;
  ForcedTarget& operator=(const ForcedTarget&) = delete;

 private:
  static void set(const std::optional<std::string>& value) {
    if (value) {
      setenv(kVariable, value->c_str(), 1);
    } else {
      unsetenv(kVariable);
    }
  }
  std::optional<std::string> before_;
};

std::string known_targets() {
  std::string list;
  for (const std::string_view name : available_targets()) {
    list += (list.empty() ? "" : ", ") + std::string(name);
  }
  return list;
}

TEST(Targets, AreListedBestFirstAndTheReferenceLast) {
  const std::vector<std::string_view> best_first = {"avx512", "avx2", "sse4", "neon", "reference"};
  const auto names = available_targets();
  ASSERT_FALSE(names.empty());
  EXPECT_EQ(names.back(), "reference");
  auto place = best_first.begin();  // a known name, after the one before, and never twice
  for (const std::string_view name : names) {
    place = std::find(place, best_first.end(), name);
    ASSERT_NE(place, best_first.end()) << name;
    ++place;
  }
}

// Without this, all tests of targets would pass on a build that lost its SIMD kernels.
TEST(Targets, IncludeWhatThisCpuHas) {
  const auto names = available_targets();
  const auto has = [&](std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
#if defined(__x86_64__)
  __builtin_cpu_init();
  EXPECT_EQ(has("avx512"),
            __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
                __builtin_cpu_supports("avx512bw") != 0 &&
                __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512cd") != 0);
  EXPECT_EQ(has("avx2"), __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0);
  EXPECT_EQ(has("sse4"), __builtin_cpu_supports("sse4.2") != 0);
#elif defined(__aarch64__)
  EXPECT_TRUE(has("neon"));
#endif
}

TEST(Targets, AContextRunsTheOneItWasGiven) {
  for (const std::string_view name : available_targets()) {
    EXPECT_EQ(Context(1, name).target(), name);
    const ForcedTarget other("reference");  // an argument outranks the environment
    EXPECT_EQ(Context(2, name).target(), name);
  }
}

TEST(Targets, AMovedFromContextHasNone) {
  Context context(1, "reference");
  const Context taken = std::move(context);
  EXPECT_EQ(taken.target(), "reference");
  EXPECT_EQ(context.target(), "");  // NOLINT(bugprone-use-after-move)
}

TEST(Targets, TheDefaultIsTheBest) {
  for (const auto& value : {std::optional<std::string>(), std::optional<std::string>("")}) {
    const ForcedTarget none(value);
    EXPECT_EQ(default_target(), available_targets().front());
    EXPECT_EQ(Context(1).target(), available_targets().front());
    EXPECT_EQ(Context().target(), available_targets().front());
  }
}

TEST(Targets, TheEnvironmentForcesOne) {
  for (const std::string_view name : available_targets()) {
    const ForcedTarget forced{std::string(name)};
    EXPECT_EQ(default_target(), name);
    EXPECT_EQ(Context(1).target(), name);
    EXPECT_EQ(Context().target(), name);
  }
}

TEST(Targets, UnknownNamesAreRefusedWithTheKnownOnes) {
  for (const std::string name : {"avx9", "AVX2", "reference "}) {
    const std::string advice = "expected one of " + known_targets() + ", got \"" + name + "\"";
    EXPECT_TRUE(refuses([&] { Context(1, name); }, "Context", "target", advice));
  }
  // Not the default: that is Context(1).
  EXPECT_TRUE(refuses([] { Context(1, ""); }, "Context", "target", "got \"\""));
  EXPECT_TRUE(refuses([] { Context(0, "reference"); }, "Context", "threads"));
}

TEST(Targets, AnUnknownNameInTheEnvironmentIsRefusedToo) {
  const ForcedTarget forced("avx9");
  const std::string advice = "expected one of " + known_targets() + ", got \"avx9\"";
  EXPECT_TRUE(refuses([] { (void)default_target(); }, "default_target", kVariable, advice));
  EXPECT_TRUE(refuses([] { Context(1); }, "Context", kVariable, advice));
  EXPECT_TRUE(refuses([] { Context(); }, "Context", kVariable, advice));
  EXPECT_EQ(Context(1, "reference").target(), "reference");  // which asks nobody
}

TEST(LastCall, SaysWhatRanAndWhy) {
  Context context(2, "reference");
  EXPECT_TRUE(context.last_call().target.empty());
  const Tensor x = Tensor::normal({1, 40, 2, 16}, 1);
  (void)attention(x, x, x, {.context = &context});
  CallReport report = context.last_call();
  EXPECT_EQ(report.target, "reference");
  EXPECT_EQ(report.target_reason, "the context asks for it");
  EXPECT_NE(report.attention.find("block by block"), std::string_view::npos) << report.attention;
  EXPECT_EQ(report.threads, 1) << "too little work";

  const Tensor query = Tensor::normal({1, 1, 2, 16}, 2);
  (void)attention(query, x, x, {.context = &context});
  report = context.last_call();
  EXPECT_NE(report.attention.find("where they lie"), std::string_view::npos) << report.attention;

  const Tensor longer = Tensor::normal({1, 600, 2, 16}, 3);
  (void)attention(longer, longer, longer, {.context = &context});
  report = context.last_call();
  EXPECT_NE(report.attention.find("packed before"), std::string_view::npos) << report.attention;
  EXPECT_EQ(report.threads, 2);
  EXPECT_NE(report.to_string().find("reference: the context asks for it; register tile"),
            std::string::npos)
      << report.to_string();

  // One head with one query is one task, however many threads there are.
  const Tensor keys = Tensor::normal({1, 40000, 1, 16}, 4);
  const Tensor one = Tensor::normal({1, 1, 1, 16}, 5);
  (void)attention(one, keys, keys, {.context = &context});
  EXPECT_EQ(context.last_call().threads, 1);
}

}  // namespace
}  // namespace headwise
