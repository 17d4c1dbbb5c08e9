// Flax: linen.MultiHeadDotProductAttention and nnx.MultiHeadAttention.
#include "parity/parity.h"

namespace headwise::test_support {
namespace {

AttentionConfig flax_config(GoldenCase& golden) {
  AttentionConfig config;
  config.num_heads = golden.option<std::int64_t>("num_heads");
  config.query_features = golden.floats("query").extent(2);
  config.key_features = golden.floats("key").extent(2);
  config.value_features = golden.floats("value").extent(2);
  config.key_dim = golden.option_or("qkv_features", config.query_features) / config.num_heads;
  config.num_kv_heads = golden.option_or("num_kv_heads", config.num_heads);
  config.output_features = golden.option_or("out_features", config.query_features);
  config.use_bias = golden.option<bool>("use_bias");
  // Flax normalises by a LayerNorm without shift, with the epsilon that Headwise starts with too.
  if (golden.option<bool>("normalize_qk")) config.qk_norm = QkNorm::LayerNorm;
  if (golden.has_option("in_kv_features")) {
    EXPECT_EQ(golden.option<std::int64_t>("in_kv_features"), *config.key_features);
  }
  return config;
}

class FlaxParity : public ::testing::TestWithParam<std::string> {};

TEST_P(FlaxParity, OutputWeightsAndGradients) {
  with_case("flax", GetParam(), [](GoldenCase& golden) {
    ForwardOptions options;
    if (golden.has("mask")) options.mask = keep(golden.bools("mask"));  // (B,H or 1,T,S)
    expect_layer_parity(
        golden, {.config = flax_config(golden), .read = presets::flax_weights, .options = options});
  });
}

INSTANTIATE_TEST_SUITE_P(Flax, FlaxParity, ::testing::ValuesIn(golden_case_names("flax")),
                         case_name);

TEST(FlaxGoldenFile, IsComplete) { expect_complete("flax"); }

}  // namespace
}  // namespace headwise::test_support
