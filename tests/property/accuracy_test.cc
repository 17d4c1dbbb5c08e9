// The yardstick itself: it lets pass who is as good as the naive implementation, and no one worse.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/accuracy.h"
#include "support/random_case.h"

namespace headwise::test_support {
namespace {

using oracle::Array;
using oracle::LayerTensors;
using oracle::Rounded;

// Rows (rows, features) read backwards, and the kernel (features, out) that goes with them.
Array<float> backwards(const Array<float>& rows) {
  Array<float> result = rows;
  const std::int64_t features = rows.shape.back();
  for (auto first = result.values.begin(); first != result.values.end(); first += features) {
    std::reverse(first, first + features);
  }
  return result;
}

Array<float> upside_down(const Array<float>& kernel) {
  Array<float> result = kernel;
  for (std::int64_t i = 0; i < kernel.shape[0]; ++i) {
    const float* row = kernel.row(kernel.shape[0] - 1 - i);
    std::copy(row, row + kernel.shape[1], result.row(i));
  }
  return result;
}

// The same layer to the mathematician; to float32 its sums run the other way.
LayerTensors<float> summed_backwards(const LayerTensors<float>& x) {
  LayerTensors<float> y = x;
  y.query = backwards(x.query);
  y.key = backwards(x.key);
  y.value = backwards(x.value);
  y.weights.query_kernel = upside_down(x.weights.query_kernel);
  y.weights.key_kernel = upside_down(x.weights.key_kernel);
  y.weights.value_kernel = upside_down(x.weights.value_kernel);
  if (!x.weights.gate_kernel.values.empty())
    y.weights.gate_kernel = upside_down(x.weights.gate_kernel);
  return y;
}

// To 18 bits of mantissa, 6 fewer than float32 has: inputs off by up to 64 of its roundings.
Array<float> coarse(Array<float> array) {
  for (float& value : array.values) {
    int exponent = 0;
    const float mantissa = std::frexp(value, &exponent);
    value = std::ldexp(std::nearbyint(std::ldexp(mantissa, 18)), exponent - 18);
  }
  return array;
}

struct Outputs {
  Array<Rounded> reference;
  Array<float> naive, second, sloppy;
};

Outputs run(std::uint64_t seed) {
  const LayerCase c = make_layer_case(random_recipe(seed));
  const ConstView key = c.inputs.key.present() ? c.inputs.key : c.inputs.query;
  const auto sequences = oracle::layer_sequences(c.inputs.query, key, c.options);
  const auto output = [&](const auto& x) {
    return oracle::layer(x, sequences, c.config, c.options).output;
  };
  const auto x = oracle::layer_tensors<float>(c.inputs, c.options, c.weights);
  auto inexact = x;
  inexact.value = coarse(x.value);
  inexact.weights.output_kernel = coarse(x.weights.output_kernel);
  return {output(oracle::layer_tensors<Rounded>(c.inputs, c.options, c.weights)), output(x),
          output(summed_backwards(x)), output(inexact)};
}

ConstView view_of(const Array<float>& array) { return {array.values.data(), Shape(array.shape)}; }

TEST(Accuracy, YardstickPassesEqualsAndCatchesTheSloppy) {
  int caught = 0;
  int large = 0;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    const Outputs outputs = run(seed);
    EXPECT_EQ(compare(outputs.reference, outputs.naive, view_of(outputs.second), kForwardFactor)
                  .complaint,
              "")
        << "seed " << seed;
    // Tensors of some size, with more than their bias in them.
    if (outputs.reference.values.size() < 100 || outputs.naive.values == outputs.second.values)
      continue;
    ++large;
    if (!compare(outputs.reference, outputs.naive, view_of(outputs.sloppy), kForwardFactor)
             .complaint.empty()) {
      ++caught;
    }
  }
  EXPECT_GT(large, 30);
  EXPECT_GT(caught, large * 8 / 10) << "of " << large;
}

}  // namespace
}  // namespace headwise::test_support
