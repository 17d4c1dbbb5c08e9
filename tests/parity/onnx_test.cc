// ONNX: the operator Attention of opsets 23 and 24, forward.
#include "parity/parity.h"

namespace headwise::test_support {
namespace {

// Rank 4 is (B,H,T,d). Rank 3 has the heads folded into the features: (B,T,H·d), which is
// (B,T,H,d) by another name.
Tensor with_heads(const Tensor& given, std::int64_t heads) {
  if (given.rank() == 4) return given;
  return given.reshaped({given.extent(0), given.extent(1), heads, given.extent(2) / heads});
}

// True = attend; floats are added; rank 3 is (H,T,S).
void add_mask(GoldenCase& golden, AttentionOptions& options) {
  if (!golden.has("attn_mask")) return;
  const auto axes = [](int rank) {
    return rank == 3 ? std::optional(Axes::HeadQueryKey) : std::nullopt;
  };
  if (golden.is_bool("attn_mask")) {
    const BoolTensor& given = golden.bools("attn_mask");
    options.mask = options.mask & keep(given, axes(given.rank()));
  } else {
    const Tensor& given = golden.floats("attn_mask");
    options.bias.emplace_back(given, axes(given.rank()));
  }
}

// Queries follow the past keys; with lengths given instead, the last one stands on the last key
// that is there.
void add_positions(GoldenCase& golden, AttentionOptions& options) {
  const bool is_causal = golden.option_or("is_causal", 0) == 1;
  const auto past = golden.option_or<std::int64_t>("past_length", 0);
  if (golden.has("nonpad_kv_seqlen")) {
    options.mask = options.mask & valid_lengths(golden.indices("nonpad_kv_seqlen"));
    if (is_causal) options.mask = options.mask & causal(Alignment::BottomRight);
  } else if (is_causal) {
    options.mask = options.mask & causal() & query_offset(past);
  }
}

class OnnxParity : public ::testing::TestWithParam<std::string> {};

TEST_P(OnnxParity, OutputAndWeights) {
  with_case("onnx", GetParam(), [](GoldenCase& golden) {
    EXPECT_GE(golden.option<int>("opset"), 23);
    AttentionOptions options;
    options.layout = golden.floats("Q").rank() == 4 ? Layout::HeadsFirst : Layout::SequenceFirst;
    if (golden.has_option("scale")) options.scale = golden.option<float>("scale");
    if (golden.has_option("softcap")) options.softcap = golden.option<float>("softcap");
    add_mask(golden, options);
    add_positions(golden, options);
    const auto heads = golden.option_or<std::int64_t>("q_num_heads", 0);
    const auto key_heads = golden.option_or<std::int64_t>("kv_num_heads", 0);
    expect_operator_parity(
        golden, {.options = options},
        {with_heads(golden.floats("Q"), heads), with_heads(golden.floats("K"), key_heads),
         with_heads(golden.floats("V"), key_heads)});
  });
}

INSTANTIATE_TEST_SUITE_P(Onnx, OnnxParity, ::testing::ValuesIn(golden_case_names("onnx")),
                         case_name);

TEST(OnnxGoldenFile, IsComplete) { expect_complete("onnx"); }

}  // namespace
}  // namespace headwise::test_support
