// Keras 3: MultiHeadAttention and GroupQueryAttention on the TensorFlow, JAX and torch backends.
#include <optional>

#include "parity/parity.h"

namespace headwise::test_support {
namespace {

std::optional<std::int64_t> optional_size(GoldenCase& golden, const std::string& key) {
  if (!golden.has_option(key)) return std::nullopt;
  return golden.option<std::int64_t>(key);
}

AttentionConfig keras_config(GoldenCase& golden) {
  const bool grouped = golden.option<std::string>("layer") == "GroupQueryAttention";
  AttentionConfig config;
  config.num_heads = golden.option<std::int64_t>(grouped ? "num_query_heads" : "num_heads");
  config.num_kv_heads = optional_size(golden, "num_key_value_heads");
  config.key_dim = golden.option<std::int64_t>(grouped ? "head_dim" : "key_dim");
  config.value_dim = optional_size(golden, "value_dim");
  config.query_features = golden.floats("query").extent(2);
  config.key_features = golden.floats("key").extent(2);
  config.value_features = golden.floats("value").extent(2);
  config.output_features = optional_size(golden, "output_shape");
  config.use_bias = golden.option_or("use_bias", true);
  config.use_gate = golden.option_or("use_gate", false);
  return config;
}

// Keras: true = attend; rank 3 is (B,T,S); causal stands top-left; a window of w keeps |i−j| < w.
Mask keras_mask(GoldenCase& golden) {
  Mask mask;
  if (golden.has("attention_mask")) {
    const BoolTensor& given = golden.bools("attention_mask");
    mask = mask & keep(given, given.rank() == 3 ? Axes::BatchQueryKey : Axes::BatchHeadQueryKey);
  }
  if (golden.has("query_mask")) mask = mask & keep(golden.bools("query_mask"), Axes::BatchQuery);
  if (golden.has("value_mask")) mask = mask & keep(golden.bools("value_mask"), Axes::BatchKey);
  if (golden.has("key_mask")) mask = mask & keep(golden.bools("key_mask"), Axes::BatchKey);
  if (golden.option_or("use_causal_mask", false)) mask = mask & causal(Alignment::TopLeft);
  if (const auto width = optional_size(golden, "sliding_window")) {
    mask = mask & window(*width - 1, *width - 1) & aligned(Alignment::TopLeft);
  }
  return mask;
}

// With value_dim ≠ key_dim the JAX backend has weights and gradients on its slower path alone.
void note_what_keras_cannot(GoldenCase& golden) {
  const auto backend = golden.option<std::string>("backend");
  const auto path = golden.option<std::string>("path");
  if (!golden.has_option("fused_path_raises")) return;
  EXPECT_EQ(backend, "jax");
  EXPECT_EQ(path, "scores");
  EXPECT_NE(golden.option_or<std::int64_t>("value_dim", 0), golden.option<std::int64_t>("key_dim"));
  say_difference("without returned weights Keras on JAX raises " +
                 golden.option<std::string>("fused_path_raises") + " where value_dim ≠ key_dim");
}

class KerasParity : public ::testing::TestWithParam<std::string> {};

TEST_P(KerasParity, OutputWeightsAndGradients) {
  with_case("keras", GetParam(), [](GoldenCase& golden) {
    note_what_keras_cannot(golden);
    expect_layer_parity(golden, {.config = keras_config(golden),
                                 .read = presets::keras_weights,
                                 .options = {.mask = keras_mask(golden)}});
  });
}

INSTANTIATE_TEST_SUITE_P(Keras, KerasParity, ::testing::ValuesIn(golden_case_names("keras")),
                         case_name);

TEST(KerasGoldenFile, IsComplete) { expect_complete("keras"); }

// The file has every backend, with the same cases.
TEST(KerasGoldenFile, HasAllBackends) {
  std::map<std::string, int> counts;
  for (const std::string& name : golden_case_names("keras"))
    ++counts[name.substr(0, name.find('_'))];
  ASSERT_EQ(counts.size(), 3U);
  EXPECT_EQ(counts["jax"], counts["tensorflow"]);
  EXPECT_EQ(counts["torch"], counts["tensorflow"]);
}

}  // namespace
}  // namespace headwise::test_support
