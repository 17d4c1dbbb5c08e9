// PyTorch: scaled_dot_product_attention on (B,H,T,d).
#include "parity/parity.h"

namespace headwise::test_support {
namespace {

// Masks broadcast from the right: rank 3 is (H,T,S).
std::optional<Axes> sdpa_axes(int rank) {
  if (rank == 3) return Axes::HeadQueryKey;
  return std::nullopt;
}

// Here, unlike in nn.MultiheadAttention, true = attend.
void add_mask(GoldenCase& golden, OperatorUnderTest& operation) {
  if (!golden.has("attn_mask")) return;
  if (golden.is_bool("attn_mask")) {
    const BoolTensor& given = golden.bools("attn_mask");
    operation.options.mask = keep(given, sdpa_axes(given.rank()));
  } else {
    const Tensor& given = golden.floats("attn_mask");
    operation.options.bias.emplace_back(given, sdpa_axes(given.rank()));
    operation.biases.emplace_back("attn_mask");
  }
}

class SdpaParity : public ::testing::TestWithParam<std::string> {};

TEST_P(SdpaParity, OutputAndGradients) {
  with_case("sdpa", GetParam(), [](GoldenCase& golden) {
    OperatorUnderTest operation;
    operation.options.layout = Layout::HeadsFirst;
    if (golden.has_option("scale")) operation.options.scale = golden.option<float>("scale");
    add_mask(golden, operation);
    if (golden.option_or("is_causal", false)) {
      operation.options.mask = operation.options.mask & causal(Alignment::TopLeft);
    }
    const HeadInputs inputs{golden.floats("query"), golden.floats("key"), golden.floats("value")};
    // torch wants to be told that heads are grouped; Headwise sees it by the shapes.
    EXPECT_EQ(golden.option_or("enable_gqa", false),
              inputs.query.extent(1) != inputs.key.extent(1));
    expect_operator_parity(golden, operation, inputs);
  });
}

INSTANTIATE_TEST_SUITE_P(Sdpa, SdpaParity, ::testing::ValuesIn(golden_case_names("sdpa")),
                         case_name);

TEST(SdpaGoldenFile, IsComplete) { expect_complete("sdpa"); }

}  // namespace
}  // namespace headwise::test_support
