// Dive into Deep Learning: its multi-head attention, with lengths per sequence or per query.
#include "parity/parity.h"

namespace headwise::test_support {
namespace {

class D2lParity : public ::testing::TestWithParam<std::string> {};

TEST_P(D2lParity, OutputWeightsAndGradients) {
  with_case("d2l", GetParam(), [](GoldenCase& golden) {
    ForwardOptions options;
    if (golden.has("valid_lens")) options.mask = valid_lengths(golden.indices("valid_lens"));
    expect_layer_parity(
        golden, {.config = presets::d2l({.num_hiddens = golden.option<std::int64_t>("num_hiddens"),
                                         .num_heads = golden.option<std::int64_t>("num_heads"),
                                         .bias = golden.option<bool>("bias")}),
                 .read = presets::d2l_weights,
                 .options = options});
  });
}

INSTANTIATE_TEST_SUITE_P(D2l, D2lParity, ::testing::ValuesIn(golden_case_names("d2l")), case_name);

TEST(D2lGoldenFile, IsComplete) { expect_complete("d2l"); }

}  // namespace
}  // namespace headwise::test_support
