// Gradients against central differences of the float64 oracle's forward pass: the oracle's own
// analytic gradients first, which the other tests rest on, then the library's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <ostream>

#include "support/accuracy.h"
#include "support/oracle.h"
#include "support/random_case.h"
#include "support/results.h"

namespace headwise::test_support {
namespace {

using oracle::Array;
using oracle::HeadTensors;
using oracle::LayerTensors;
using oracle::Rounded;

// Fourth order: (8·(f(x+h) − f(x−h)) − (f(x+2h) − f(x−2h))) / 12h. Its error is h⁴/30 ≈ 7·10⁻¹⁸
// times the fifth derivative, up to some 10⁷ where a head with a small deviation is normalised
// (measured: halving h divides the error by 16), plus rounding of f, 10⁻¹⁶·|f|/h ≈ 10⁻¹². Hence the
// tolerance of 10⁻⁹ relative to the largest derivative of the tensor (or to 1): ten times the
// method's error, and sixty times finer than float32.
constexpr double kStep = 1.0 / 8192.0;  // exact in binary
constexpr double kTolerance = 1e-9;

using Loss = std::function<double()>;

double central_difference(double& x, const Loss& loss) {
  const double middle = x;
  const auto at = [&](double steps) {
    x = middle + steps * kStep;
    return loss();
  };
  const double derivative = (8.0 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12.0 * kStep);
  x = middle;
  return derivative;
}

Array<double> differences(Array<double>& array, const Loss& loss) {
  Array<double> result(array.shape);
  for (std::size_t i = 0; i < array.values.size(); ++i)
    result.values[i] = central_difference(array.values[i], loss);
  return result;
}

double tolerance(const Array<double>& derivative) {
  double largest = 1.0;
  for (const double value : derivative.values) largest = std::max(largest, std::abs(value));
  return kTolerance * largest;
}

double dot(const Array<double>& a, const Array<double>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.values.size(); ++i) sum += a.values[i] * b.values[i];
  return sum;
}

// One tensor to differentiate by, everywhere it appears.
struct Subject {
  std::string name;
  Array<double>* variable;
  const Array<double>* analytic;
  const Array<Rounded>* rounded;
  const Array<float>* naive;
  const Tensor* ours;
};

void check(const Subject& subject, const Loss& loss) {
  SCOPED_TRACE(subject.name);
  const Array<double> expected = differences(*subject.variable, loss);
  const double allowed = tolerance(expected);
  Array<Rounded> reference = *subject.rounded;
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    EXPECT_NEAR(subject.analytic->values[i], expected.values[i], allowed)
        << "oracle, element " << i;
    reference.values[i].value = expected.values[i];
  }
  // The library returns the elements in the same order, under its own shape.
  ASSERT_EQ(static_cast<std::size_t>(subject.ours->size()), expected.values.size());
  const Comparison comparison =
      compare(reference, *subject.naive, ConstView(subject.ours->data(), Shape(reference.shape)),
              std::numeric_limits<double>::infinity());
  EXPECT_EQ(comparison.complaint, "");
  EXPECT_LE(comparison.error.ours, kGradientFactor * comparison.error.yardstick() + allowed)
      << "naive " << comparison.error.naive << ", typical " << comparison.error.typical;
}

struct NamedRecipe {
  std::string name;
  Recipe recipe;

  // How GoogleTest prints it.
  friend std::ostream& operator<<(std::ostream& stream, const NamedRecipe& named) {
    return stream << named.recipe;
  }
};

Recipe plain_recipe() {
  Recipe r;
  r.seed = 4;
  r.batch = 2;
  r.queries = 3;
  r.keys = 4;
  r.kv_heads = 2;
  r.key_dim = 3;
  r.value_dim = 2;
  r.query_features = 4;
  r.key_features = 3;
  r.value_features = 2;
  r.output_features = 3;
  r.use_bias = true;
  r.output_bias = true;
  return r;
}

Recipe everything() {
  Recipe r = plain_recipe();
  r.group = 2;
  r.kv_heads = 1;
  r.queries = 4;
  r.keys = 6;
  r.window = WindowKind::Window;
  r.positions = PositionKind::BottomRight;
  r.key_lengths = 1;
  r.query_lengths = true;
  r.keeps = 1;
  r.biases = 2;
  r.infinite_bias = true;
  r.scale = true;
  r.softcap = true;
  r.dropout = 0.5F;
  r.tail = 2;
  r.gate = true;
  r.norm = 2;
  r.add_bias_kv = true;
  r.add_zero_attn = true;
  r.odd_strides = true;
  return r;
}

std::vector<NamedRecipe> named_recipes() {
  std::vector<NamedRecipe> list;
  const auto add = [&](const char* name, const std::function<void(Recipe&)>& change) {
    Recipe recipe = plain_recipe();
    change(recipe);
    list.push_back({name, recipe});
  };
  add("Plain", [](Recipe&) {});
  add("WithoutBias", [](Recipe& r) { r.use_bias = r.output_bias = false; });
  add("GroupedHeads", [](Recipe& r) { r.group = 2; });
  add("ScaleAndSoftcap", [](Recipe& r) { r.scale = r.softcap = true; });
  add("Gate", [](Recipe& r) { r.gate = true; });
  add("RmsNorm", [](Recipe& r) { r.norm = 1; });
  add("LayerNorm", [](Recipe& r) { r.norm = 2; });
  add("ExtraKeys", [](Recipe& r) {
    r.add_bias_kv = r.add_zero_attn = true;
    r.tail = 2;
  });
  add("ExtraKeysAndNorm", [](Recipe& r) {
    r.add_bias_kv = true;
    r.norm = 1;
  });
  add("Dropout", [](Recipe& r) { r.dropout = 0.5F; });
  add("Causal", [](Recipe& r) {
    r.window = WindowKind::Causal;
    r.positions = PositionKind::BottomRight;
  });
  add("Lengths", [](Recipe& r) {
    r.key_lengths = 3;
    r.query_lengths = true;
  });
  add("KeepAndSegments", [](Recipe& r) {
    r.keeps = 2;
    r.segments = 2;
  });
  add("Biases", [](Recipe& r) {
    r.biases = 2;
    r.infinite_bias = true;
    r.dropout = 0.1F;
  });
  add("Packed", [](Recipe& r) {
    r.batch_kind = BatchKind::Packed;
    r.batch = 3;
    r.biases = 1;
  });
  add("OneInput", [](Recipe& r) { r.inputs = InputKind::AllSame; });
  list.push_back({"Everything", everything()});
  Recipe packed = everything();
  packed.batch_kind = BatchKind::Packed;
  packed.norm = 1;
  packed.seed = 9;
  list.push_back({"EverythingPacked", packed});
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    // Small, or differences by every element would take minutes; no sharp softmax, whose high
    // derivatives the differences could not follow.
    Recipe r = random_recipe(seed);
    r.batch = std::clamp<std::int64_t>(r.batch, 1, 2);
    r.queries = std::clamp<std::int64_t>(r.queries, 1, 5);
    r.keys = std::clamp<std::int64_t>(r.keys, 1, 6);
    r.key_dim = std::clamp<std::int64_t>(r.key_dim, 2, 5);
    r.value_dim = std::min<std::int64_t>(r.value_dim, 4);
    r.kv_heads = std::min<std::int64_t>(r.kv_heads, 2);
    r.group = std::min<std::int64_t>(r.group, 2);
    r.query_features = std::min<std::int64_t>(r.query_features, 5);
    r.key_features = std::min<std::int64_t>(r.key_features, 5);
    r.value_features = std::min<std::int64_t>(r.value_features, 5);
    r.output_features = std::min<std::int64_t>(r.output_features, 5);
    r.deviation = 1.0F;
    list.push_back({"Random" + std::to_string(seed), r});
  }
  return list;
}

class FiniteDifferences : public ::testing::TestWithParam<NamedRecipe> {};

INSTANTIATE_TEST_SUITE_P(Cases, FiniteDifferences, ::testing::ValuesIn(named_recipes()),
                         [](const auto& test) { return test.param.name; });

// Row-major in the order of the oracle's (rows, heads, size), which is SequenceFirst.
Tensor sequence_first(const Tensor& tensor, Layout layout) {
  if (layout == Layout::SequenceFirst) return tensor;
  const ConstView view = tensor;
  return Tensor::copy_of(view.rank() == 4 ? view.permuted({0, 2, 1, 3}) : view.permuted({1, 0, 2}));
}

TEST_P(FiniteDifferences, Attention) {
  const OpCase c = make_op_case(GetParam().recipe);
  SCOPED_TRACE(describe(c.recipe));
  const AttentionResult result = attention(c.inputs.query, c.inputs.key, c.inputs.value, c.options);
  const AttentionGradients ours =
      attention_backward(c.inputs, result, c.output_gradient, c.options, {.bias_gradient = true});
  const Tensor query = sequence_first(ours.query, c.options.layout);
  const Tensor key = sequence_first(ours.key, c.options.layout);
  const Tensor value = sequence_first(ours.value, c.options.layout);

  const auto sequences = oracle::head_sequences(c.inputs.query, c.inputs.key, c.options);
  const auto gradients = [&]<typename Scalar>(Scalar) {
    return oracle::attention_backward(oracle::head_tensors<Scalar>(c.inputs, c.options), sequences,
                                      oracle::head_rows<Scalar>(c.output_gradient, c.options),
                                      c.options);
  };
  const auto analytic = gradients(0.0);
  const auto rounded = gradients(Rounded());
  const auto naive = gradients(0.0F);
  HeadTensors<double> x = oracle::head_tensors<double>(c.inputs, c.options);
  const auto direction = oracle::head_rows<double>(c.output_gradient, c.options);
  const Loss loss = [&] {
    return dot(oracle::attention(x, sequences, c.options).output, direction);
  };

  check({"query", &x.query, &analytic.query, &rounded.query, &naive.query, &query}, loss);
  check({"key", &x.key, &analytic.key, &rounded.key, &naive.key, &key}, loss);
  check({"value", &x.value, &analytic.value, &rounded.value, &naive.value, &value}, loss);
  ASSERT_EQ(ours.bias.size(), x.bias.size());
  for (std::size_t i = 0; i < x.bias.size(); ++i) {
    check({"bias", &x.bias[i], &analytic.bias[i], &rounded.bias[i], &naive.bias[i], &ours.bias[i]},
          loss);
  }
}

TEST_P(FiniteDifferences, Layer) {
  LayerCase c = make_layer_case(GetParam().recipe);
  SCOPED_TRACE(describe(c.recipe));
  c.options.save_for_backward = true;
  c.options.training = c.config.dropout > 0.0F;
  const MultiHeadAttention layer(c.config, c.weights);
  const AttentionResult result = layer.forward(c.inputs, c.options);
  const LayerGradients ours =
      layer.backward(c.inputs, result, c.output_gradient, c.options, {.bias_gradient = true});

  const ConstView key = c.inputs.key.present() ? c.inputs.key : c.inputs.query;
  const auto sequences = oracle::layer_sequences(c.inputs.query, key, c.options);
  const auto gradients = [&]<typename Scalar>(Scalar) {
    return oracle::layer_backward(oracle::layer_tensors<Scalar>(c.inputs, c.options, c.weights),
                                  sequences, c.config,
                                  oracle::feature_rows<Scalar>(c.output_gradient), c.options);
  };
  const auto analytic = gradients(0.0);
  const auto rounded = gradients(Rounded());
  const auto naive = gradients(0.0F);
  LayerTensors<double> x = oracle::layer_tensors<double>(c.inputs, c.options, c.weights);
  const auto direction = oracle::feature_rows<double>(c.output_gradient);
  const Loss loss = [&] {
    return dot(oracle::layer(x, sequences, c.config, c.options).output, direction);
  };

  check({"query", &x.query, &analytic.query, &rounded.query, &naive.query, &ours.query}, loss);
  check({"key", &x.key, &analytic.key, &rounded.key, &naive.key, &ours.key}, loss);
  check({"value", &x.value, &analytic.value, &rounded.value, &naive.value, &ours.value}, loss);
  const auto& names = oracle::weight_names<double>();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if ((c.weights.*names[i].library).size() == 0) continue;
    check({names[i].name, &(x.weights.*names[i].oracle), &(analytic.weights.*names[i].oracle),
           &(rounded.weights.*oracle::weight_names<Rounded>()[i].oracle),
           &(naive.weights.*oracle::weight_names<float>()[i].oracle),
           &(ours.weights.*names[i].library)},
          loss);
  }
  ASSERT_EQ(ours.bias.size(), x.bias.size());
  for (std::size_t i = 0; i < x.bias.size(); ++i) {
    check({"bias", &x.bias[i], &analytic.bias[i], &rounded.bias[i], &naive.bias[i], &ours.bias[i]},
          loss);
  }
}

}  // namespace
}  // namespace headwise::test_support
