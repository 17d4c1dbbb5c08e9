// PyTorch: nn.MultiheadAttention with every option.
#include "parity/parity.h"

namespace headwise::test_support {
namespace {

std::optional<std::int64_t> optional_size(GoldenCase& golden, const std::string& key) {
  if (!golden.has_option(key)) return std::nullopt;
  return golden.option<std::int64_t>(key);
}

AttentionConfig torch_config(GoldenCase& golden) {
  return presets::torch({.embed_dim = golden.option<std::int64_t>("embed_dim"),
                         .num_heads = golden.option<std::int64_t>("num_heads"),
                         .bias = golden.option_or("bias", true),
                         .add_bias_kv = golden.option_or("add_bias_kv", false),
                         .add_zero_attn = golden.option_or("add_zero_attn", false),
                         .kdim = optional_size(golden, "kdim"),
                         .vdim = optional_size(golden, "vdim")});
}

// A mask as torch passes it, with the axes that Headwise wants said. torch folds batch and heads
// into one axis: (B·H,T,S), or (H,T,S) for a single sequence; padding is (B,S) or (S).
struct Placed {
  Shape shape;
  Axes axes;
};

Placed place(const Shape& given, const std::string& name, const AttentionConfig& config,
             bool batched) {
  if (name == "key_padding_mask") {
    return batched ? Placed{given, Axes::BatchKey} : Placed{{1, given[0]}, Axes::BatchKey};
  }
  if (given.rank() == 2) return {given, Axes::QueryKey};
  if (!batched) return {given, Axes::HeadQueryKey};
  return {{given[0] / config.num_heads, config.num_heads, given[1], given[2]},
          Axes::BatchHeadQueryKey};
}

// torch: true = DROP, hence the inversion; a float mask is added to the scores.
void add_mask(GoldenCase& golden, const std::string& name, LayerUnderTest& layer) {
  if (!golden.has(name)) return;
  const bool batched = golden.floats("query").rank() == 3;
  if (golden.is_bool(name)) {
    const BoolTensor& given = golden.bools(name);
    const Placed placed = place(given.shape(), name, layer.config, batched);
    layer.options.mask =
        layer.options.mask & keep(inverted(given).reshaped(placed.shape), placed.axes);
  } else {
    const Tensor& given = golden.floats(name);
    const Placed placed = place(given.shape(), name, layer.config, batched);
    layer.options.bias.emplace_back(given.reshaped(placed.shape), placed.axes);
    layer.biases.push_back(name);
  }
}

class TorchParity : public ::testing::TestWithParam<std::string> {};

TEST_P(TorchParity, OutputWeightsAndGradients) {
  with_case("torch", GetParam(), [](GoldenCase& golden) {
    LayerUnderTest layer{.config = torch_config(golden), .read = presets::torch_weights};
    layer.sequence_first = !golden.option<bool>("batch_first");
    EXPECT_EQ(golden.option<std::string>("weights") != "none", golden.has("attention"));
    add_mask(golden, "attn_mask", layer);
    add_mask(golden, "key_padding_mask", layer);
    expect_layer_parity(golden, layer);
  });
}

INSTANTIATE_TEST_SUITE_P(Torch, TorchParity, ::testing::ValuesIn(golden_case_names("torch")),
                         case_name);

TEST(TorchGoldenFile, IsComplete) { expect_complete("torch"); }

}  // namespace
}  // namespace headwise::test_support
