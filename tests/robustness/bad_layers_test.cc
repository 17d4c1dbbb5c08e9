// Layers that cannot be: bad configurations, weights, presets, transforms and calls.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "headwise/headwise.h"
#include "support/expect_bits.h"
#include "support/expect_error.h"

namespace headwise {
namespace {

using test_support::refuses;
using test_support::SentinelOutput;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr const char* kForward = "MultiHeadAttention::forward";
constexpr const char* kBackward = "MultiHeadAttention::backward";

AttentionConfig sound_config() {
  return {.num_heads = 4, .key_dim = 6, .query_features = 8, .dropout = 0.1F};
}

// ---- Configuration -----------------------------------------------------------------------------

struct BadField {
  std::string argument;
  std::function<void(AttentionConfig&)> spoil;
};

std::vector<BadField> bad_fields() {
  using C = AttentionConfig;
  std::vector<BadField> fields;
  for (const std::int64_t bad : {std::int64_t{0}, std::int64_t{-1}}) {
    fields.push_back({"num_heads", [=](C& c) { c.num_heads = bad; }});
    fields.push_back({"num_kv_heads", [=](C& c) { c.num_kv_heads = bad; }});
    fields.push_back({"key_dim", [=](C& c) { c.key_dim = bad; }});
    fields.push_back({"value_dim", [=](C& c) { c.value_dim = bad; }});
    fields.push_back({"query_features", [=](C& c) { c.query_features = bad; }});
    fields.push_back({"key_features", [=](C& c) { c.key_features = bad; }});
    fields.push_back({"value_features", [=](C& c) { c.value_features = bad; }});
    fields.push_back({"output_features", [=](C& c) { c.output_features = bad; }});
  }
  for (const std::int64_t bad : {std::int64_t{3}, std::int64_t{8}}) {
    fields.push_back({"num_kv_heads", [=](C& c) { c.num_kv_heads = bad; }});
  }
  for (const float bad : {-0.1F, 1.0F, 2.0F, kNaN}) {
    fields.push_back({"dropout", [=](C& c) { c.dropout = bad; }});
  }
  for (const float bad : {0.0F, -3.0F, kNaN, kInfinity}) {
    fields.push_back({"softcap", [=](C& c) { c.softcap = bad; }});
  }
  for (const float bad : {kNaN, kInfinity, -kInfinity}) {
    fields.push_back({"scale", [=](C& c) { c.scale = bad; }});
  }
  for (const float bad : {-1e-6F, kNaN, kInfinity}) {
    fields.push_back({"qk_norm_epsilon", [=](C& c) {
                        c.qk_norm = QkNorm::RmsNorm;
                        c.qk_norm_epsilon = bad;
                      }});
  }
  return fields;
}

TEST(BadConfig, EveryFieldThatCannotBe) {
  validate(sound_config());  // does not throw
  for (const BadField& field : bad_fields()) {
    AttentionConfig config = sound_config();
    field.spoil(config);
    EXPECT_TRUE(refuses([&] { validate(config); }, "AttentionConfig", field.argument));
    EXPECT_TRUE(refuses([&] { (void)AttentionWeights::glorot(config, 1); }, "AttentionConfig",
                        field.argument));
    EXPECT_TRUE(refuses([&] { MultiHeadAttention(config, AttentionWeights()); }, "AttentionConfig",
                        field.argument));
    EXPECT_TRUE(refuses([&] { (void)describe(config); }, "AttentionConfig", field.argument));
  }
}

TEST(BadConfig, SizesWhoseProductOverflows) {
  AttentionConfig config = sound_config();
  config.num_heads = std::int64_t{1} << 40;
  config.key_dim = std::int64_t{1} << 40;
  EXPECT_THROW(validate(config), ArgumentError);
  EXPECT_THROW((void)describe(config), ArgumentError);
}

// ---- Weights -----------------------------------------------------------------------------------

TEST(BadWeights, EveryTensorMissingSuperfluousOrOfWrongShape) {
  AttentionConfig config = sound_config();
  config.use_gate = true;
  config.qk_norm = QkNorm::RmsNorm;
  config.add_bias_kv = true;
  for (const WeightField& field : weight_fields()) {
    ASSERT_TRUE(field.present(config)) << field.name;
    const std::string argument = std::string("weights ") + field.name;
    AttentionWeights missing = AttentionWeights::glorot(config, 1);
    missing.*field.tensor = Tensor();
    EXPECT_TRUE(refuses([&] { MultiHeadAttention(config, missing); }, "MultiHeadAttention",
                        argument, "it is missing"));
    AttentionWeights wrong = AttentionWeights::glorot(config, 1);
    const std::int64_t size = (wrong.*field.tensor).size();
    wrong.*field.tensor = Tensor({1, 1, size});
    EXPECT_TRUE(refuses([&] { MultiHeadAttention(config, wrong); }, "MultiHeadAttention", argument,
                        Shape({1, 1, size}).to_string()));
  }
}

TEST(BadWeights, TensorsThatTheConfigurationDoesNotHave) {
  AttentionConfig config = sound_config();
  config.use_bias = false;
  AttentionWeights weights = AttentionWeights::glorot(config, 1);
  weights.query_bias = Tensor({24});
  EXPECT_TRUE(refuses([&] { MultiHeadAttention(config, weights); }, "MultiHeadAttention",
                      "weights query/bias"));
}

TEST(BadWeights, HeadOutOfRange) {
  const AttentionConfig config = sound_config();
  const AttentionWeights weights = AttentionWeights::glorot(config, 1);
  for (const std::int64_t head : {-1, 4}) {
    EXPECT_TRUE(refuses([&] { (void)head_views(config, weights, head); }, "head_views", "head"));
    EXPECT_TRUE(refuses(
        [&] {
          (void)merged_scores({config, weights}, head);
        },
        "merged_scores", "head"));
  }
}

// ---- Calls of a layer --------------------------------------------------------------------------

class BadLayerCall : public ::testing::Test {
 protected:
  ::testing::AssertionResult refused(ForwardOptions options, const std::string& argument,
                                     const std::string& mentions = "") {
    SentinelOutput out({2, 3, 8});
    options.out = out.view();
    auto result = refuses([&] { (void)layer_.forward({.query = x_, .key = y_}, options); },
                          kForward, argument, mentions);
    if (result && !out.untouched()) return ::testing::AssertionFailure() << "out was written";
    return result;
  }
  AttentionConfig config_ = sound_config();
  MultiHeadAttention layer_{config_, AttentionWeights::glorot(config_, 7)};
  Tensor x_ = Tensor::normal({2, 3, 8}, 1);
  Tensor y_ = Tensor::normal({2, 5, 8}, 2);
};

TEST_F(BadLayerCall, TheFixtureItselfIsSound) {
  EXPECT_NO_THROW((void)layer_.forward({.query = x_, .key = y_}));
}

TEST_F(BadLayerCall, Options) {
  EXPECT_TRUE(refused({.mask = causal()}, "options.mask", "BottomRight"));
  EXPECT_TRUE(refused({.mask = valid_lengths({6, 0})}, "options.mask"));
  EXPECT_TRUE(refused({.mask = keep(BoolTensor({2, 3, 5}))}, "options.mask"));
  EXPECT_TRUE(refused({.bias = {Bias(Tensor({4, 5}))}}, "options.bias"));
  EXPECT_TRUE(refused({.weights = {.top_k = -2}}, "options.weights.top_k"));
  EXPECT_TRUE(refused({.weights = selected_weights({4}, {})}, "options.weights.heads"));
  EXPECT_TRUE(refused({.training = true, .sequence_ids = {1, 2, 3}}, "options.sequence_ids"));
  EXPECT_TRUE(refused({.packed = PackedLengths{.query = {0, 3}, .key = {}}}, "query"))
      << "packed inputs have no batch axis";
}

TEST_F(BadLayerCall, Packed) {
  SentinelOutput out({3, 8});
  const Tensor packed = Tensor::normal({3, 8}, 1);
  EXPECT_TRUE(refuses(
      [&] {
        (void)layer_.forward(
            {.query = packed},
            {.packed = PackedLengths{.query = {0, 4}, .key = {}}, .out = out.view()});
      },
      kForward, "options.packed.query"));
  EXPECT_TRUE(out.untouched());
}

TEST_F(BadLayerCall, BackwardWithoutSavedState) {
  const AttentionResult r = layer_.forward({.query = x_, .key = y_});
  EXPECT_TRUE(refuses(
      [&] {
        (void)layer_.backward({.query = x_, .key = y_}, r, Tensor({2, 3, 8}));
      },
      kBackward, "forward", "save_for_backward"));
}

TEST_F(BadLayerCall, BackwardWithOtherInputs) {
  const AttentionResult r = layer_.forward({.query = x_, .key = y_}, {.save_for_backward = true});
  EXPECT_THROW((void)layer_.backward({.query = x_}, r, Tensor({2, 3, 8})), ArgumentError)
      << "5 keys then, 3 now";
  EXPECT_THROW((void)layer_.backward({.query = y_}, r, Tensor({2, 5, 8})), ArgumentError);
}

// ---- Presets -----------------------------------------------------------------------------------

TEST(BadPreset, Configurations) {
  EXPECT_TRUE(refuses([] { presets::torch({.embed_dim = 10, .num_heads = 3}); }, "presets::torch",
                      "embed_dim"));
  EXPECT_TRUE(refuses([] { presets::torch({.embed_dim = 10, .num_heads = 0}); }, "presets::torch",
                      "num_heads"));
  EXPECT_TRUE(refuses([] { presets::d2l({.num_hiddens = 100, .num_heads = 7}); }, "presets::d2l",
                      "num_hiddens"));
  EXPECT_TRUE(refuses([] { presets::d2l({.num_hiddens = 100, .num_heads = -5}); }, "presets::d2l",
                      "num_heads"));
  EXPECT_TRUE(refuses([] { presets::paper(512, 7); }, "presets::paper", "d_model"));
  EXPECT_TRUE(refuses([] { presets::paper(512, 0); }, "presets::paper", "heads"));
}

TEST(BadPreset, MissingTensors) {
  const AttentionConfig torch = presets::torch({.embed_dim = 12, .num_heads = 3});
  const AttentionConfig d2l = presets::d2l({.num_hiddens = 12, .num_heads = 3});
  const AttentionConfig own{.num_heads = 3, .key_dim = 4, .query_features = 12};
  EXPECT_TRUE(refuses(
      [&] {
        presets::torch_weights(torch, {{"in_proj_weight", Tensor({36, 12})},
                                       {"in_proj_bias", Tensor({36})},
                                       {"out_proj.bias", Tensor({12})}});
      },
      "presets::torch_weights", "out_proj.weight"));
  EXPECT_TRUE(refuses(
      [&] {
        presets::torch_weights(torch, {{"in_proj_weight", Tensor({36, 12})},
                                       {"out_proj.weight", Tensor({12, 12})},
                                       {"out_proj.bias", Tensor({12})}});
      },
      "presets::torch_weights", "in_proj_bias"));
  EXPECT_TRUE(
      refuses([&] { presets::keras_weights(own, {}); }, "presets::keras_weights", "query/kernel"));
  EXPECT_TRUE(
      refuses([&] { presets::flax_weights(own, {}); }, "presets::flax_weights", "query/kernel"));
  EXPECT_TRUE(
      refuses([&] { presets::d2l_weights(d2l, {}); }, "presets::d2l_weights", "W_q.weight"));
}

TEST(BadPreset, TensorsOfWrongShape) {
  const AttentionConfig own{.num_heads = 3, .key_dim = 4, .query_features = 12, .use_bias = false};
  EXPECT_TRUE(refuses(
      [&] {
        presets::keras_weights(own, {{"query/kernel", Tensor({12, 4, 3})}});
      },
      "presets::keras_weights", "query/kernel", "(12, 4, 3)"));
  const AttentionConfig torch = presets::torch({.embed_dim = 12, .num_heads = 3, .bias = false});
  EXPECT_TRUE(refuses(
      [&] {
        presets::torch_weights(
            torch, {{"in_proj_weight", Tensor({12, 36})}, {"out_proj.weight", Tensor({12, 12})}});
      },
      "presets::torch_weights", "in_proj_weight", "(12, 36)"));
}

// ---- Transforms --------------------------------------------------------------------------------

TEST(BadTransform, Fold) {
  const AttentionConfig config = sound_config();
  const LayerParts parts{config, AttentionWeights::glorot(config, 1)};
  EXPECT_TRUE(refuses([&] { (void)fold(parts, Projection::Key, Tensor({5, 7})); }, "fold", "map"));
  EXPECT_TRUE(refuses([&] { (void)fold(parts, Projection::Key, Tensor({8})); }, "fold", "map"));
  EXPECT_TRUE(refuses(
      [&] {
        (void)fold(parts, Projection::Query, Tensor({5, 8}), Tensor({5}));
      },
      "fold", "shift"));
}

TEST(BadTransform, FoldOfAShiftWithoutABiasToTakeIt) {
  AttentionConfig config = sound_config();
  config.use_bias = false;
  const LayerParts parts{config, AttentionWeights::glorot(config, 1)};
  const Tensor map({5, 8});
  const Tensor shift({8});
  EXPECT_NO_THROW((void)fold(parts, Projection::Key, map));
  EXPECT_TRUE(refuses([&] { (void)fold(parts, Projection::Key, map, shift); }, "fold", "shift"));
}

TEST(BadTransform, AbsorbKeyWhereScoresAreNotAProduct) {
  const auto refused = [](const std::function<void(AttentionConfig&)>& change,
                          const std::string& mentions) {
    AttentionConfig config = sound_config();
    change(config);
    const LayerParts parts{config, AttentionWeights::glorot(config, 1)};
    return refuses([&] { (void)absorb_key(parts); }, "absorb_key", "layer", "got " + mentions);
  };
  EXPECT_TRUE(refused([](AttentionConfig& c) { c.softcap = 5.0F; }, "softcap"));
  EXPECT_TRUE(refused([](AttentionConfig& c) { c.qk_norm = QkNorm::LayerNorm; }, "qk_norm"));
  EXPECT_TRUE(refused([](AttentionConfig& c) { c.add_bias_kv = true; }, "extra keys"));
  EXPECT_TRUE(refused([](AttentionConfig& c) { c.add_zero_attn = true; }, "extra keys"));
}

}  // namespace
}  // namespace headwise
